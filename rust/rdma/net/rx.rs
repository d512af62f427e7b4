// SPDX-License-Identifier: GPL-2.0

//! UDP packets that have come in.
//!
//! Owns them: they are freed when dropped. A packet lies in several pieces, and stays so; bytes
//! are copied out of it, or checked in place, but it is never made contiguous. Does not know what
//! the payload is.
//!
//! Offsets count from the first byte of the UDP payload.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    net::route::Addresses, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    },
    slice, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Length of a UDP header in bytes.
const UDP_LEN: usize = 8;

/// Length of an IPv6 header in bytes.
const IPV6_LEN: usize = 40;

/// Length of an IPv4 header without options, in bytes.
const IPV4_LEN: usize = 20;

/// A received UDP packet. Later, the packets of a whole burst may be in one: what is said here of
/// the packet is then said of its first.
///
/// # Invariants
///
/// - The buffer is valid and ours alone, and depends on nothing that RCU keeps. What it points to may
///   be shared with clones, so nobody writes to it.
/// - `data` is at the UDP header. The bytes from the network header to the end of the UDP header are
///   in the linear part; they are a valid IPv4 or IPv6 header with what belongs to it, and the UDP
///   header.
/// - `cb` is initialised, and nobody else's.
pub struct RxSkb(NonNull<bindings::sk_buff>);

// SAFETY: The buffer is ours alone.
unsafe impl Send for RxSkb {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for RxSkb {}

/// Index of the loopback interface in every namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK_IFINDEX: i32 = 1;

impl RxSkb {
    /// Takes over a packet from the `encap_rcv` hook of a UDP socket.
    ///
    /// # Safety
    ///
    /// `raw` is valid and the caller's, and is as UDP passes it to the hook.
    pub(crate) unsafe fn from_encap(raw: *mut bindings::sk_buff) -> Self {
        // SAFETY: As the function requires. Lets go of route, socket and interface: RCU keeps them,
        // and the packet may be kept for longer.
        unsafe { bindings::ferroce_helper_skb_detach(raw) };
        // INVARIANT: IP and UDP have pulled and checked their headers. What they had in `cb` was
        // for them.
        // SAFETY: Valid, so not null.
        Self(unsafe { NonNull::new_unchecked(raw) })
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).as_raw()
    }

    #[inline]
    fn fields(&self) -> &bindings::sk_buff {
        // SAFETY: Valid, and not changed while `self` is borrowed.
        unsafe { self.0.as_ref() }
    }

    /// Length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        // CAST: `u32` to `usize`, on 64 bits.
        (self.fields().len as usize).saturating_sub(UDP_LEN)
    }

    /// Makes the first `len` bytes of the payload contiguous. `false`: there are not so many, or no
    /// memory.
    pub fn pull(&mut self, len: usize) -> bool {
        let Ok(len) = u32::try_from(len.saturating_add(UDP_LEN)) else {
            return false;
        };
        // SAFETY: The buffer is ours, and no slice of it is borrowed.
        unsafe { bindings::ferroce_helper_pskb_may_pull(self.as_raw(), len) }
    }

    /// The first `len` bytes of the payload, if they are contiguous: see [`RxSkb::pull`].
    #[inline]
    pub fn header(&self, len: usize) -> Option<&[u8]> {
        let fields = self.fields();
        // CAST: `u32` to `usize`, on 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        if len > linear.checked_sub(UDP_LEN)? {
            return None;
        }
        // SAFETY: The linear part is initialised, and is at least so long.
        Some(unsafe { slice::from_raw_parts(fields.data.add(UDP_LEN), len) })
    }

    /// The headers as they have come in: IP with its options, and UDP.
    #[inline]
    pub fn ip_and_udp_header(&self) -> &[u8] {
        let fields = self.fields();
        // SAFETY: By the invariant, both are in the linear part, one after the other.
        unsafe {
            let ip: *const u8 = bindings::ferroce_helper_skb_network_header(self.as_raw())
                .cast_const()
                .cast();
            let len = fields
                .data
                .addr()
                .wrapping_sub(ip.addr())
                .wrapping_add(UDP_LEN);
            slice::from_raw_parts(ip, len)
        }
    }

    /// The IP header, and the rest.
    #[inline]
    fn ip(&self) -> Ip<'_> {
        let headers = self.ip_and_udp_header();
        if headers.first().is_some_and(|byte| byte >> 4 == 4) {
            headers.first_chunk().map_or(Ip::None, Ip::V4)
        } else {
            headers.first_chunk().map_or(Ip::None, Ip::V6)
        }
    }

    /// Where the packet comes from, and which of our addresses it was sent to.
    #[inline]
    pub fn addresses(&self) -> Addresses {
        match self.ip() {
            Ip::V4(&[.., a, b, c, d, e, f, g, h]) => Addresses::V4 {
                src: [a, b, c, d],
                dst: [e, f, g, h],
            },
            Ip::V6(header) => {
                let mut addresses = [[0; 16]; 2];
                let (_, from) = header.split_at(8);
                addresses.as_flattened_mut().copy_from_slice(from);
                let [src, dst] = addresses;
                Addresses::V6 { src, dst }
            }
            Ip::None => Addresses::V4 {
                src: [0; 4],
                dst: [0; 4],
            },
        }
    }

    /// IPv4 type of service or IPv6 traffic class, with the ECN bits.
    pub fn traffic_class(&self) -> u8 {
        match self.ip() {
            Ip::V4(&[_, tos, ..]) => tos,
            Ip::V6(&[high, low, ..]) => high << 4 | low >> 4,
            Ip::None => 0,
        }
    }

    /// Explicit congestion notification (RFC 3168): 3 if the network was congested.
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// IPv4 time to live or IPv6 hop limit.
    pub fn hop_limit(&self) -> u8 {
        match self.ip() {
            Ip::V4(header) => header[8],
            Ip::V6(header) => header[7],
            Ip::None => 0,
        }
    }

    /// IPv6 flow label; 0 for IPv4.
    pub fn flow_label(&self) -> u32 {
        match self.ip() {
            Ip::V6(&[_, a, b, c, ..]) => u32::from_be_bytes([0, a & 0xf, b, c]),
            _ => 0,
        }
    }

    /// Index of the interface that the packet has come in by.
    pub fn ifindex(&self) -> i32 {
        // SAFETY: Valid.
        unsafe { bindings::ferroce_helper_skb_iif(self.as_raw()) }
    }

    /// Whether the packet has come in by the loopback interface of its namespace: it has never left
    /// this machine.
    pub fn came_by_loopback(&self) -> bool {
        self.ifindex() == LOOPBACK_IFINDEX
    }

    /// Whether the packet has never been on a wire since somebody on this machine, or on its host,
    /// left a checksum for later.
    pub fn came_from_this_host(&self) -> bool {
        // SAFETY: Valid.
        let summed = unsafe { bindings::ferroce_helper_skb_ip_summed(self.as_raw()) };
        u32::from(summed) == bindings::CHECKSUM_PARTIAL
    }

    /// Copies bytes at `offset` of the payload to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packet has not so many.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes.
        unsafe { self.copy_raw(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `offset` of the payload to `to`.
    ///
    /// # Safety
    ///
    /// `to` is valid for writing `len` bytes. Others may be using them at the same time; then
    /// nobody may rely on what they read.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packet has not so many.
    #[inline]
    pub(crate) unsafe fn copy_raw(&self, offset: usize, to: *mut u8, len: usize) -> Result {
        let offset = offset.checked_add(UDP_LEN).ok_or(EFAULT)?;
        let (offset, len) = (i32::try_from(offset), i32::try_from(len));
        let (Ok(offset), Ok(len)) = (offset, len) else {
            return Err(EFAULT);
        };
        // SAFETY: The packet is valid, and so is `to`. C checks the range.
        to_result(unsafe { bindings::skb_copy_bits(self.as_raw(), offset, to.cast(), len) })
    }

    /// Continues CRC-32 `crc` over `len` bytes at `offset` of the payload, or as many as there
    /// are, piece by piece. See [`crc32_le`](crate::crc32::crc32_le).
    pub fn crc32(&self, offset: usize, len: usize, mut crc: u32) -> u32 {
        let total = self.fields().len;
        let bound = |at: usize| u32::try_from(at).map_or(total, |at| at.min(total));
        let from = bound(offset.saturating_add(UDP_LEN));
        let to = bound(offset.saturating_add(UDP_LEN).saturating_add(len));
        let mut state: bindings::skb_seq_state = pin_init::zeroed();
        let mut piece = ptr::null();
        let mut done = 0;
        // SAFETY: The packet is valid and not changed meanwhile. Every piece is valid until the
        // next one is asked for; the walk ends by itself when there is none.
        unsafe {
            bindings::skb_prepare_seq_read(self.as_raw(), from, to, &mut state);
            loop {
                let len = bindings::skb_seq_read(done, &mut piece, &mut state);
                if len == 0 {
                    return crc;
                }
                // The last piece is as long as its part of the buffer, whatever was asked for.
                let len = len.min(to.saturating_sub(from).saturating_sub(done));
                crc = bindings::crc32_le(crc, piece.cast(), len as usize);
                done = done.wrapping_add(len);
            }
        }
    }

    /// What [`RxSkb::set_cb`] has put here; anything if it has not.
    #[inline]
    pub fn cb<C: FromBytes>(&self) -> C {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: Initialised, by the invariant, and long enough; any bytes are a `C`.
        unsafe { (&raw const self.fields().cb).cast::<C>().read_unaligned() }
    }

    /// Keeps `value` with the packet.
    #[inline]
    pub fn set_cb<C: IntoBytes + Immutable>(&mut self, value: C) {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: Ours, and long enough; a `C` has no padding that would not be initialised.
        unsafe {
            (&raw mut (*self.as_raw()).cb)
                .cast::<C>()
                .write_unaligned(value);
        }
    }

    /// Another packet with the same content, which is not copied. For any context. `None`: no memory.
    pub fn try_clone(&self) -> Option<Self> {
        // SAFETY: Valid. The clone is new, has the same headers at the same places, and holds what it
        // points to.
        let clone = unsafe {
            bindings::skb_clone(self.as_raw(), bindings::GFP_ATOMIC | bindings::__GFP_NOWARN)
        };
        // INVARIANT: See above.
        NonNull::new(clone).map(Self)
    }

    /// Frees a packet that nobody wanted, so that tools which watch for drops see it.
    pub fn refuse(self) {
        let reason = bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED;
        // SAFETY: The packet is ours.
        unsafe { bindings::sk_skb_reason_drop(ptr::null(), self.into_raw(), reason) };
    }
}

impl Drop for RxSkb {
    fn drop(&mut self) {
        // SAFETY: The packet is ours.
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// Bytes that an owner may keep with a packet.
pub const CB_LEN: usize = 48;

/// The fixed part of an IP header.
enum Ip<'a> {
    V4(&'a [u8; IPV4_LEN]),
    V6(&'a [u8; IPV6_LEN]),
    /// Cannot be, but costs less to allow for than to prove.
    None,
}

/// Packets that wait, first in, first out.
///
/// # Invariants
///
/// Every buffer in the queue has the invariants of [`RxSkb`].
#[pin_data(PinnedDrop)]
pub struct SkbQueue {
    #[pin]
    head: Opaque<bindings::sk_buff_head>,
    limit: u32,
}

// SAFETY: The queue has its own lock.
unsafe impl Send for SkbQueue {}
// SAFETY: See `Send`.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// A queue for `limit` packets, or a few more if several CPUs bring the last at once.
    pub fn new(limit: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises all of it, in place.
            head <- Opaque::ffi_init(|head| unsafe {
                bindings::ferroce_helper_skb_queue_head_init(head);
            }),
            limit,
        })
    }

    /// Appends a packet. For any context. `false`: the queue was full, and the packet is gone.
    pub fn push(&self, skb: RxSkb) -> bool {
        // SAFETY: Initialised.
        let len = unsafe { bindings::ferroce_helper_skb_queue_len_lockless(self.head.get()) };
        if len >= self.limit {
            skb.refuse();
            return false;
        }
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_tail(self.head.get(), skb.into_raw()) };
        true
    }

    /// Puts back a packet that was the first.
    pub fn unpop(&self, skb: RxSkb) {
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_head(self.head.get(), skb.into_raw()) };
    }

    /// Takes the first packet out. For any context.
    #[inline]
    pub fn pop(&self) -> Option<RxSkb> {
        // SAFETY: Initialised.
        NonNull::new(unsafe { bindings::skb_dequeue(self.head.get()) }).map(RxSkb)
    }

    /// Whether it is empty. With nothing to synchronise with, the answer may be old.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // SAFETY: Initialised.
        unsafe { bindings::ferroce_helper_skb_queue_len_lockless(self.head.get()) == 0 }
    }

    /// Frees every packet.
    pub fn purge(&self) {
        let reason = bindings::skb_drop_reason_SKB_DROP_REASON_QUEUE_PURGE;
        // SAFETY: Initialised.
        unsafe { bindings::skb_queue_purge_reason(self.head.get(), reason) };
    }
}

#[pinned_drop]
impl PinnedDrop for SkbQueue {
    fn drop(self: Pin<&mut Self>) {
        self.purge();
    }
}
