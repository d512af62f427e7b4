// SPDX-License-Identifier: GPL-2.0

//! Received UDP packets.
//!
//! [`RxSkb`] owns an skb. It may be in several fragments and is not linearised; its bytes are copied out, or
//! checksummed in place. Offsets count from the first byte of the UDP payload.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    net::{
        route::Addresses,
        super_packet::{
            format::Splitter,
            split::{
                split,
                OuterHeaders,
                PacketChain, //
            }, //
        }, //
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

/// A received UDP packet, or a super-packet.
///
/// # Invariants
///
/// - The skb is valid and owned, and refers to nothing that RCU protects. Its data may be shared with clones, so
///   it is not written.
/// - `data` points to the UDP header. The bytes from the network header to the end of the UDP header are in the
///   linear part: a valid IPv4 or IPv6 header with options or extension headers, and the UDP header.
/// - `gso_size` is set only in a super-packet.
/// - `cb` is initialised, begins with [`RxCb`], and is used by the owner only.
pub struct RxSkb(pub(super) NonNull<bindings::sk_buff>);

// SAFETY: The skb has one owner and belongs to no task.
unsafe impl Send for RxSkb {}
// SAFETY: A shared reference only reads the skb.
unsafe impl Sync for RxSkb {}

impl RxSkb {
    /// Takes over a packet from the `encap_rcv` callback of a UDP socket; `is_super_packet` says whether it is a
    /// super-packet.
    ///
    /// # Safety
    ///
    /// `raw` must be valid, owned by the caller, and in the state in which UDP passes it to the callback.
    pub(crate) unsafe fn from_encap(raw: *mut bindings::sk_buff, is_super_packet: bool) -> Self {
        // SAFETY: By the function's contract the skb is valid and owned. C drops its route, socket and
        // netdev, which RCU keeps: the packet may be queued beyond the critical section.
        unsafe { bindings::ferroce_helper_skb_detach(raw) };
        // INVARIANT: IP and UDP have pulled and checked their headers, and no longer use `cb`.
        // SAFETY: A valid pointer is not null.
        let mut skb = Self(unsafe { NonNull::new_unchecked(raw) });
        skb.set_rx_cb(RxCb {
            next_packet: 0,
            in_total: false,
            is_local: is_super_packet,
            is_super_packet,
        });
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
        // SAFETY: The skb is valid by the type invariant, and does not change while `self` is borrowed.
        unsafe { self.0.as_ref() }
    }

    /// Returns the length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        // CAST: `u32` to `usize`, which has 64 bits.
        (self.fields().len as usize).saturating_sub(UDP_LEN)
    }

    /// Returns the memory that the skb occupies (`truesize`). Constant while it is queued.
    pub fn memory(&self) -> i32 {
        // CAST: At most some hundred kilobytes.
        self.fields().truesize as i32
    }

    /// Returns the number of packets.
    #[inline]
    pub fn packets(&self) -> u16 {
        // SAFETY: The skb is valid by the type invariant.
        unsafe { bindings::ferroce_helper_skb_packets(self.as_raw()) }
    }

    /// Returns whether it is a super-packet.
    #[inline]
    pub fn is_super_packet(&self) -> bool {
        self.rx_cb().is_super_packet
    }

    /// Returns the length of the longest packet of a super-packet in bytes of UDP payload. `None` if it is no
    /// super-packet.
    #[inline]
    pub fn longest_packet(&self) -> Option<u16> {
        if !self.is_super_packet() {
            return None;
        }
        // SAFETY: The skb is valid by the type invariant.
        Some(unsafe { bindings::ferroce_helper_skb_gso_size(self.as_raw()) })
    }

    /// Splits a super-packet into its packets, without those that have been processed. The lengths in their IP and UDP
    /// headers, and the IPv4 identification, remain those of the super-packet.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: it is no super-packet that `S` can split.
    /// - `ENOMEM`.
    pub fn split<S: Splitter>(self) -> Result<SplitPackets> {
        if !self.is_super_packet() {
            return Err(EINVAL);
        }
        let ip_and_udp_len = self.ip_and_udp_header().len();
        let outer = OuterHeaders {
            len: ip_and_udp_len,
            ip_and_udp_len,
            shares_pages: true,
        };
        // SAFETY: The skb is valid and owned. By the type invariant `data` points to the UDP header, and the headers
        // are in the linear part, so that they are in front of the data after the pull.
        let chain = unsafe {
            bindings::skb_pull(self.as_raw(), UDP_LEN as c_uint);
            split::<S>(self.as_raw(), outer, self.rx_cb().next_packet)?
        };
        Ok(SplitPackets(chain))
    }

    /// Records that the packets, or entries, before `index` have been processed.
    pub fn resume_at(&mut self, index: u16) {
        let rx_cb = self.rx_cb();
        self.set_rx_cb(RxCb {
            next_packet: index,
            ..rx_cb
        });
    }

    /// Returns the received headers: IP with options or extension headers, and UDP.
    #[inline]
    pub fn ip_and_udp_header(&self) -> &[u8] {
        let fields = self.fields();
        // SAFETY: By the type invariant both headers are in the linear part and contiguous, from the network
        // header to `UDP_LEN` bytes after `data`.
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

    /// Returns the fixed part of the IP header.
    #[inline]
    fn ip(&self) -> Ip<'_> {
        let headers = self.ip_and_udp_header();
        if headers.first().is_some_and(|byte| byte >> 4 == 4) {
            headers.first_chunk().map_or(Ip::None, Ip::V4)
        } else {
            headers.first_chunk().map_or(Ip::None, Ip::V6)
        }
    }

    /// Returns source and destination address.
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

    /// Returns the IPv4 type of service or IPv6 traffic class, including the ECN bits.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        match self.ip() {
            Ip::V4(&[_, tos, ..]) => tos,
            Ip::V6(&[high, low, ..]) => high << 4 | low >> 4,
            Ip::None => 0,
        }
    }

    /// Returns whether a queue on the way has marked the packet: ECN, congestion experienced (RFC 3168).
    #[inline]
    pub fn is_congestion_experienced(&self) -> bool {
        self.traffic_class() & 0b11 == 0b11
    }

    /// Returns the IPv4 time to live or IPv6 hop limit.
    pub fn hop_limit(&self) -> u8 {
        match self.ip() {
            Ip::V4(header) => header[8],
            Ip::V6(header) => header[7],
            Ip::None => 0,
        }
    }

    /// Returns the IPv6 flow label; 0 for IPv4.
    pub fn flow_label(&self) -> u32 {
        match self.ip() {
            Ip::V6(&[_, a, b, c, ..]) => u32::from_be_bytes([0, a & 0xf, b, c]),
            _ => 0,
        }
    }

    /// Returns the index of the netdev that received the packet.
    pub fn ifindex(&self) -> i32 {
        // SAFETY: The skb is valid by the type invariant.
        unsafe { bindings::ferroce_helper_skb_iif(self.as_raw()) }
    }

    /// Returns whether this module built the skb: the packets then never left this host, and their contents
    /// are unchanged.
    #[inline]
    pub fn is_local_gso(&self) -> bool {
        self.rx_cb().is_local
    }

    /// Returns the value stored by [`RxSkb::set_cb`]; unspecified without one.
    #[inline]
    pub fn cb<C: FromBytes>(&self) -> C {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: `cb` is initialised by the type invariant, and has `CB_LEN` bytes after the first
        // `RX_CB_LEN`. Any bytes are a valid `C`.
        unsafe {
            let cb: *const u8 = (&raw const self.fields().cb).cast();
            cb.add(RX_CB_LEN).cast::<C>().read_unaligned()
        }
    }

    /// Stores `value` in the skb.
    #[inline]
    pub fn set_cb<C: IntoBytes + Immutable>(&mut self, value: C) {
        const { assert!(size_of::<C>() <= CB_LEN) };
        // SAFETY: The skb is owned, and `cb` has `CB_LEN` bytes after the first `RX_CB_LEN`. `C: IntoBytes`
        // has no padding, so `cb` stays initialised.
        unsafe {
            let cb: *mut u8 = (&raw mut (*self.as_raw()).cb).cast();
            cb.add(RX_CB_LEN).cast::<C>().write_unaligned(value);
        }
    }

    #[inline]
    pub(super) fn rx_cb(&self) -> RxCb {
        // SAFETY: By the type invariant `cb` begins with an `RxCb`; C aligns `cb` to 8 bytes.
        unsafe { (&raw const self.fields().cb).cast::<RxCb>().read() }
    }

    #[inline]
    pub(super) fn set_rx_cb(&mut self, rx_cb: RxCb) {
        // SAFETY: The skb is owned, `cb` is large enough, and C aligns it to 8 bytes.
        unsafe { (&raw mut (*self.as_raw()).cb).cast::<RxCb>().write(rx_cb) };
    }

    /// Clones the packet; the data is shared, not copied. For any context. `None` if there is no memory.
    pub fn try_clone(&self) -> Option<Self> {
        // SAFETY: The skb is valid by the type invariant. C returns a new skb or null.
        let clone = unsafe {
            bindings::skb_clone(self.as_raw(), bindings::GFP_ATOMIC | bindings::__GFP_NOWARN)
        };
        // INVARIANT: The clone is owned. C copied `cb` and all offsets, and took a reference to the data.
        NonNull::new(clone).map(Self)
    }

    /// Frees the packet as a drop, which drop monitors report; a plain drop of the value counts as consumed.
    pub(super) fn drop_packet(self) {
        let reason = bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED;
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::sk_skb_reason_drop(ptr::null_mut(), self.into_raw(), reason) };
    }
}

impl Drop for RxSkb {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// The packets of a super-packet, in order.
pub struct SplitPackets(PacketChain);

impl SplitPackets {
    /// Reverses the order.
    pub(super) fn reversed(self) -> Self {
        Self(self.0.reversed())
    }
}

impl Iterator for SplitPackets {
    type Item = RxSkb;

    fn next(&mut self) -> Option<RxSkb> {
        let raw = self.0.pop()?;
        // INVARIANT: The packet has the fields of the super-packet, whose `cb` and header offsets apply to it, and a
        // copy of its headers. `data` is moved back to the UDP header. It has no GSO fields. SAFETY: The packet is
        // valid and owned, and has the UDP header in front of its data.
        unsafe { bindings::skb_push(raw.as_ptr(), UDP_LEN as c_uint) };
        let mut packet = RxSkb(raw);
        let rx_cb = packet.rx_cb();
        packet.set_rx_cb(RxCb {
            next_packet: 0,
            is_super_packet: false,
            ..rx_cb
        });
        Some(packet)
    }
}

/// Private data of this folder, at the start of `cb`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RxCb {
    /// Index of the next packet to process.
    pub(super) next_packet: u16,
    /// While it is queued: whether it counts in the total of all queues. See
    /// [`SkbQueue`](crate::net::rx::queue::SkbQueue).
    pub(super) in_total: bool,
    /// This module built the super-packet. See [`RxSkb::is_local_gso`].
    pub(super) is_local: bool,
    /// It is a super-packet. A packet that was split off has the same fields in the skb.
    pub(super) is_super_packet: bool,
}

/// Bytes of `cb` reserved for [`RxCb`].
const RX_CB_LEN: usize = 8;

const _: () = assert!(size_of::<RxCb>() <= RX_CB_LEN);

/// Bytes of `cb` that the owner of a packet may use.
pub const CB_LEN: usize = 48 - RX_CB_LEN;

/// The fixed part of an IP header.
enum Ip<'a> {
    V4(&'a [u8; IPV4_LEN]),
    V6(&'a [u8; IPV6_LEN]),
    /// Excluded by the invariant of [`RxSkb`]; handled because that is cheaper than a proof.
    None,
}
