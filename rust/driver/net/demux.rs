// SPDX-License-Identifier: GPL-2.0

//! Demux: finds the QP of a received packet.
//!
//! Packets arrive in softirq on many CPUs and find their QP in a [`ReadSection`], without a lock. The verbs insert and
//! remove QPs in process context.
//!
//! QP numbers are unique in the module, so a packet finds its QP on any interface: the netdev of the port, a VLAN on
//! top of it, or the loopback device. Only number 1 exists once per port; there, the destination address decides. The
//! demux reads only opcode and destination. The QP checks that the packet comes from its peer.

use crate::{
    net::mcast::Groups,
    port::{
        counters::Counters,
        state::{
            Port,
            SpoofFilter, //
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
            receive::PacketReceiver,
            skb::RxSkb, //
        }, //
    },
    sync::{
        rcu_table::RcuTable,
        read_section::ReadSection, //
    },
    util::random, //
};
use roce::{
    id::{
        Qpn,
        QpnSpace, //
    },
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

/// Number of tables for GSI QPs.
const GSI_TABLES: usize = 256;

/// The QPs of all devices.
#[pin_data]
pub(crate) struct Demux {
    /// QPs by the index of their number.
    #[pin]
    qps: RcuTable<AnyQp>,
    /// The numbers. Those of each load of the module begin at a random place.
    numbers: QpnSpace,
    /// GSI QPs, which all have number 1. The table is chosen by namespace, so that the devices of other namespaces do
    /// not slow down a lookup.
    #[pin]
    gsi_tables: [RcuTable<AnyQp>; GSI_TABLES],
    /// QPs that are attached to multicast groups.
    #[pin]
    groups: Groups,
}

impl Demux {
    /// Creates an empty demux.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            qps <- RcuTable::new(),
            numbers: QpnSpace::new(random::u32()),
            gsi_tables <- pin_init::pin_init_array_from_fn(|_| RcuTable::new()),
            groups <- Groups::new(),
        })
    }

    /// Allocates a number for `qp`. Packets find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if all numbers are in use.
    pub(crate) fn insert(&self, qp: Arc<AnyQp>) -> Result<u32> {
        let index = self.qps.alloc_cyclic(0..QpnSpace::COUNT, qp)?;
        Ok(self.numbers.number(index).get())
    }

    /// Inserts `qp` as QP 1 of its port. Packets find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert_gsi(&self, qp: Arc<AnyQp>) -> Result {
        let net = qp.shared().port().net();
        self.gsi_table(net)
            .ok_or(ENOMEM)?
            .alloc_cyclic(0..u32::MAX, qp)?;
        Ok(())
    }

    /// Removes the QP with this number. On return, no packet finds it. Sleeps.
    pub(crate) fn remove(&self, number: u32) {
        drop(self.qps.remove(self.numbers.index(Qpn::new(number))));
    }

    /// Returns the QP with this number, in any namespace.
    #[inline]
    fn get<'g>(&'g self, number: Qpn, guard: &'g ReadSection) -> Option<&'g AnyQp> {
        self.qps.get(self.numbers.index(number), guard)
    }

    /// Removes a GSI QP. On return, no packet finds it. Sleeps.
    pub(crate) fn remove_gsi(&self, qp: &Arc<AnyQp>) {
        let Some(table) = self.gsi_table(qp.shared().port().net()) else {
            return;
        };
        let mut index = None;
        table.for_each(|at, other| {
            if Arc::ptr_eq(&other, qp) {
                index = Some(at);
            }
        });
        if let Some(index) = index {
            drop(table.remove(index));
        }
    }

    /// Returns the table of the GSI QPs of a namespace. Other namespaces may share it.
    fn gsi_table(&self, net: NetId) -> Option<&RcuTable<AnyQp>> {
        self.gsi_tables.get(net.bucket(GSI_TABLES))
    }

    /// Drops the cached routes of the QPs of `port`, which has lost its netdev. Sleeps.
    pub(crate) fn forget_routes(&self, port: &Port) {
        self.qps.for_each(|_, qp| {
            if core::ptr::eq(qp.shared().port(), port) {
                qp.forget_routes();
            }
        });
    }

    /// Returns the multicast groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Delivers `skb`, received on `via`, to its QP.
    ///
    /// # Errors
    ///
    /// The reason why the packet is unmatched. If it has a QP, errors are counted at the QP's port.
    fn deliver(
        &self,
        mut skb: RxSkb,
        via: &NetDevBorrow,
        guard: &ReadSection,
    ) -> Result<(), DropReason> {
        let mut bth_copy = [0; BTH_LEN];
        let packet = skb.current();
        let bth = packet
            .peek(&mut bth_copy)
            .map_err(|_| DropReason::TooShort)?;
        let (opcode, number) = Packet::destination(bth)?;
        // Packets in an inbox are not charged to a socket, so their length is limited. Only connected QPs send
        // super-packets.
        if match skb.is_super_packet() {
            true => opcode.service() == Service::Ud,
            false => packet.udp_payload_len() > MAX_PACKET_LEN,
        } {
            return Err(DropReason::BadLength);
        }
        if opcode.service() == Service::Ud {
            RxOrigin::note(&mut skb, via);
            return self.deliver_datagram((opcode, number), skb, via, guard);
        }
        deliver_to(self.qp_by_number(number, via, guard)?, (opcode, skb), guard);
        Ok(())
    }

    /// Delivers a datagram: to the QPs of a multicast group, to the GSI QP of a port, or to the QP with the number.
    fn deliver_datagram(
        &self,
        (opcode, number): (Opcode, Qpn),
        skb: RxSkb,
        via: &NetDevBorrow,
        guard: &ReadSection,
    ) -> Result<(), DropReason> {
        let addresses = skb.addresses();
        let (_, gid) = addresses.to_gids();
        if addresses.is_multicast() {
            // With a multicast address, the number in the packet is not that of a QP.
            return match number == Qpn::MULTICAST {
                true => self.groups.deliver(&gid, via, (opcode, skb), guard),
                false => Err(DropReason::NoMulticastMember),
            };
        }
        // A connected QP compares both addresses with those of its peer. A datagram QP has no peer, so the destination
        // must be an address of the port: the namespace may have interfaces in other networks.
        let qp = if number == Qpn::GSI {
            self.gsi_qp(&gid, via, guard)
        } else {
            let qp = self.qp_by_number(number, via, guard)?;
            Some(qp).filter(|qp| qp.shared().port().has_gid(&gid))
        };
        deliver_to(qp.ok_or(DropReason::NotOurAddress)?, (opcode, skb), guard);
        Ok(())
    }

    /// Returns the QP with this number, if its port is in the namespace of `via`. Numbers are unique in the module, so
    /// this check keeps namespaces apart.
    fn qp_by_number<'g>(
        &'g self,
        number: Qpn,
        via: &NetDevBorrow,
        guard: &'g ReadSection,
    ) -> Result<&'g AnyQp, DropReason> {
        self.get(number, guard)
            .filter(|qp| qp.shared().port().is_in(via.net_id(), guard))
            .ok_or(DropReason::UnknownQp)
    }

    /// Returns the GSI QP of the port with this address. Prefers the port that receives packets from `via`; otherwise
    /// takes any in the same namespace.
    fn gsi_qp<'g>(
        &'g self,
        gid: &[u8; 16],
        via: &NetDevBorrow,
        guard: &'g ReadSection,
    ) -> Option<&'g AnyQp> {
        let net = via.net_id();
        let mut other = None;
        for qp in self.gsi_table(net)?.iter(guard) {
            let port = qp.shared().port();
            if port.is_in(net, guard) && port.has_gid(gid) {
                if port.receives_from(via, guard) {
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
        guard: &'g ReadSection,
    ) -> Option<LocalPeer<'g, rc::responder::RcRecvEngine>> {
        let (shared, receiver) = match self.get(number, guard)? {
            AnyQp::Rc(qp) => (qp.shared(), qp.receiver()),
            AnyQp::Xrc(qp) => (qp.shared(), qp.receiver()),
            AnyQp::Uc(_) | AnyQp::Ud(_) => return None,
        };
        let is_in = shared.port().is_in(net, guard);
        is_in.then_some(LocalPeer { shared, receiver })
    }

    fn defer(&self, number: Qpn) {
        let guard = ReadSection::enter();
        match self.get(number, &guard) {
            Some(AnyQp::Rc(qp)) => qp.as_arc_borrow().defer_receiver(),
            Some(AnyQp::Xrc(qp)) => qp.as_arc_borrow().defer_receiver(),
            _ => {}
        }
    }
}

impl SpoofFilter for Demux {
    fn admits(&self, (from, to): (Qpn, Qpn), net: NetId, packets: u16, guard: &rcu::Guard) -> bool {
        let section = ReadSection::enter();
        let shared = match self.get(to, &section) {
            Some(AnyQp::Rc(qp)) => qp.shared(),
            Some(AnyQp::Uc(qp)) => qp.shared(),
            Some(AnyQp::Xrc(qp)) => qp.shared(),
            Some(AnyQp::Ud(_)) | None => return true,
        };
        if shared.is_connected_to(from) || !shared.port().is_in(net, guard) {
            return true;
        }
        let reason = match shared.is_connected() {
            true => DropReason::WrongSource,
            // Rejected as well: the packets could arrive after the QP is connected.
            false => DropReason::WrongQpState,
        };
        shared.port().counters().dropped_all(reason, packets);
        false
    }
}

/// Receiver of the packets of one network namespace.
pub(crate) struct NetnsRx {
    demux: Arc<Demux>,
    /// Drops of unmatched packets, which belong to no device. Per namespace, so that other namespaces cannot see them.
    unmatched: Counters,
}

impl NetnsRx {
    /// Creates a receiver that passes packets to `demux`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(demux: Arc<Demux>) -> Result<Arc<Self>> {
        let unmatched = Counters::new()?;
        Ok(Arc::new(Self { demux, unmatched }, GFP_KERNEL)?)
    }

    /// Returns the counters of unmatched packets.
    pub(crate) fn unmatched(&self) -> &Counters {
        &self.unmatched
    }
}

impl PacketReceiver for NetnsRx {
    const PORT: u16 = ROCE_UDP_PORT;

    fn receive(&self, skb: RxSkb, via: &NetDevBorrow) {
        let guard = ReadSection::enter();
        let packets = skb.packets();
        if let Err(reason) = self.demux.deliver(skb, via, &guard) {
            self.unmatched.dropped_all(reason, packets);
        }
    }
}

/// Passes `skb` to `qp`, if the opcode belongs to its service. Otherwise counts the drop at the QP's port.
#[inline]
fn deliver_to(qp: &AnyQp, (opcode, skb): (Opcode, RxSkb), guard: &ReadSection) {
    if qp.serves(opcode) || (opcode == Opcode::CNP && qp.handles_cnps()) {
        qp.arrived((opcode, skb), guard);
    } else {
        let reason = match opcode {
            Opcode::CNP => DropReason::CongestionNotification,
            _ => DropReason::WrongService,
        };
        let counters = qp.shared().port().counters();
        counters.dropped_all(reason, skb.packets());
    }
}
