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
use kernel::prelude::*;
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Length of a UDP header in bytes.
pub(super) const UDP_LEN: usize = 8;

/// Length of an IPv6 header in bytes.
const IPV6_LEN: usize = 40;

/// Length of an IPv4 header without options, in bytes.
const IPV4_LEN: usize = 20;

/// A received UDP packet, or the packets of a burst, which have the same addresses and ports: what is said
/// here of the packet is then said of the first.
///
/// # Invariants
///
/// - The buffer is valid and ours alone, and depends on nothing that RCU keeps. What it points to may
///   be shared with clones, so nobody writes to it.
/// - `data` is at the UDP header. The bytes from the network header to the end of the UDP header are
///   in the linear part; they are a valid IPv4 or IPv6 header with what belongs to it, and the UDP
///   header.
/// - If it says that it is a burst (`gso_size`), the other packets are on its list, each with its `data`
///   at the UDP payload; the first is as long as `gso_size` says.
/// - `cb` is initialised, begins with [`Notes`], and is nobody else's.
pub struct RxSkb(pub(super) NonNull<bindings::sk_buff>);

// SAFETY: The buffer is ours alone.
unsafe impl Send for RxSkb {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for RxSkb {}

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
        let mut skb = Self(unsafe { NonNull::new_unchecked(raw) });
        skb.note(Notes {
            position: 0,
            in_sum: false,
            ours: false,
        });
        skb
    }

    /// Takes over a burst that came unsplit; `ours`: it was made by this module.
    ///
    /// # Safety
    ///
    /// As for [`RxSkb::from_encap`]; and the buffer is as [`GsoList`](crate::net::tx::gso_list::Burst) makes it.
    pub(in crate::net) unsafe fn from_burst(raw: *mut bindings::sk_buff, ours: bool) -> Self {
        // SAFETY: As the function requires.
        let mut skb = unsafe { Self::from_encap(raw) };
        let notes = skb.notes();
        skb.note(Notes { ours, ..notes });
        skb
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).as_raw()
    }

    #[inline]
    fn fields(&self) -> &bindings::sk_buff {
        // SAFETY: Valid, and not changed while `self` is borrowed.
        unsafe { self.0.as_ref() }
    }

    /// Length of the UDP payload in bytes, of all packets.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        // CAST: `u32` to `usize`, on 64 bits.
        (self.fields().len as usize).saturating_sub(UDP_LEN)
    }

    /// Bytes of memory that are kept with it. The same for as long as it waits.
    pub(super) fn memory(&self) -> i32 {
        // CAST: At most some hundred kilobytes.
        self.fields().truesize as i32
    }

    /// Number of packets in the buffer.
    #[inline]
    pub fn packets(&self) -> u16 {
        // SAFETY: Valid.
        unsafe { bindings::ferroce_helper_skb_packets(self.as_raw()) }
    }

    /// Keeps that the packets before `index` are done with.
    pub fn resume_at(&mut self, index: u16) {
        let notes = self.notes();
        self.note(Notes {
            position: index,
            ..notes
        });
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

    /// Whether the buffer itself was made by this module, so that it has never left this machine, and holds what was
    /// put into it.
    #[inline]
    pub fn is_as_made(&self) -> bool {
        self.notes().ours
    }

    /// What [`RxSkb::set_cb`] has put here; anything if it has not.
    #[inline]
    pub fn cb<C: FromBytes>(&self) -> C {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: Initialised, by the invariant, and long enough; any bytes are a `C`.
        unsafe {
            let cb: *const u8 = (&raw const self.fields().cb).cast();
            cb.add(NOTES_LEN).cast::<C>().read_unaligned()
        }
    }

    /// Keeps `value` with the packet.
    #[inline]
    pub fn set_cb<C: IntoBytes + Immutable>(&mut self, value: C) {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: Ours, and long enough; a `C` has no padding that would not be initialised.
        unsafe {
            let cb: *mut u8 = (&raw mut (*self.as_raw()).cb).cast();
            cb.add(NOTES_LEN).cast::<C>().write_unaligned(value);
        }
    }

    #[inline]
    pub(super) fn notes(&self) -> Notes {
        // SAFETY: Written when the buffer became ours.
        unsafe { (&raw const self.fields().cb).cast::<Notes>().read() }
    }

    #[inline]
    pub(super) fn note(&mut self, notes: Notes) {
        // SAFETY: Ours, long enough, and aligned to 8 bytes.
        unsafe { (&raw mut (*self.as_raw()).cb).cast::<Notes>().write(notes) };
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

/// What is kept of a buffer here, in the first bytes of its `cb`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Notes {
    /// Index of the packet that is the next.
    pub(super) position: u16,
    /// While it waits: whether the sum of all queues counts it. See [`SkbQueue`].
    pub(super) in_sum: bool,
    /// It is a burst that was made here. See [`RxSkb::is_as_made`].
    pub(super) ours: bool,
}

/// Bytes of `cb` for [`Notes`].
const NOTES_LEN: usize = 16;

const _: () = assert!(size_of::<Notes>() <= NOTES_LEN);

/// Bytes that an owner may keep with a packet.
pub const CB_LEN: usize = 48 - NOTES_LEN;

/// The fixed part of an IP header.
enum Ip<'a> {
    V4(&'a [u8; IPV4_LEN]),
    V6(&'a [u8; IPV6_LEN]),
    /// Cannot be, but costs less to allow for than to prove.
    None,
}
