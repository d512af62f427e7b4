// SPDX-License-Identifier: GPL-2.0

//! GSO lists: packets of one flow that the stack handles as one skb.
//!
//! The first skb carries the others on its frag_list (`SKB_GSO_FRAGLIST`). Routing, netfilter and qdiscs see
//! one skb. A device without support for such lists gets the packets one by one. A packet that the stack drops is lost,
//! as on any network.
//!
//! On a local route the kernel may split the list. On any other our own code does (see
//! [`super_packet`](crate::net::super_packet)).
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/net/udp.h`](srctree/include/net/udp.h)

use crate::{
    bindings,
    net::{
        route::Route,
        super_packet::protocol,
        tx::{
            header::UDP_LEN,
            output::{
                output,
                Xmit, //
            },
            skb::IpPacket, //
        },
        tx_inflight::TxInflight, //
    },
    util::random, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        SetOnce, //
    }, //
};

/// Bytes of a list, from its first IP header on, at most: the limit of the IPv4 total length.
const MAX_GSO_BYTES: u32 = u16::MAX as u32;

/// Packets of a list, at most: the limit of UDP GRO.
pub const MAX_GSO_PACKETS: u16 = 64;

/// Marks the skbs of this module. Chosen when the first list is built.
static SKB_MARK: SetOnce<SkbMark> = SetOnce::new();

/// Random, so that no other sender can forge it.
type SkbMark = [u32; 4];

const _: () = assert!(size_of::<SkbMark>() <= 48, "the mark must fit in `cb`");

/// Returns the mark, and chooses it on first use. `None` while another CPU chooses it; the list is then sent
/// without marks, which is harmless.
#[inline]
fn skb_mark() -> Option<&'static SkbMark> {
    SKB_MARK.as_ref().or_else(|| {
        SKB_MARK.populate([(); 4].map(|()| random::u32()));
        SKB_MARK.as_ref()
    })
}

/// Checks whether all skbs of a frag_list were built by this module.
pub(in crate::net) struct SkbOrigin {
    mark: Option<&'static SkbMark>,
    /// Whether all checked skbs carry our mark; `None` if none was checked.
    all_marked: Option<bool>,
}

impl SkbOrigin {
    /// Creates a check of an empty list.
    #[inline]
    pub(in crate::net) fn new() -> Self {
        Self {
            mark: SKB_MARK.as_ref(),
            all_marked: None,
        }
    }

    /// Checks the next skb of the list.
    ///
    /// # Safety
    ///
    /// `skb` must be valid.
    #[inline]
    pub(in crate::net) unsafe fn check(&mut self, skb: *const bindings::sk_buff) {
        // SAFETY: By the function's contract the skb is valid. C initialises its whole `cb`, and any bytes
        // are a valid mark.
        let mark = unsafe { (&raw const (*skb).cb).cast::<SkbMark>().read_unaligned() };
        let is_marked = self.mark == Some(&mark);
        self.all_marked = Some(is_marked && self.all_marked.unwrap_or(true));
    }

    /// Returns whether the list has skbs and all carry our mark. They are then the very skbs that this module
    /// sent, so the packets never left this host.
    #[inline]
    pub(in crate::net) fn is_local(&self) -> bool {
        self.all_marked == Some(true)
    }
}

/// A list of one or more packets.
///
/// # Invariants
///
/// `last` is null, or the last skb on the frag_list of the first packet's skb, which owns it.
pub struct GsoList {
    first: IpPacket,
    last: *mut bindings::sk_buff,
    /// Mark of the skbs on the frag_list.
    mark: Option<&'static SkbMark>,
    packets: u16,
    bytes: u32,
    payload_bytes: u32,
    limits: ListLimits,
}

/// What a route allows of a list. By default it has one packet only.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct ListLimits {
    /// Length of the longest packet that the list may contain; 0 if it must not contain more than one.
    mtu: u32,
    /// Whether the kernel may split the list.
    is_local: bool,
}

impl ListLimits {
    /// Returns the limits of `route`. One that is neither local nor takes lists that our own code splits allows one
    /// packet.
    pub fn of(route: &Route) -> Self {
        let is_local = route.is_local();
        match !route.encapsulates() && (is_local || route.takes_super_packets(0)) {
            true => Self {
                mtu: route.mtu(),
                is_local,
            },
            false => Self::default(),
        }
    }
}

// SAFETY: The list owns its skbs, which belong to no task.
unsafe impl Send for GsoList {}
// SAFETY: A shared reference only reads.
unsafe impl Sync for GsoList {}

impl GsoList {
    /// Creates a list with one packet. [`GsoList::open`] must precede the first [`GsoList::push`].
    pub fn new(first: IpPacket) -> Self {
        Self {
            last: ptr::null_mut(),
            mark: None,
            packets: 1,
            bytes: first.len(),
            payload_bytes: first.payload_len(),
            limits: ListLimits::default(),
            first,
        }
    }

    /// Admits more packets, as far as `limits` allow.
    pub fn open(&mut self, limits: ListLimits) {
        self.limits = limits;
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u16 {
        self.packets
    }

    /// Returns the UDP payload of all packets in bytes.
    pub fn payload_len(&self) -> usize {
        // CAST: `u32` to `usize`, which has 64 bits.
        self.payload_bytes as usize
    }

    /// Appends a packet with the same addresses and ports and the next IPv4 identification.
    ///
    /// # Errors
    ///
    /// Returns the packet if it does not fit: the list is full, the packet would have to be fragmented, or
    /// its identification is not the next one. The caller begins another list.
    pub fn push(&mut self, packet: IpPacket) -> Result<(), IpPacket> {
        let payload = packet.payload_len();
        let bytes = self.bytes.wrapping_add(payload);
        let expected = self.first.ipv4_id().wrapping_add(self.packets);
        if bytes > MAX_GSO_BYTES
            || self.packets >= MAX_GSO_PACKETS
            || packet.len().max(self.first.len()) > self.limits.mtu
            || packet.ipv4_id() != expected
        {
            return Err(packet);
        }
        let headers = packet.headers_len();
        let next = packet.into_raw();
        if self.last.is_null() {
            self.mark = skb_mark();
        }
        // INVARIANT: `next` is the last skb of the frag_list from here on.
        // SAFETY: All skbs are owned by `self` or by the function. `next` has at least `headers` bytes, which
        // remain in front of its data, where segmentation finds them by their offsets. `last` is the last skb
        // of the list by the type invariant. The mark fits in `cb`.
        unsafe {
            bindings::skb_pull(next, headers);
            bindings::ferroce_helper_skb_list_add(self.first.as_raw(), self.last, next);
            if let Some(&mark) = self.mark {
                // The stack does not use the `cb` of an skb on a frag_list.
                (&raw mut (*next).cb)
                    .cast::<SkbMark>()
                    .write_unaligned(mark);
            }
        }
        self.last = next;
        self.packets = self.packets.wrapping_add(1);
        self.bytes = bytes;
        self.payload_bytes = self.payload_bytes.wrapping_add(payload);
        Ok(())
    }

    /// Sends the packets, and counts them in `tx_inflight` if given. For any context except hard interrupts.
    pub fn send(self, route: &Route, tx_inflight: Option<&Arc<TxInflight>>) -> Xmit {
        // The route may have changed since the list was begun.
        let has_changed = || ListLimits::of(route) != self.limits;
        if self.first.is_v4() != route.is_v4() || (self.packets > 1 && has_changed()) {
            return Xmit::Lost;
        }
        if self.packets > 1 {
            self.set_gso_fields();
        }
        if let Some(tx_inflight) = tx_inflight {
            self.charge(tx_inflight);
        }
        let class = self.first.class();
        // SAFETY: The first skb has its headers, of the family of the route, and owns the others. It is given away.
        unsafe { output(self.first.into_raw(), route, class) }
    }

    /// Counts the list in `tx_inflight`, by the destructor of its last skb, which is freed with the others or after
    /// segmentation. IP on receive calls the destructor of a first skb early (`skb_orphan`).
    fn charge(&self, tx_inflight: &Arc<TxInflight>) {
        let first = self.first.as_raw();
        let counted = match self.last.is_null() {
            true => first,
            false => self.last,
        };
        // SAFETY: `self` owns the skbs, and none has had a destructor or socket.
        unsafe { tx_inflight.charge(counted, (*first).truesize as usize) };
    }

    /// Sets the GSO fields of the first skb.
    fn set_gso_fields(&self) {
        // CAST: Payload of one packet and of all, both below 64 KiB.
        let (size, udp_len) = (
            self.first.payload_len() as u16,
            self.payload_len().wrapping_add(UDP_LEN) as u16,
        );
        // SAFETY: `self` owns the skb. Its UDP header is written, and its frag_list has `packets - 1` skbs.
        unsafe {
            bindings::ferroce_helper_skb_set_gso_list(
                self.first.as_raw(),
                size,
                self.packets,
                udp_len.to_be(),
            );
            if !self.limits.is_local {
                let protocol = protocol(self.first.is_v4()).to_be();
                bindings::ferroce_helper_skb_set_own_list(self.first.as_raw(), protocol);
            }
        }
    }
}
