// SPDX-License-Identifier: GPL-2.0

//! UDP packets to be sent.
//!
//! Owns a packet from its first byte until the network takes it. It is written front to back: first
//! the bytes that are copied ([`TxSkb::put`]), then those that are lent ([`TxSkb::push_frag`],
//! [`TxSkb::push_trailer`]); IP and UDP headers come last, in front ([`TxSkb::send`]). Does not know
//! what the payload is. What the network refuses is lost, as on any wire.
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/linux/page_frag_cache.h`](srctree/include/linux/page_frag_cache.h)

use crate::{
    bindings,
    net::route::{
        Addresses,
        Route, //
    },
    umem::{
        Memory,
        PageFrag, //
    }, //
};
use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    ptr::NonNull,
    slice, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::rcu, //
};

/// Room in front of the payload: any link-layer header, IPv6, UDP.
const HEADROOM: u32 = bindings::LL_MAX_HEADER + 48 + IPV6_LEN + UDP_LEN;

/// Length of a UDP header in bytes.
const UDP_LEN: u32 = 8;

/// Length of an IPv4 header without options, in bytes.
const IPV4_LEN: u32 = 20;

/// Length of an IPv6 header in bytes.
const IPV6_LEN: u32 = 40;

/// "Don't fragment" in the flags of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

/// Protocol number of UDP.
const UDP: u8 = bindings::IPPROTO_UDP as u8;

/// Mark of a buffer that holds pages which others may write to.
const SHARED_FRAG: u8 = bindings::SKBFL_SHARED_FRAG as u8;

/// What became of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Xmit {
    /// The network has it.
    Sent,
    /// The network has it, or has dropped another one for it: send less (`NET_XMIT_CN`).
    Congested,
    /// It is gone.
    Lost,
}

/// What stands in the IP header, where there is a choice.
#[derive(Clone, Copy, Debug)]
pub struct IpHeader {
    /// Source and destination.
    pub addresses: Addresses,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits. Not in IPv4.
    pub flow_label: u32,
    /// IPv4 identification. Not in IPv6. Sent as it is: an ICRC covers it.
    pub ipv4_id: u16,
}

/// A UDP packet in the making.
///
/// # Invariants
///
/// - The buffer is valid and ours alone, with at least [`HEADROOM`] bytes in front of the data.
/// - `room` bytes are free behind the linear part, and there are no fragments if that is not 0.
pub struct TxSkb {
    raw: NonNull<bindings::sk_buff>,
    room: usize,
}

// SAFETY: The buffer is ours alone.
unsafe impl Send for TxSkb {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for TxSkb {}

impl TxSkb {
    /// A packet with room for `linear` bytes of UDP payload that are copied, besides what is lent.
    /// For any context. `None`: no memory.
    pub fn new(linear: usize) -> Option<Self> {
        let size = u32::try_from(linear).ok()?.checked_add(HEADROOM)?;
        // SAFETY: No precondition.
        let raw = unsafe {
            bindings::__alloc_skb(size, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1)
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: New, and empty.
        unsafe { bindings::ferroce_helper_skb_reserve(raw.as_ptr(), HEADROOM as c_int) };
        // INVARIANT: As allocated.
        Some(Self { raw, room: linear })
    }

    #[inline]
    fn as_raw(&self) -> *mut bindings::sk_buff {
        self.raw.as_ptr()
    }

    /// Length of the UDP payload in bytes, as far as it is written.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> usize {
        // SAFETY: Valid, and ours.
        unsafe { (*self.as_raw()).len as usize }
    }

    /// Where the next byte of the linear part goes, if there is room for `len`.
    fn tail(&mut self, len: usize) -> Result<*mut u8> {
        if len > self.room {
            return Err(ENOSPC);
        }
        // SAFETY: Valid, and ours; by the invariant, `room` bytes follow the linear part.
        Ok(unsafe {
            let fields = self.raw.as_ref();
            fields.head.add(fields.tail as usize)
        })
    }

    /// Counts `len` bytes that were written at [`TxSkb::tail`] as part of the packet.
    ///
    /// # Safety
    ///
    /// They were, and `len` is not more than was asked for.
    unsafe fn written(&mut self, len: usize) {
        // INVARIANT: As many bytes fewer.
        self.room = self.room.wrapping_sub(len);
        // CAST: No more than `new` was given.
        // SAFETY: There is room, so there are no fragments either.
        unsafe { bindings::skb_put(self.as_raw(), len as u32) };
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not so much room, or something was lent already.
    pub fn put(&mut self, bytes: &[u8]) -> Result {
        let tail = self.tail(bytes.len())?;
        // SAFETY: As many bytes are free there, and nobody else knows them.
        unsafe {
            tail.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.written(bytes.len());
        }
        Ok(())
    }

    /// Appends `len` bytes that `fill` writes. They are zeros to begin with.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not so much room, or something was lent already. What `fill` says; the packet is
    /// as it was then.
    pub fn put_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result) -> Result {
        let tail = self.tail(len)?;
        // SAFETY: As many bytes are free there, and nobody else knows them.
        unsafe {
            tail.write_bytes(0, len);
            fill(slice::from_raw_parts_mut(tail, len))?;
            self.written(len);
        }
        Ok(())
    }

    /// Appends a copy of `len` bytes at `offset` of `memory`, and returns the copy, which nobody
    /// changes any more.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not so much room, or something was lent already. `EFAULT`: the memory has not so
    /// many bytes.
    pub fn put_memory(&mut self, memory: &Memory, offset: u64, len: usize) -> Result<&[u8]> {
        let tail = self.tail(len)?;
        // SAFETY: As many bytes are free there, nobody else knows them, and `read_raw` writes all
        // of them.
        unsafe {
            memory.read_raw(offset, tail, len)?;
            self.written(len);
            Ok(slice::from_raw_parts(tail, len))
        }
    }

    /// Lends the bytes of `frag` to the packet. Whoever receives it finds what is there by then, so
    /// the owner should leave them alone.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the packet has too many pieces. `ENOMEM`: the bytes had to be copied, and there was
    /// no memory.
    pub fn push_frag(&mut self, frag: PageFrag<'_>) -> Result {
        let shared = self.shared_for_frag()?;
        if !frag.can_be_lent() {
            // SAFETY: For any context.
            let copy = unsafe { bindings::__netdev_alloc_frag_align(frag.len(), UNALIGNED) };
            let copy = NonNull::new(copy).ok_or(ENOMEM)?;
            // SAFETY: As long as the frag, and ours, with its reference.
            unsafe {
                frag.read_raw(copy.as_ptr());
                self.attach(copy.as_ptr(), frag.len());
            }
            return Ok(());
        }
        // SAFETY: The page is valid while the frag is borrowed, and may be lent. The packet gets a
        // reference of its own. The mark keeps the network from writing to it.
        unsafe {
            (*shared).flags |= SHARED_FRAG;
            bindings::ferroce_helper_get_page(frag.page());
            self.attach(frag.address(), frag.len());
        }
        Ok(())
    }

    /// Appends a copy of `bytes`, also after something was lent. At most a page.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the packet has too many pieces. `ENOMEM`.
    pub fn push_trailer(&mut self, cache: &mut FragCache, bytes: &[u8]) -> Result {
        self.shared_for_frag()?;
        let place = cache.alloc(bytes.len()).ok_or(ENOMEM)?.as_ptr();
        // SAFETY: As long as `bytes`, and ours, with its reference. CAST: At most a page.
        unsafe {
            place
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.attach(place, bytes.len() as u32);
        }
        Ok(())
    }

    /// The shared part of the buffer, if it takes another fragment.
    fn shared_for_frag(&self) -> Result<*mut bindings::skb_shared_info> {
        // SAFETY: Valid, and ours.
        unsafe {
            let shared = bindings::ferroce_helper_skb_shinfo(self.as_raw());
            let taken = usize::from((*shared).nr_frags);
            (taken < capacity(&raw const (*shared).frags))
                .then_some(shared)
                .ok_or(ENOSPC)
        }
    }

    /// Appends `len` bytes at `address`.
    ///
    /// # Safety
    ///
    /// There is a place for another fragment. The bytes lie in one page, a reference to which goes
    /// to the packet.
    unsafe fn attach(&mut self, address: *mut c_void, len: u32) {
        // INVARIANT: No more bytes in the linear part from now on.
        self.room = 0;
        // CAST: Both are at most a page.
        let offset = (address.addr() & (PAGE_SIZE - 1)) as c_int;
        // SAFETY: As the function requires.
        unsafe {
            let page = bindings::ferroce_helper_virt_to_page(address);
            bindings::ferroce_helper_skb_add_rx_frag(self.as_raw(), page, offset, len as c_int);
        }
    }

    /// Puts UDP and IP headers in front, and gives the packet to the network. For any context but
    /// hard interrupts.
    pub fn send(mut self, route: &Route, ip: &IpHeader, ports: (u16, u16)) -> Xmit {
        let Ok(udp_len) = u16::try_from(self.len().wrapping_add(UDP_LEN as usize)) else {
            return Xmit::Lost;
        };
        self.push(&udp_header(ports, udp_len));
        let (protocol, ip_len) = match ip.addresses {
            Addresses::V4 { src, dst } if route.is_v4() => {
                self.push(&ipv4_header(ip, src, dst));
                (bindings::ETH_P_IP, IPV4_LEN)
            }
            Addresses::V6 { src, dst } if !route.is_v4() => {
                self.push(&ipv6_header(ip, src, dst, udp_len));
                (bindings::ETH_P_IPV6, IPV6_LEN)
            }
            _ => return Xmit::Lost,
        };
        let skb = ManuallyDrop::new(self).as_raw();
        let _guard = rcu::read_lock();
        // CAST: EtherTypes have 16 bits.
        let ethertype = (protocol as u16).to_be();
        // SAFETY: The packet is complete; it goes to the function, in any case. The route is of the
        // same family, and RCU and `route` keep it.
        let result = unsafe {
            bindings::ferroce_helper_skb_set_headers(skb, ip_len as c_int);
            let dst = route.as_raw();
            bindings::ferroce_helper_skb_set_output(skb, dst, ethertype, ip.traffic_class);
            if route.is_v4() {
                bindings::ferroce_helper_ip_local_out(skb)
            } else {
                bindings::ferroce_helper_ip6_local_out(skb)
            }
        };
        match u32::try_from(result) {
            Ok(bindings::NET_XMIT_SUCCESS) => Xmit::Sent,
            Ok(bindings::NET_XMIT_CN) => Xmit::Congested,
            _ => Xmit::Lost,
        }
    }

    /// Puts a header in front.
    fn push<const N: usize>(&mut self, header: &[u8; N]) {
        const { assert!(N <= IPV6_LEN as usize) };
        // SAFETY: By the invariant there is room for all headers, and this is called for no more
        // than one of IP and one of UDP. CAST: See above.
        unsafe {
            let place: *mut u8 = bindings::skb_push(self.as_raw(), N as u32).cast();
            place.copy_from_nonoverlapping(header.as_ptr(), N);
        }
    }
}

impl Drop for TxSkb {
    fn drop(&mut self) {
        // SAFETY: The buffer is ours.
        unsafe { bindings::consume_skb(self.as_raw()) };
    }
}

/// A UDP header with checksum 0, which RoCE sends (IBA annex 17).
fn udp_header((source, dest): (u16, u16), len: u16) -> [u8; UDP_LEN as usize] {
    let ([a, b], [c, d], [e, f]) = (source.to_be_bytes(), dest.to_be_bytes(), len.to_be_bytes());
    [a, b, c, d, e, f, 0, 0]
}

/// An IPv4 header. Total length and checksum are filled in by the network stack.
fn ipv4_header(ip: &IpHeader, src: [u8; 4], dst: [u8; 4]) -> [u8; IPV4_LEN as usize] {
    let [id_high, id_low] = ip.ipv4_id.to_be_bytes();
    let [flags, fragment] = DONT_FRAGMENT.to_be_bytes();
    let [s0, s1, s2, s3] = src;
    let [d0, d1, d2, d3] = dst;
    [
        0x45,
        ip.traffic_class,
        0,
        0,
        id_high,
        id_low,
        flags,
        fragment,
        ip.hop_limit,
        UDP,
        0,
        0,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ]
}

/// An IPv6 header in front of `len` bytes.
fn ipv6_header(ip: &IpHeader, src: [u8; 16], dst: [u8; 16], len: u16) -> [u8; IPV6_LEN as usize] {
    let class = u32::from(ip.traffic_class) << 20;
    let first = 6 << 28 | class | (ip.flow_label & 0xf_ffff);
    let mut header = [0; IPV6_LEN as usize];
    let (fixed, addresses) = header.split_at_mut(8);
    let (word, rest) = fixed.split_at_mut(4);
    word.copy_from_slice(&first.to_be_bytes());
    let [high, low] = len.to_be_bytes();
    rest.copy_from_slice(&[high, low, UDP, ip.hop_limit]);
    let (from, to) = addresses.split_at_mut(16);
    from.copy_from_slice(&src);
    to.copy_from_slice(&dst);
    header
}

/// A page from which trailers of a few bytes are cut.
pub struct FragCache(bindings::page_frag_cache);

impl FragCache {
    /// Empty: memory is taken with the first trailer.
    pub const fn new() -> Self {
        Self(bindings::page_frag_cache {
            encoded_page: 0,
            offset: 0,
            pagecnt_bias: 0,
        })
    }

    fn alloc(&mut self, len: usize) -> Option<NonNull<c_void>> {
        let len = u32::try_from(len)
            .ok()
            .filter(|len| *len as usize <= PAGE_SIZE)?;
        // SAFETY: Ours alone. For any context, with these flags.
        NonNull::new(unsafe {
            bindings::__page_frag_alloc_align(&mut self.0, len, bindings::GFP_ATOMIC, UNALIGNED)
        })
    }
}

impl Default for FragCache {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FragCache {
    fn drop(&mut self) {
        // SAFETY: Ours alone. What was cut has references of its own.
        unsafe { bindings::page_frag_cache_drain(&mut self.0) };
    }
}

/// The alignment mask of C that leaves addresses as they are.
const UNALIGNED: u32 = !0;

/// Length of an array behind a pointer.
fn capacity<T, const N: usize>(_: *const [T; N]) -> usize {
    N
}
