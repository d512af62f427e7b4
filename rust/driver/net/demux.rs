// SPDX-License-Identifier: GPL-2.0

//! From a received packet to the queue pair it is for.
//!
//! Owns the numbers of all queue pairs of this module, and reads no more of a packet than whom it is for.
//! Numbers are unique over all devices, so a packet finds its queue pair however it came in: over the
//! device's own netdev, a VLAN on top of it, or the loopback device.
//! Number 1 alone every port has; there the destination address decides. The queue pair itself checks
//! that the packet comes from its peer.

use crate::{
    net::mcast::Groups,
    port::{
        counters::Counters,
        state::{
            LoopbackFilter,
            Port, //
        }, //
    },
    qp::{
        any_qp::AnyQp,
        rc::{
            self,
            loopback_payload::{
                LocalPeer,
                PeerLookup, //
            }, //
        },
        ud::receiver::RxOrigin, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    net::{
        netdev::NetDevBorrow,
        netns::NetId,
        rx::{
            receive::{
                PacketReceiver,
                BTH_PEEK_LEN, //
            },
            skb::RxSkb, //
        }, //
    },
    sync::rcu_table::RcuTable, //
};
use roce::{
    id::Qpn,
    status::DropReason,
    wire::{
        bth::BTH_LEN,
        ip::ROCE_UDP_PORT,
        opcode::{
            Opcode,
            Service, //
        },
        packet::{
            Packet,
            MAX_PACKET_LEN, //
        }, //
    }, //
};

/// Numbers of queue pairs. Those below belong to the management queue pairs.
const NUMBERS: core::ops::Range<u32> = 16..0xff_ffff;

/// Tables that the general services queue pairs are spread over.
const TABLES: usize = 256;

/// The queue pairs of all devices, by number.
#[pin_data]
pub(crate) struct Demux {
    #[pin]
    qps: RcuTable<AnyQp>,
    /// The general services queue pairs, which all have number 1: the address tells whose it is. Spread by namespace,
    /// so that a packet does not cost more because others have many devices.
    #[pin]
    gsi: [RcuTable<AnyQp>; TABLES],
    /// Those that get what is sent to groups.
    #[pin]
    groups: Groups,
}

impl Demux {
    /// No queue pairs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            qps <- RcuTable::new(),
            gsi <- pin_init::pin_init_array_from_fn(|_| RcuTable::new()),
            groups <- Groups::new(),
        })
    }

    /// Gives `qp` a number; packets find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every number is taken.
    pub(crate) fn insert(&self, qp: Arc<AnyQp>) -> Result<u32> {
        self.qps.alloc_cyclic(NUMBERS, qp)
    }

    /// Lets the packets for QP 1 of its port find `qp`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert_gsi(&self, qp: Arc<AnyQp>) -> Result {
        let net = qp.shared().port().net();
        self.gsi_of_net(net)
            .ok_or(ENOMEM)?
            .alloc_cyclic(0..u32::MAX, qp)?;
        Ok(())
    }

    /// Takes the number back. When it returns, no packet finds the queue pair any more.
    pub(crate) fn remove(&self, number: u32) {
        drop(self.qps.remove(number));
    }

    /// Takes a general services queue pair back. When it returns, no packet finds it any more.
    pub(crate) fn remove_gsi(&self, qp: &Arc<AnyQp>) {
        let Some(table) = self.gsi_of_net(qp.shared().port().net()) else {
            return;
        };
        let mut number = None;
        table.for_each(|at, other| {
            if Arc::ptr_eq(&other, qp) {
                number = Some(at);
            }
        });
        if let Some(number) = number {
            drop(table.remove(number));
        }
    }

    /// Where the general services queue pairs of a namespace are, with those of a few others.
    fn gsi_of_net(&self, net: NetId) -> Option<&RcuTable<AnyQp>> {
        self.gsi.get(net.spread_over(TABLES))
    }

    /// Has the queue pairs of `port`, which has no netdev any more, let go of the routes to their peers. Sleeps.
    pub(crate) fn forget_routes(&self, port: &Port) {
        self.qps.for_each(|_, qp| {
            if core::ptr::eq(qp.shared().port(), port) {
                qp.forget_routes();
            }
        });
    }

    /// The multicast groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Hands `skb`, which has come in by the interface `via`, to its queue pair.
    ///
    /// # Errors
    ///
    /// Why there is none. What is wrong with a packet that has one is counted there.
    fn deliver(
        &self,
        mut skb: RxSkb,
        via: &NetDevBorrow,
        guard: &rcu::Guard,
    ) -> Result<(), DropReason> {
        let mut first = [0; BTH_LEN];
        let packet = skb.current();
        let first = packet.peek(&mut first).map_err(|_| DropReason::TooShort)?;
        let (opcode, number) = Packet::destination(first)?;
        // Nobody is charged for what waits, so it shall be no larger than it has to be.
        if packet.udp_payload_len() > MAX_PACKET_LEN {
            return Err(DropReason::BadLength);
        }
        if opcode.service() == Service::Ud {
            RxOrigin::note(&mut skb, via);
            return self.deliver_datagram((opcode, number), skb, via, guard);
        }
        arrived(self.numbered(number, via, guard)?, opcode, skb);
        Ok(())
    }

    /// Hands a datagram to its queue pair: of a group, of a port, or just one.
    fn deliver_datagram(
        &self,
        (opcode, number): (Opcode, Qpn),
        skb: RxSkb,
        via: &NetDevBorrow,
        guard: &rcu::Guard,
    ) -> Result<(), DropReason> {
        let addresses = skb.addresses();
        let (_, gid) = addresses.to_gids();
        if addresses.is_multicast() {
            // The number in the packet names no queue pair then.
            return match number == Qpn::MULTICAST {
                true => self.groups.deliver(&gid, via, (opcode, skb), guard),
                false => Err(DropReason::NoMulticastMember),
            };
        }
        // A connection has a peer, whose packets have two addresses that the queue pair compares. A datagram may come
        // from anybody, but must be for the port: there may be other networks that this namespace has a part in.
        let qp = if number == Qpn::GSI {
            self.gsi_of(&gid, via, guard)
        } else {
            Some(self.numbered(number, via, guard)?).filter(|qp| qp.shared().port().owns(&gid))
        };
        arrived(qp.ok_or(DropReason::NotOurAddress)?, opcode, skb);
        Ok(())
    }

    /// The queue pair with that number, if its port is in the namespace that the packet came to. Numbers are
    /// unique in the module, and namespaces have nothing to say to each other but over a wire.
    fn numbered<'g>(
        &'g self,
        number: Qpn,
        via: &NetDevBorrow,
        guard: &'g rcu::Guard,
    ) -> Result<&'g AnyQp, DropReason> {
        self.qps
            .get(number.get(), guard)
            .filter(|qp| qp.shared().port().is_in(via.net_id(), guard))
            .ok_or(DropReason::UnknownQp)
    }

    /// The general services queue pair of the port with this address: the port that the packet came in by,
    /// or else another of the same namespace.
    fn gsi_of<'g>(
        &'g self,
        gid: &[u8; 16],
        via: &NetDevBorrow,
        guard: &'g rcu::Guard,
    ) -> Option<&'g AnyQp> {
        let net = via.net_id();
        let mut other = None;
        for qp in self.gsi_of_net(net)?.each(guard) {
            let port = qp.shared().port();
            if port.is_in(net, guard) && port.owns(gid) {
                if port.takes_from(via, guard) {
                    return Some(qp);
                }
                other = Some(qp);
            }
        }
        other
    }
}

impl PeerLookup<rc::responder::RcRecvEngine> for Demux {
    fn find<'g>(
        &'g self,
        number: Qpn,
        net: NetId,
        guard: &'g rcu::Guard,
    ) -> Option<LocalPeer<'g, rc::responder::RcRecvEngine>> {
        match self.qps.get(number.get(), guard)? {
            AnyQp::Rc(pair) if pair.shared().port().is_in(net, guard) => Some(LocalPeer {
                shared: pair.shared(),
                receiver: pair.receiver(),
            }),
            _ => None,
        }
    }

    fn defer(&self, number: Qpn) {
        let guard = rcu::read_lock();
        if let Some(AnyQp::Rc(pair)) = self.qps.get(number.get(), &guard) {
            pair.as_arc_borrow().defer_receiver();
        }
    }
}

impl LoopbackFilter for Demux {
    fn admits(&self, (from, to): (Qpn, Qpn), net: NetId, packets: u16, guard: &rcu::Guard) -> bool {
        let shared = match self.qps.get(to.get(), guard) {
            Some(AnyQp::Rc(pair)) => pair.shared(),
            Some(AnyQp::Uc(pair)) => pair.shared(),
            Some(AnyQp::Ud(_)) | None => return true,
        };
        if shared.is_connected_to(from) || !shared.port().is_in(net, guard) {
            return true;
        }
        let reason = match shared.is_connected() {
            true => DropReason::WrongSource,
            // Not let in either: what is on its way now may arrive when it is.
            false => DropReason::WrongQpState,
        };
        shared.port().counters().dropped_all(reason, packets);
        false
    }
}

/// What comes in from one network namespace.
pub(crate) struct NetnsRx {
    demux: Arc<Demux>,
    /// Packets that are for no queue pair, and so for no device in particular. Other namespaces do not hear of them.
    unmatched: Counters,
}

impl NetnsRx {
    /// Hands packets to `demux`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(demux: Arc<Demux>) -> Result<Arc<Self>> {
        let unmatched = Counters::new()?;
        Ok(Arc::new(Self { demux, unmatched }, GFP_KERNEL)?)
    }

    /// What was counted of packets for no queue pair.
    pub(crate) fn unmatched(&self) -> &Counters {
        &self.unmatched
    }
}

impl PacketReceiver for NetnsRx {
    const PORT: u16 = ROCE_UDP_PORT;

    fn takes_gso(&self, first: &[u8; BTH_PEEK_LEN]) -> bool {
        // Datagrams of one sender may be for several queue pairs.
        Packet::destination(first).is_ok_and(|(opcode, _)| opcode.service() != Service::Ud)
    }

    fn receive(&self, skb: RxSkb, via: &NetDevBorrow) {
        let guard = rcu::read_lock();
        let packets = skb.packets();
        if let Err(reason) = self.demux.deliver(skb, via, &guard) {
            self.unmatched.dropped_all(reason, packets);
        }
    }
}

/// Gives `skb` to `qp`, if that gives the service that it is for. If not, the reason is counted where the
/// packet was going.
#[inline]
fn arrived(qp: &AnyQp, opcode: Opcode, skb: RxSkb) {
    if qp.serves(opcode) {
        qp.arrived(opcode, skb);
    } else {
        let reason = match opcode {
            Opcode::CNP => DropReason::CongestionNotification,
            _ => DropReason::WrongService,
        };
        let counters = qp.shared().port().counters();
        counters.dropped_all(reason, skb.packets());
    }
}
