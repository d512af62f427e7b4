// SPDX-License-Identifier: GPL-2.0

//! Packets of one flow that go through the network stack as one.
//!
//! Owns them from when they are complete until the network takes them. The first carries the others on
//! its list of buffers, as generic segmentation offload wants it (`SKB_GSO_FRAGLIST`): routing,
//! filters and queues see one buffer, and a device that takes no such buffer gets the packets, each
//! as it was put in. What the network refuses is lost, as on any wire.
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/net/udp.h`](srctree/include/net/udp.h)

use crate::{
    bindings,
    net::{
        route::Route,
        tx::{
            header::UDP_LEN,
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
        rcu,
        Arc,
        SetOnce, //
    }, //
};

/// Most bytes of a burst, from its first IP header on: what an IPv4 header can say.
const MAX_BYTES: u32 = u16::MAX as u32;

/// Most packets of a burst: what the receive path of UDP makes at most.
pub(in crate::net) const MAX_PACKETS: u16 = 64;

/// What tells the buffers of this module from all others, since it was loaded.
static MARK: SetOnce<Mark> = SetOnce::new();

/// Nobody can guess it.
type Mark = [u32; 4];

const _: () = assert!(size_of::<Mark>() <= 48, "the room of `cb`");

/// The mark for buffers that are made here. `None` while somebody else makes it, which does no harm.
#[inline]
fn our_mark() -> Option<&'static Mark> {
    MARK.as_ref().or_else(|| {
        MARK.populate([(); 4].map(|()| random::u32()));
        MARK.as_ref()
    })
}

/// Who knows the buffers of this module when he sees them, and looks at those on one list.
pub(in crate::net) struct MadeHere {
    mark: Option<&'static Mark>,
    /// All that were seen are ours; `None`: none was.
    all: Option<bool>,
}

impl MadeHere {
    /// Has seen none.
    #[inline]
    pub(in crate::net) fn new() -> Self {
        Self {
            mark: MARK.as_ref(),
            all: None,
        }
    }

    /// Looks at the next buffer on the list of another.
    ///
    /// # Safety
    ///
    /// The buffer is valid.
    #[inline]
    pub(in crate::net) unsafe fn look_at(&mut self, skb: *const bindings::sk_buff) {
        // SAFETY: As the function requires. C has initialised all of it, and any bytes are a mark.
        let mark = unsafe { (&raw const (*skb).cb).cast::<Mark>().read_unaligned() };
        let ours = self.mark == Some(&mark);
        self.all = Some(ours && self.all.unwrap_or(true));
    }

    /// Whether there was one, and all were made here: those are the very buffers, so they have never left this
    /// machine.
    #[inline]
    pub(in crate::net) fn made_all(&self) -> bool {
        self.all == Some(true)
    }
}

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

/// One packet or more.
///
/// # Invariants
///
/// `last` is null, or the last buffer on the list of the first packet's, which owns it.
pub struct GsoList {
    first: IpPacket,
    last: *mut bindings::sk_buff,
    /// What the buffers on the list get.
    mark: Option<&'static Mark>,
    packets: u16,
    bytes: u32,
    payload: u32,
    /// Longest packet that others may join; 0 if none may.
    mtu: u32,
}

// SAFETY: The buffers are ours alone.
unsafe impl Send for GsoList {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for GsoList {}

impl GsoList {
    /// A burst that goes along `route`, of one packet so far.
    pub fn new(first: IpPacket, route: &Route) -> Self {
        Self {
            last: ptr::null_mut(),
            mark: None,
            packets: 1,
            bytes: first.len(),
            payload: first.payload_len(),
            // Room for more headers is made in the first packet only.
            mtu: if route.encapsulates() { 0 } else { route.mtu() },
            first,
        }
    }

    /// Number of packets.
    pub fn packets(&self) -> u16 {
        self.packets
    }

    /// Bytes of UDP payload of all packets.
    pub fn payload_len(&self) -> usize {
        // CAST: `u32` to `usize`, on 64 bits.
        self.payload as usize
    }

    /// Appends a packet with the same addresses and ports, and the next IPv4 identification.
    ///
    /// # Errors
    ///
    /// The packet, if it does not fit: there is no room, it would have to be fragmented, or one
    /// before it is missing. It begins another burst.
    pub fn push(&mut self, packet: IpPacket) -> Result<(), IpPacket> {
        let payload = packet.payload_len();
        let bytes = self.bytes.wrapping_add(payload);
        let expected = self.first.ipv4_id().wrapping_add(self.packets);
        if bytes > MAX_BYTES
            || self.packets >= MAX_PACKETS
            || packet.len().max(self.first.len()) > self.mtu
            || packet.ipv4_id() != expected
        {
            return Err(packet);
        }
        let headers = packet.headers_len();
        let next = packet.into_raw();
        if self.last.is_null() {
            self.mark = our_mark();
        }
        // INVARIANT: `next` is the last from now on.
        // SAFETY: All buffers are ours. The headers of `next` stay in front of its data, where
        // segmentation finds them by their offsets.
        unsafe {
            bindings::skb_pull(next, headers);
            bindings::ferroce_helper_skb_list_add(self.first.as_raw(), self.last, next);
            if let Some(&mark) = self.mark {
                // Nothing on the way looks at the `cb` of a buffer on a list.
                (&raw mut (*next).cb).cast::<Mark>().write_unaligned(mark);
            }
        }
        self.last = next;
        self.packets = self.packets.wrapping_add(1);
        self.bytes = bytes;
        self.payload = self.payload.wrapping_add(payload);
        Ok(())
    }

    /// Gives the packets to the network, and counts them in `flight`, if there is one. For any context but
    /// hard interrupts.
    pub fn send(self, route: &Route, flight: Option<&Arc<TxInflight>>) -> Xmit {
        let (traffic_class, priority) = self.first.class();
        let v4 = self.first.is_v4();
        let ethertype = match v4 {
            true => bindings::ETH_P_IP,
            false => bindings::ETH_P_IPV6,
        };
        // The way may have changed since the burst was begun.
        if v4 != route.is_v4() || (self.packets > 1 && route.encapsulates()) {
            return Xmit::Lost;
        }
        if self.packets > 1 {
            self.describe();
        }
        if let Some(flight) = flight {
            self.board(flight);
        }
        // What is on the list goes with it.
        let skb = self.first.into_raw();
        let _guard = rcu::read_lock();
        // CAST: EtherTypes have 16 bits.
        let ethertype = (ethertype as u16).to_be();
        // SAFETY: The packet is complete; it goes to the function, in any case. The route is of the
        // same family, and RCU and `route` keep it.
        let result = unsafe {
            let dst = route.as_raw();
            let priority = match priority {
                0 => bindings::ferroce_helper_rt_tos2priority(traffic_class),
                priority => priority.into(),
            };
            bindings::ferroce_helper_skb_set_output(skb, dst, ethertype, priority);
            if v4 {
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

    /// Counts the packets in `flight`. The last is freed with all the others, or when they are taken apart;
    /// the first is not asked, as IP on its way in has nothing depend on its sender any more.
    fn board(&self, flight: &Arc<TxInflight>) {
        let first = self.first.as_raw();
        let counted = match self.last.is_null() {
            true => first,
            false => self.last,
        };
        // SAFETY: The buffers are ours, and have never had a destructor.
        unsafe { flight.board(counted, (*first).truesize as usize) };
    }

    /// Says in the first buffer that it holds several packets.
    fn describe(&self) {
        // CAST: The payload of one packet, and of all: below 64 KiB.
        let (size, udp_len) = (
            self.first.payload_len() as u16,
            self.payload_len().wrapping_add(UDP_LEN) as u16,
        );
        // SAFETY: The buffer is ours, its UDP header is written, and its list is as described.
        unsafe {
            bindings::ferroce_helper_skb_set_gso_list(
                self.first.as_raw(),
                size,
                self.packets,
                udp_len.to_be(),
            );
        }
    }
}
