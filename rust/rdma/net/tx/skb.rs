// SPDX-License-Identifier: GPL-2.0

//! UDP packets to be sent.
//!
//! Owns a packet from its first byte until it is complete. Its payload is written front to back, all of it
//! copied: what leaves is what was put in, whatever happens to the memory that it came from. IP and UDP headers come
//! last, in front ([`TxSkb::seal`]). Does not know what the payload is, nor how the packet gets on its way: see
//! [`burst`](crate::net::tx::gso_list).
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    mm::memory::Memory,
    net::{
        route::Addresses,
        tx::header::{
            ipv4_header,
            ipv6_header,
            udp_header,
            IpHeader,
            IPV4_LEN,
            IPV6_LEN,
            UDP_LEN, //
        }, //
    }, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    slice, //
};
use kernel::prelude::*;

/// What a tunnel may put in front: GENEVE with all options in IPv6, and the Ethernet header that it carries. Of a
/// burst tunnels look at the first packet only.
const TUNNEL: u32 = 40 + 8 + 8 + 252 + 18;

/// Room in front of the payload: tunnel, any link-layer header, IPv6, UDP.
// CAST: Small numbers.
const HEADROOM: u32 = TUNNEL + bindings::LL_MAX_HEADER + (IPV6_LEN + UDP_LEN) as u32;

/// A UDP packet in the making.
///
/// # Invariants
///
/// - The buffer is valid and ours alone, with at least [`HEADROOM`] bytes in front of the data.
/// - `room` bytes are free behind the data, all of which is in the linear part.
pub struct TxSkb {
    raw: NonNull<bindings::sk_buff>,
    room: usize,
}

// SAFETY: The buffer is ours alone.
unsafe impl Send for TxSkb {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for TxSkb {}

impl TxSkb {
    /// A packet with room for `len` bytes of UDP payload. For any context. `None`: no memory.
    pub fn new(len: usize) -> Option<Self> {
        let size = u32::try_from(len).ok()?.checked_add(HEADROOM)?;
        // SAFETY: No precondition.
        let raw = unsafe {
            bindings::__alloc_skb(size, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1)
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: New, and empty.
        unsafe { bindings::ferroce_helper_skb_reserve(raw.as_ptr(), HEADROOM as c_int) };
        // INVARIANT: As allocated.
        Some(Self { raw, room: len })
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.raw.as_ptr()
    }

    /// Length of the UDP payload in bytes, as far as it is written.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> usize {
        // SAFETY: Valid, and ours.
        unsafe { (*self.as_raw()).len as usize }
    }

    /// Where the next byte goes, if there is room for `len`.
    fn tail(&mut self, len: usize) -> Result<*mut u8> {
        if len > self.room {
            return Err(ENOSPC);
        }
        // SAFETY: Valid, and ours; by the invariant, `room` bytes follow the data.
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
        // SAFETY: There is room, and there are no fragments.
        unsafe { bindings::skb_put(self.as_raw(), len as u32) };
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not so much room.
    pub fn put(&mut self, bytes: &[u8]) -> Result {
        let tail = self.tail(bytes.len())?;
        // SAFETY: As many bytes are free there, and nobody else knows them.
        unsafe {
            tail.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.written(bytes.len());
        }
        Ok(())
    }

    /// Appends a copy of `len` bytes at `offset` of `memory`, and returns the copy, which nobody
    /// changes any more.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not so much room. `EFAULT`: the memory has not so many bytes.
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

    /// Puts UDP and IP headers in front. `None`: the packet is too long.
    pub fn seal(mut self, ip: &IpHeader, ports: (u16, u16)) -> Option<IpPacket> {
        let payload = self.len();
        let udp_len = u16::try_from(payload.wrapping_add(UDP_LEN)).ok()?;
        self.push(&udp_header(ports, udp_len));
        match ip.addresses {
            Addresses::V4 { src, dst } => self.push(&ipv4_header(ip, src, dst)),
            Addresses::V6 { src, dst } => self.push(&ipv6_header(ip, src, dst, udp_len)),
        }
        let ip_len = ip.addresses.header_len();
        // CAST: 20 or 40.
        // SAFETY: The packet is ours, and begins with as many bytes.
        unsafe { bindings::ferroce_helper_skb_set_headers(self.as_raw(), ip_len as c_int) };
        Some(IpPacket {
            skb: self,
            // CAST: At most 64 KiB, and at most 48.
            payload: payload as u32,
            headers_len: ip_len.wrapping_add(UDP_LEN) as u8,
            ipv4_id: ip.ipv4_id,
            traffic_class: ip.traffic_class,
            priority: ip.priority,
        })
    }

    /// Puts a header in front.
    fn push<const N: usize>(&mut self, header: &[u8; N]) {
        const { assert!(N <= IPV6_LEN) };
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
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// A UDP packet with its headers, ready to be sent. Those fields that depend on the length of what
/// is sent at a time are filled in by the network stack.
pub struct IpPacket {
    skb: TxSkb,
    payload: u32,
    /// Length of the IP and UDP headers.
    headers_len: u8,
    ipv4_id: u16,
    traffic_class: u8,
    priority: u8,
}

impl IpPacket {
    /// Length of the UDP payload in bytes.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.payload
    }

    /// Length of the IP and UDP headers in bytes.
    #[inline]
    pub(super) fn headers_len(&self) -> u32 {
        self.headers_len.into()
    }

    /// Length with all headers from IP on, in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> u32 {
        self.payload.wrapping_add(self.headers_len())
    }

    /// Whether it is of IPv4.
    #[inline]
    pub(super) fn is_v4(&self) -> bool {
        usize::from(self.headers_len) == IPV4_LEN.wrapping_add(UDP_LEN)
    }

    /// Its IPv4 identification.
    #[inline]
    pub(super) fn ipv4_id(&self) -> u16 {
        self.ipv4_id
    }

    /// Its traffic class, and its priority, which is 0 if the traffic class decides.
    #[inline]
    pub(super) fn class(&self) -> (u8, u8) {
        (self.traffic_class, self.priority)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_raw()
    }

    /// The buffer, which is the caller's from now on.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self.skb).as_raw()
    }
}
