// SPDX-License-Identifier: GPL-2.0

//! UDP packets to send, one skb each.
//!
//! The payload is written front to back. It is copied, so later changes of its source do not affect the
//! packet. IP and UDP headers are prepended last ([`TxSkb::seal`]). [`gso_list`](crate::net::tx::gso_list)
//! sends the packet.
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

/// Room for the headers of a tunnel: GENEVE with all options over IPv6, and the inner Ethernet header.
/// Tunnels look at the first packet of a GSO list only.
const TUNNEL_HEADROOM: u32 = 40 + 8 + 8 + 252 + 18;

/// Room in front of the payload: tunnel, any link-layer header, IPv6, UDP.
// CAST: The lengths are small.
pub(super) const HEADROOM: u32 =
    TUNNEL_HEADROOM + bindings::LL_MAX_HEADER + (IPV6_LEN + UDP_LEN) as u32;

/// An skb, freed by the drop.
///
/// # Invariants
///
/// The skb is valid and owned.
pub(super) struct OwnedSkb(NonNull<bindings::sk_buff>);

// SAFETY: The skb has one owner and belongs to no task.
unsafe impl Send for OwnedSkb {}

impl OwnedSkb {
    /// Takes over an skb; `None` if `raw` is null.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or valid and owned by the caller.
    pub(super) unsafe fn new(raw: *mut bindings::sk_buff) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(Self)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// Returns the skb, which the caller then owns.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Drop for OwnedSkb {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// A UDP packet that is being written.
///
/// # Invariants
///
/// - The skb is valid and owned, with at least [`HEADROOM`] bytes in front of the data.
/// - `room` bytes are free behind the data, all of which is in the linear part.
pub struct TxSkb {
    raw: NonNull<bindings::sk_buff>,
    room: usize,
}

// SAFETY: The skb has one owner and belongs to no task.
unsafe impl Send for TxSkb {}
// SAFETY: A shared reference only reads the skb.
unsafe impl Sync for TxSkb {}

impl TxSkb {
    /// Allocates a packet with room for `len` bytes of UDP payload. For any context. `None` if there is no
    /// memory.
    pub fn new(len: usize) -> Option<Self> {
        let size = u32::try_from(len).ok()?.checked_add(HEADROOM)?;
        // SAFETY: `__alloc_skb` has no preconditions for an atomic allocation.
        let raw = unsafe {
            bindings::__alloc_skb(size, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1)
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: The skb is new and empty, and has `HEADROOM` bytes of room.
        unsafe { bindings::ferroce_helper_skb_reserve(raw.as_ptr(), HEADROOM as c_int) };
        // INVARIANT: The skb is owned, has `HEADROOM` bytes in front, and `len` bytes behind.
        Some(Self { raw, room: len })
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.raw.as_ptr()
    }

    /// Returns the length of the payload written so far, in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> usize {
        // SAFETY: The skb is valid and owned by the type invariant.
        unsafe { (*self.as_raw()).len as usize }
    }

    /// Returns where the next byte is written, if there is room for `len` bytes.
    fn tail(&mut self, len: usize) -> Result<*mut u8> {
        if len > self.room {
            return Err(ENOSPC);
        }
        // SAFETY: The skb is valid and owned by the type invariant, which also says that `room` bytes follow
        // the data, so the pointer is inside its buffer.
        Ok(unsafe {
            let fields = self.raw.as_ref();
            fields.head.add(fields.tail as usize)
        })
    }

    /// Adds `len` bytes that were written at [`TxSkb::tail`] to the packet.
    ///
    /// # Safety
    ///
    /// The bytes must have been written, and `len` must not exceed the length passed to `tail`.
    unsafe fn written(&mut self, len: usize) {
        // INVARIANT: `skb_put` moves `len` bytes from the room to the data.
        self.room = self.room.wrapping_sub(len);
        // CAST: At most the length given to `new`, which fits in 32 bits.
        // SAFETY: The skb has room for `len` bytes, by the function's contract, and all its data is linear.
        unsafe { bindings::skb_put(self.as_raw(), len as u32) };
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: not enough room.
    pub fn put(&mut self, bytes: &[u8]) -> Result {
        let tail = self.tail(bytes.len())?;
        // SAFETY: `tail` returned a place with room for the bytes, which belongs to the owned skb and does
        // not overlap `bytes`. They are written before they are counted.
        unsafe {
            tail.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.written(bytes.len());
        }
        Ok(())
    }

    /// Appends a copy of `len` bytes at `offset` of `memory`, and returns the copy, which no longer changes.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: not enough room.
    /// - Any error of [`Memory::read`].
    pub fn put_memory(&mut self, memory: &Memory, offset: u64, len: usize) -> Result<&[u8]> {
        let tail = self.tail(len)?;
        // SAFETY: `tail` returned a place with room for `len` bytes, which belongs to the owned skb.
        // `read_raw` wrote all of them if it succeeded. The slice borrows `self`, so the bytes do not change.
        unsafe {
            memory.read_raw(offset, tail, len)?;
            self.written(len);
            Ok(slice::from_raw_parts(tail, len))
        }
    }

    /// Prepends the UDP and IP headers. `None` if the packet is too long.
    pub fn seal(self, ip: &IpHeader, ports: (u16, u16)) -> Option<IpPacket> {
        let payload = self.len();
        // SAFETY: The skb is owned, and by the type invariant has room for the headers.
        let headers_len = unsafe { push_headers(self.as_raw(), ip, ports)? };
        Some(IpPacket {
            skb: self,
            // CAST: The payload is at most 64 KiB, the headers at most 48 bytes.
            payload: payload as u32,
            headers_len: headers_len as u8,
            ipv4_id: ip.ipv4_id,
            traffic_class: ip.traffic_class,
            priority: ip.priority,
        })
    }
}

/// Prepends the UDP and IP headers, and returns their length. `None` if the packet is too long.
///
/// # Safety
///
/// `skb` must be valid and owned, with its UDP payload as data, and [`HEADROOM`] less the headers of tunnels and
/// links in front.
pub(super) unsafe fn push_headers(
    skb: *mut bindings::sk_buff,
    ip: &IpHeader,
    ports: (u16, u16),
) -> Option<usize> {
    // SAFETY: The skb is valid by the function's contract. CAST: `u32` to `usize`, which has 64 bits.
    let payload = unsafe { (*skb).len as usize };
    let udp_len = u16::try_from(payload.wrapping_add(UDP_LEN)).ok()?;
    let ip_len = ip.addresses.header_len();
    // IPv4 counts its header, too.
    u16::try_from(usize::from(udp_len).wrapping_add(IPV4_LEN)).ok()?;
    // SAFETY: By the function's contract there is room for the headers.
    unsafe {
        push(skb, &udp_header(ports, udp_len));
        match ip.addresses {
            Addresses::V4 { src, dst } => push(skb, &ipv4_header(ip, src, dst)),
            Addresses::V6 { src, dst } => push(skb, &ipv6_header(ip, src, dst, udp_len)),
        }
    }
    // CAST: The length is 20 or 40.
    // SAFETY: The skb is owned, and its data begins with an IP header of that length.
    unsafe { bindings::ferroce_helper_skb_set_headers(skb, ip_len as c_int) };
    Some(ip_len.wrapping_add(UDP_LEN))
}

/// Prepends bytes.
///
/// # Safety
///
/// `skb` must be valid and owned, with room for the bytes in front of its data.
#[inline]
pub(super) unsafe fn push(skb: *mut bindings::sk_buff, bytes: &[u8]) {
    // SAFETY: By the function's contract there is room. `skb_push` returns the start of as many writable bytes. CAST:
    // The length of a header.
    unsafe {
        let place: *mut u8 = bindings::skb_push(skb, bytes.len() as u32).cast();
        place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
}

impl Drop for TxSkb {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// A UDP packet with its headers. The stack fills in the fields that depend on how many packets are sent as
/// one.
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
    /// Returns the length of the UDP payload in bytes.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.payload
    }

    /// Returns the length of the IP and UDP headers in bytes.
    #[inline]
    pub(super) fn headers_len(&self) -> u32 {
        self.headers_len.into()
    }

    /// Returns the length from the IP header on, in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> u32 {
        self.payload.wrapping_add(self.headers_len())
    }

    /// Returns whether this is an IPv4 packet.
    #[inline]
    pub(super) fn is_v4(&self) -> bool {
        usize::from(self.headers_len) == IPV4_LEN.wrapping_add(UDP_LEN)
    }

    /// Returns the IPv4 identification.
    #[inline]
    pub(super) fn ipv4_id(&self) -> u16 {
        self.ipv4_id
    }

    /// Returns traffic class and priority; a priority of 0 means that the traffic class decides.
    #[inline]
    pub(super) fn class(&self) -> (u8, u8) {
        (self.traffic_class, self.priority)
    }

    /// Copies the packet. `None`: no memory.
    pub fn try_copy(&self) -> Option<Self> {
        // SAFETY: The skb is valid by the invariant of `TxSkb`. C returns a new skb or null.
        let copy = unsafe {
            bindings::skb_copy(self.as_raw(), bindings::GFP_ATOMIC | bindings::__GFP_NOWARN)
        };
        // INVARIANT: The copy is owned, and has the room in front that the skb has. Nothing is appended.
        let skb = TxSkb {
            raw: NonNull::new(copy)?,
            room: 0,
        };
        Some(Self { skb, ..*self })
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_raw()
    }

    /// Returns the skb, which the caller then owns.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self.skb).as_raw()
    }
}
