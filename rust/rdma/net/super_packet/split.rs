// SPDX-License-Identifier: GPL-2.0

//! Makes the packets of a super-packet.
//!
//! In any context except hard interrupts. A packet with a long payload refers to the pages of the super-packet; a short
//! one is copied, and so is any if the device wants the packet in one piece.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    net::{
        skb_data,
        super_packet::{
            entry::Entry,
            format::{
                Splitter,
                MAX_HEADERS_LEN,
                MAX_PACKETS,
                MAX_TRAILER_LEN, //
            }, //
        },
    }, //
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
    prelude::*, //
};

/// Packets linked by `next`.
///
/// # Invariants
///
/// `first` is null, or the first of a list of owned skbs that ends with `last`.
pub(in crate::net) struct PacketChain {
    first: *mut bindings::sk_buff,
    last: *mut bindings::sk_buff,
}

impl PacketChain {
    /// Returns first and last packet; the caller owns them. Null if there are none.
    pub(in crate::net) fn into_raw(self) -> (*mut bindings::sk_buff, *mut bindings::sk_buff) {
        let chain = ManuallyDrop::new(self);
        (chain.first, chain.last)
    }

    /// Returns whether there is no packet.
    pub(in crate::net) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Takes the first packet out.
    pub(in crate::net) fn pop(&mut self) -> Option<NonNull<bindings::sk_buff>> {
        let first = NonNull::new(self.first)?;
        // INVARIANT: The rest of the list ends with the same skb.
        // SAFETY: By the type invariant `first` is valid, and owned.
        unsafe {
            let link = &mut (*first.as_ptr()).__bindgen_anon_1.__bindgen_anon_1;
            self.first = core::mem::replace(&mut link.next, ptr::null_mut());
        }
        Some(first)
    }

    /// Reverses the order.
    pub(in crate::net) fn reversed(mut self) -> Self {
        let mut reversed = Self::new();
        while let Some(packet) = self.pop() {
            // SAFETY: The packet was taken out of the list, so that it is owned. Its `next` becomes the list so far.
            unsafe { (*packet.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next = reversed.first };
            if reversed.last.is_null() {
                reversed.last = packet.as_ptr();
            }
            // INVARIANT: The list begins with this packet.
            reversed.first = packet.as_ptr();
        }
        reversed
    }

    const fn new() -> Self {
        // INVARIANT: The list is empty.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    fn push(&mut self, packet: NewPacket) {
        let packet = ManuallyDrop::new(packet).0.as_ptr();
        // INVARIANT: A list of one, whose `next` is null.
        self.append(Self {
            first: packet,
            last: packet,
        });
    }

    fn append(&mut self, other: Self) {
        let (first, last) = other.into_raw();
        if self.first.is_null() {
            self.first = first;
        } else {
            // SAFETY: `last` is valid and owned by the type invariant.
            unsafe { (*self.last).__bindgen_anon_1.__bindgen_anon_1.next = first };
        }
        // INVARIANT: The list ends as the other does.
        if !last.is_null() {
            self.last = last;
        }
    }
}

impl Drop for PacketChain {
    fn drop(&mut self) {
        // SAFETY: The skbs are owned by the type invariant. C accepts null.
        unsafe { bindings::ferroce_helper_kfree_skb_list(self.first) };
    }
}

/// Where the headers of a super-packet are.
#[derive(Clone, Copy)]
pub(in crate::net) struct OuterHeaders {
    /// Bytes in front of the data that each packet gets.
    pub(in crate::net) len: usize,
    /// The last of them that are the IP and UDP headers.
    pub(in crate::net) ip_and_udp_len: usize,
    /// Whether packets may have page fragments.
    pub(in crate::net) shares_pages: bool,
}

/// A shorter payload is copied.
const MIN_SHARED_BYTES: usize = 512;

/// Splits the super-packet `skb`, which stays as it is, without its first `skipped` entries; a destructor on its
/// frag_list passes to the last packet. Each packet has the fields of `skb`, its data begins after the UDP header, and
/// it has a copy of the outer headers. Their lengths and the IPv4 identification remain those of the super-packet.
///
/// # Errors
///
/// - `EINVAL`: it is not a super-packet that `S` can split.
/// - `ENOMEM`.
///
/// # Safety
///
/// `skb` must be valid and owned, with the data at the first byte after the UDP header. In front of the data, in the
/// linear part, must be `outer.len` initialised bytes, of which the last `outer.ip_and_udp_len` are the IP and UDP
/// headers.
pub(in crate::net) unsafe fn split<S: Splitter>(
    skb: *mut bindings::sk_buff,
    outer: OuterHeaders,
    skipped: u16,
) -> Result<PacketChain> {
    // SAFETY: The skb is valid by the function's contract, which says that the IP and UDP headers are in front of the
    // data; only this function changes it.
    let (ip_and_udp, longest, mut next) = unsafe {
        let start = (*skb).data.sub(outer.ip_and_udp_len).cast_const();
        (
            slice::from_raw_parts(start, outer.ip_and_udp_len),
            bindings::ferroce_helper_skb_gso_size(skb),
            Entry::first(skb, 0),
        )
    };
    let mut splitter = S::new(ip_and_udp, longest).ok_or(EINVAL)?;
    let mut chain = PacketChain::new();
    let mut left = MAX_PACKETS;
    let mut index = 0u16;
    // Terminates: an entry is not empty.
    while let Some(entry) = next {
        left = left.checked_sub(entry.size.packets).ok_or(EINVAL)?;
        let outer = (index >= skipped).then_some(outer);
        // SAFETY: By the function's contract.
        unsafe {
            chain.append(split_entry(&mut splitter, (skb, entry), outer)?);
            next = entry.next(skb)?;
        }
        index = index.wrapping_add(1);
    }
    if chain.last.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: Both are valid and owned. A packet has no destructor yet.
    unsafe { bindings::ferroce_helper_skb_move_destructor(skb, chain.last) };
    Ok(chain)
}

/// Makes the packets of an entry; without `outer`, only tells the splitter of them.
///
/// # Safety
///
/// As for [`split`]; the entry must be one of `skb`.
unsafe fn split_entry<S: Splitter>(
    splitter: &mut S,
    (skb, entry): (*mut bindings::sk_buff, Entry),
    outer: Option<OuterHeaders>,
) -> Result<PacketChain> {
    let len = usize::from(entry.size.len);
    let mut headers = [0; MAX_HEADERS_LEN];
    let headers = headers.get_mut(..len.min(MAX_HEADERS_LEN)).ok_or(EINVAL)?;
    // SAFETY: The skb is valid by the function's contract, and the slice has the length that is passed. CAST: Offsets
    // in an skb are small.
    unsafe {
        let to = headers.as_mut_ptr().cast();
        let (start, count) = (entry.start as c_int, headers.len() as c_int);
        to_result(bindings::skb_copy_bits(skb, start, to, count))?;
    }
    let headers_len = splitter.begin_entry(headers, entry.size).ok_or(EINVAL)?;
    let mut at = entry.start.wrapping_add(headers_len);
    let mut chain = PacketChain::new();
    for _ in 0..entry.size.packets {
        let Some(outer) = outer else {
            let _ = splitter.next();
            continue;
        };
        // SAFETY: By the function's contract.
        let (packet, payload_len) = unsafe { NewPacket::next(splitter, (skb, at), outer)? };
        chain.push(packet);
        at = at.wrapping_add(payload_len);
    }
    Ok(chain)
}

/// A packet that is being made.
///
/// # Invariants
///
/// The skb is valid and owned, and has no `next`.
struct NewPacket(NonNull<bindings::sk_buff>);

impl NewPacket {
    /// Makes the next packet of `splitter`, whose payload begins at offset `at` of `skb`. Also returns the length of
    /// its payload.
    ///
    /// # Safety
    ///
    /// As for [`split`].
    unsafe fn next<S: Splitter>(
        splitter: &mut S,
        (skb, at): (*mut bindings::sk_buff, usize),
        outer: OuterHeaders,
    ) -> Result<(Self, usize)> {
        let parts = splitter.next().ok_or(EINVAL)?;
        let (payload_len, trailer_len) =
            (parts.payload_len, parts.trailer_len.min(MAX_TRAILER_LEN));
        // CAST: Offsets in an skb are small.
        let (offset, bytes) = (at as u32, payload_len as u32);
        // SAFETY: The skb is valid by the function's contract.
        let can_share = || unsafe { bindings::ferroce_helper_skb_can_share(skb, offset, bytes) };
        let shares = outer.shares_pages && payload_len >= MIN_SHARED_BYTES && can_share();
        let copied = match shares {
            true => 0,
            false => payload_len.checked_add(trailer_len).ok_or(EINVAL)?,
        };
        let room = parts.headers.len().checked_add(copied).ok_or(EINVAL)?;
        // SAFETY: By the function's contract.
        let mut packet = unsafe { Self::alloc(skb, outer.len, room)? };
        packet.put(parts.headers)?;
        let payload = at..at.wrapping_add(payload_len);
        // SAFETY: The skb is valid by the function's contract.
        let trailer = splitter.trailer(|crc| unsafe { skb_data::crc32(skb, payload, crc) });
        let trailer = trailer.get(..trailer_len).ok_or(EINVAL)?;
        // SAFETY: Both skbs are valid, and different. C has found the payload in pages that can be shared. CAST: At
        // most `MAX_TRAILER_LEN`.
        unsafe {
            if shares {
                bindings::ferroce_helper_skb_share(packet.0.as_ptr(), skb, offset, bytes);
                let (bytes, len) = (trailer.as_ptr().cast(), trailer_len as u32);
                to_result(bindings::ferroce_helper_skb_add_trailer(
                    packet.0.as_ptr(),
                    bytes,
                    len,
                ))?;
                return Ok((packet, payload_len));
            }
            packet.put_from(skb, at, payload_len)?;
        }
        packet.put(trailer)?;
        Ok((packet, payload_len))
    }

    /// Allocates a packet with the fields and the outer headers of `skb`, and room for `len` bytes.
    ///
    /// # Safety
    ///
    /// As for [`split`].
    unsafe fn alloc(skb: *const bindings::sk_buff, outer_len: usize, len: usize) -> Result<Self> {
        // SAFETY: The skb is valid by the function's contract.
        let fields = unsafe { &*skb };
        let headroom = fields.data.addr().wrapping_sub(fields.head.addr());
        let size = headroom.checked_add(len).ok_or(EINVAL)?;
        let size = u32::try_from(size).map_err(|_| EINVAL)?;
        // SAFETY: `__alloc_skb` has no preconditions for an atomic allocation.
        let raw = unsafe {
            bindings::__alloc_skb(size, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1)
        };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: The skb is new.
        let packet = Self(raw);
        // CAST: The headroom is part of `size`, which fits in 32 bits; the outer headers are part of it. SAFETY: The
        // skb is new, so that `headroom` bytes of room can be reserved. Both then have the same headroom, so that the
        // offsets of the headers apply to both, and the outer headers fit.
        unsafe {
            bindings::ferroce_helper_skb_reserve(raw.as_ptr(), headroom as c_int);
            bindings::ferroce_helper_skb_copy_outer(raw.as_ptr(), skb, outer_len as u32);
        }
        Ok(packet)
    }

    /// Returns `len` bytes behind the data, which the data then includes.
    fn grow(&mut self, len: usize) -> Result<*mut u8> {
        // SAFETY: The skb is valid by the type invariant, and linear.
        let room = unsafe {
            let fields = self.0.as_ref();
            fields.end.saturating_sub(fields.tail) as usize
        };
        if len > room {
            return Err(ENOSPC);
        }
        // SAFETY: The skb has room for `len` bytes. CAST: They fit in 32 bits, as `room` does.
        Ok(unsafe { bindings::skb_put(self.0.as_ptr(), len as u32).cast() })
    }

    fn put(&mut self, bytes: &[u8]) -> Result {
        let to = self.grow(bytes.len())?;
        // SAFETY: `grow` returned as many writable bytes, which only this packet has.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Appends a copy of `len` bytes at offset `at` of `skb`.
    ///
    /// # Safety
    ///
    /// `skb` must be valid.
    unsafe fn put_from(&mut self, skb: *const bindings::sk_buff, at: usize, len: usize) -> Result {
        let to = self.grow(len)?.cast();
        // CAST: Offsets in an skb are small.
        let (at, len) = (at as c_int, len as c_int);
        // SAFETY: `skb` is valid by the function's contract, and `to` has `len` bytes. C checks the range.
        to_result(unsafe { bindings::skb_copy_bits(skb, at, to, len) })
    }
}

impl Drop for NewPacket {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::ferroce_helper_kfree_skb_list(self.0.as_ptr()) };
    }
}
