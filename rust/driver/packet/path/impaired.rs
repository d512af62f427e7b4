// SPDX-License-Identifier: GPL-2.0

//! Sends packets of a port that has impairments.

use super::{
    Path,
    TxContext, //
};
use crate::port::{
    congestion,
    counters::Counter, //
};
use kernel::sync::rcu;
use rdma::net::tx::{
    output::Xmit,
    skb::TxSkb,
    super_packet::TxPackets, //
};
use roce::{
    id::Qpn,
    impair::Fate, //
};

/// Packet held back, and how many others must still be sent before it.
pub(super) struct LatePacket {
    packet: TxSkb,
    overtaken_by: u32,
}

impl Path {
    /// Sends the next packet of `split`, on a port with impairments: it has a fate.
    #[cold]
    pub(super) fn send_impaired(
        &mut self,
        tx: TxContext<'_>,
        split: &mut TxPackets,
        guard: &rcu::Guard,
    ) {
        let qpn = self.qpns.map_or(Qpn::new(0), |(qpn, _)| qpn);
        let fate = tx.port.impairments().fate(qpn);
        let packet = split.next(|class| match fate {
            Fate::Mark => congestion::marked(class),
            _ => class,
        });
        let Some(mut packet) = packet else {
            return tx.port.counters().sent(1, 0, Xmit::Lost);
        };
        if fate != Fate::Pass {
            tx.port.counters().count(Counter::ImpairedPackets);
        }
        match (fate, &self.late) {
            (Fate::Drop, _) => return self.count(tx, (1, packet.udp_payload_len()), Xmit::Sent),
            (Fate::Late(overtaken_by), None) => {
                self.late = Some(LatePacket {
                    packet,
                    overtaken_by,
                });
                return;
            }
            (Fate::Twice, _) => {
                let copy = packet.try_copy();
                self.output_packet(tx, Some(packet), guard);
                if copy.is_some() {
                    self.output_packet(tx, copy, guard);
                }
            }
            // A packet that cannot be damaged is lost.
            (Fate::Damage, _) => {
                let damaged = packet.damage();
                self.output_packet(tx, damaged.ok().map(|()| packet), guard);
            }
            _ => self.output_packet(tx, Some(packet), guard),
        }
        match &mut self.late {
            Some(late) if late.overtaken_by > 1 => {
                late.overtaken_by = late.overtaken_by.wrapping_sub(1)
            }
            _ => self.send_late(tx),
        }
    }

    /// Sends the packet that is held back, if there is one.
    #[inline]
    pub(super) fn send_late(&mut self, tx: TxContext<'_>) {
        if let Some(late) = self.late.take() {
            let guard = rcu::read_lock();
            self.update_route(tx.port, &guard);
            self.output_packet(tx, Some(late.packet), &guard);
        }
    }
}
