// SPDX-License-Identifier: GPL-2.0

//! Sends packets of a port that has impairments.

use super::{
    Path,
    TxContext, //
};
use crate::{
    packet::tx_packet::TxPacket,
    port::{
        congestion,
        counters::Counter, //
    }, //
};
use rdma::net::tx::{
    output::Xmit,
    skb::IpPacket, //
};
use roce::{
    id::Qpn,
    impair::Fate,
    wire::ip::ROCE_UDP_PORT, //
};

/// Packet held back, and how many others must still be sent before it.
pub(super) struct LatePacket {
    packet: IpPacket,
    overtaken_by: u32,
}

impl Path {
    /// As [`Path::send`], for a port with impairments: each packet goes by itself, and has a fate.
    #[cold]
    pub(super) fn send_impaired(&mut self, tx: TxContext<'_>, tx_packet: TxPacket) {
        self.follows_super_packet = false;
        self.transmit_list(tx);
        let qpn = self.qpns.map_or(Qpn::new(0), |(qpn, _)| qpn);
        let fate = tx.port.impairments().fate(qpn);
        let mut ip = self.ip_header();
        if fate == Fate::Mark {
            ip.traffic_class = congestion::marked(ip.traffic_class);
        }
        let finished = match fate {
            Fate::Damage => tx_packet.finish_damaged(),
            _ => tx_packet.finish(),
        };
        let ports = (self.source_port, ROCE_UDP_PORT);
        let Some(packet) = finished.and_then(|skb| skb.seal(&ip, ports)) else {
            return tx.port.counters().sent(1, 0, Xmit::Lost);
        };
        if fate != Fate::Pass {
            tx.port.counters().count(Counter::ImpairedPackets);
        }
        match (fate, &self.late) {
            // CAST: `usize` has 64 bits.
            (Fate::Drop, _) => {
                return self.count(tx, (1, packet.payload_len() as usize), Xmit::Sent)
            }
            (Fate::Late(overtaken_by), None) => {
                self.late = Some(LatePacket {
                    packet,
                    overtaken_by,
                });
                return;
            }
            (Fate::Twice, _) => {
                let copy = packet.try_copy();
                self.send_alone(tx, packet);
                copy.into_iter().for_each(|copy| self.send_alone(tx, copy));
            }
            _ => self.send_alone(tx, packet),
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
            self.send_alone(tx, late.packet);
        }
    }
}
