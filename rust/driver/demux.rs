// SPDX-License-Identifier: GPL-2.0

//! From a received packet to the queue pair it is for.
//!
//! Owns the numbers of all queue pairs of this module and the checks that need no queue pair:
//! form, ICRC, destination. Numbers are unique over all devices, so a packet finds its queue pair
//! however it came in: over the device's own netdev, a VLAN on top of it, or the loopback device.
//! Number 1 alone every port has; there the destination address decides. The queue pair itself checks
//! that the packet comes from its peer.

use crate::{
    arrival::{
        gather_headers,
        packet,
        verify, //
    },
    counters::Counters,
    datagram::receiver::Origin,
    multicast::Groups,
    queue_pair::QueuePair, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        rcu,
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    net::{
        netdev::NetDevBorrow,
        rx::RxSkb,
        udp_tunnel::Receive, //
    },
    table::Table,
    trace, //
};
use roce::{
    id::{
        Pkey,
        Qpn, //
    },
    status::DropReason,
    wire::{
        opcode::{
            Opcode,
            Service, //
        },
        packet::Packet, //
    }, //
};

/// Numbers of queue pairs. Those below belong to the management queue pairs.
const NUMBERS: core::ops::Range<u32> = 16..0xff_ffff;

/// The queue pairs of all devices, by number.
#[pin_data]
pub(crate) struct Demux {
    #[pin]
    qps: Table<QueuePair>,
    /// The general services queue pairs, which all have number 1: the address tells whose it is.
    #[pin]
    gsi: SpinLockIrq<KVec<Arc<QueuePair>>>,
    /// Those that get what is sent to groups.
    #[pin]
    groups: Groups,
    /// Packets that are for no queue pair, and so for no device in particular.
    strays: Counters,
}

impl Demux {
    /// No queue pairs.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            qps <- Table::new(),
            gsi <- new_spinlock_irq!(KVec::new()),
            groups <- Groups::new(),
            strays: Counters::new(),
        })
    }

    /// Gives `qp` a number; packets find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every number is taken.
    pub(crate) fn insert(&self, qp: Arc<QueuePair>) -> Result<u32> {
        self.qps.alloc_cyclic(NUMBERS, qp)
    }

    /// Lets the packets for QP 1 of its port find `qp`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert_gsi(&self, qp: Arc<QueuePair>) -> Result {
        let mut list = KVec::new();
        loop {
            // Nothing is allocated under the lock.
            let mut gsi = self.gsi.lock();
            if list.capacity() > gsi.len() {
                while let Some(old) = gsi.pop() {
                    list.push(old, GFP_ATOMIC)?;
                }
                list.push(qp, GFP_ATOMIC)?;
                core::mem::swap(&mut *gsi, &mut list);
                return Ok(());
            }
            let needed = gsi.len().saturating_add(1);
            drop(gsi);
            list.reserve(needed, GFP_KERNEL)?;
        }
    }

    /// Takes the number back. When it returns, no packet finds the queue pair any more.
    pub(crate) fn remove(&self, number: u32) {
        drop(self.qps.remove(number));
    }

    /// Takes a general services queue pair back. When it returns, no packet finds it any more.
    pub(crate) fn remove_gsi(&self, qp: &Arc<QueuePair>) {
        let mut gsi = self.gsi.lock();
        let at = gsi.iter().position(|other| Arc::ptr_eq(other, qp));
        let removed = at.and_then(|at| gsi.remove(at).ok());
        drop(gsi);
        drop(removed);
    }

    /// The multicast groups.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// What was counted of packets for no queue pair.
    pub(crate) fn strays(&self) -> &Counters {
        &self.strays
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
        gather_headers(&mut skb)?;
        let packet = packet(&skb)?;
        let opcode = packet.opcode();
        trace::packet_in(|| {
            Some(trace::Packet {
                dest_qpn: packet.dest_qpn().get(),
                opcode: opcode.to_byte(),
                psn: packet.psn().get(),
                bytes: skb.udp_payload_len(),
            })
        });
        if opcode.service() == Service::Ud {
            Origin::note(&mut skb, via);
            return self.deliver_datagram(opcode, skb, via, guard);
        }
        let qp = self.numbered(packet.dest_qpn(), via, guard)?;
        if admits(qp, &packet, &skb) {
            let len = skb.udp_payload_len();
            qp.arrived(opcode, skb, len);
        }
        Ok(())
    }

    /// Hands a datagram to its queue pair: of a group, of a port, or just one.
    fn deliver_datagram(
        &self,
        opcode: Opcode,
        skb: RxSkb,
        via: &NetDevBorrow,
        guard: &rcu::Guard,
    ) -> Result<(), DropReason> {
        if skb.addresses().is_multicast() {
            return self.deliver_to_group(skb, via, guard);
        }
        let packet = packet(&skb)?;
        let len = skb.udp_payload_len();
        if packet.dest_qpn() == Qpn::GSI {
            let (_, gid) = skb.addresses().to_gids();
            let qp = self.gsi_of(&gid, via, guard);
            let qp = qp.ok_or(DropReason::NotOurAddress)?;
            if admits(&qp, &packet, &skb) {
                qp.arrived(opcode, skb, len);
            }
            return Ok(());
        }
        let qp = self.numbered(packet.dest_qpn(), via, guard)?;
        if admits(qp, &packet, &skb) {
            qp.arrived(opcode, skb, len);
        }
        Ok(())
    }

    /// The queue pair with that number, if its port is in the namespace that the packet came to. Numbers are
    /// unique in the module, and namespaces have nothing to say to each other but over a wire.
    fn numbered<'g>(
        &'g self,
        number: Qpn,
        via: &NetDevBorrow,
        guard: &'g rcu::Guard,
    ) -> Result<&'g QueuePair, DropReason> {
        self.qps
            .get(number.get(), guard)
            .filter(|qp| qp.common().port().net() == via.net_id())
            .ok_or(DropReason::UnknownQp)
    }

    /// Hands copies of `skb` to the queue pairs of a group. The number in the packet names no queue pair
    /// then.
    fn deliver_to_group(
        &self,
        skb: RxSkb,
        via: &NetDevBorrow,
        guard: &rcu::Guard,
    ) -> Result<(), DropReason> {
        let packet = packet(&skb)?;
        if packet.dest_qpn() != Qpn::MULTICAST {
            return Err(DropReason::NoMulticastMember);
        }
        let opcode = packet.opcode();
        let (_, group) = skb.addresses().to_gids();
        let whole = |qp: &QueuePair, skb: &RxSkb| {
            let packet = crate::arrival::packet(skb);
            packet.is_ok_and(|packet| admits(qp, &packet, skb))
        };
        self.groups
            .deliver(&group, via, (opcode, skb), whole, guard)
    }

    /// The general services queue pair of the port with this address: the port that the packet came in by,
    /// or else, if it came by the loopback interface, another of the same namespace.
    fn gsi_of(
        &self,
        gid: &[u8; 16],
        via: &NetDevBorrow,
        guard: &rcu::Guard,
    ) -> Option<Arc<QueuePair>> {
        let net = via.net_id();
        let gsi = self.gsi.lock();
        let mut other = None;
        for qp in gsi.iter() {
            let port = qp.common().port();
            if port.net() == net && port.owns(gid) {
                if port.takes_from(via, guard) {
                    return Some(qp.clone());
                }
                other = Some(qp);
            }
        }
        other.cloned()
    }
}

impl Receive for Demux {
    fn receive(&self, skb: RxSkb, via: &NetDevBorrow) {
        let guard = rcu::read_lock();
        if let Err(reason) = self.deliver(skb, via, &guard) {
            self.strays.dropped(reason);
        }
    }
}

/// Whether `packet`, which came in `skb`, is whole, of the service that `qp` gives, and of the only
/// partition that there is. If not, the reason is counted where the packet was going.
fn admits(qp: &QueuePair, packet: &Packet<'_>, skb: &RxSkb) -> bool {
    let checked = if qp.serves(packet.opcode()) {
        verify(skb, packet)
    } else {
        Err(DropReason::WrongService)
    };
    let checked = checked.and_then(|()| match packet.pkey().matches(Pkey::DEFAULT) {
        true => Ok(()),
        false => Err(DropReason::BadPkey),
    });
    checked
        .inspect_err(|&reason| qp.common().port().counters().dropped(reason))
        .is_ok()
}
