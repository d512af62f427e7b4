// SPDX-License-Identifier: GPL-2.0

//! The way from one half of a connected queue pair to its peer.
//!
//! Owns addresses, UDP source port, IPv4 identification and the cached route. Does not know what
//! it sends. Whatever goes wrong on the way is loss, and the transport recovers from loss.

use crate::{
    packet::tx_packet::{
        trailer_len,
        TxPacket, //
    },
    port::{
        counters::Traffic,
        state::Port, //
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
    ib::{
        qp_attr::AhAttr,
        trace, //
    },
    net::{
        route::{
            Addresses,
            Route, //
        },
        tx::{
            gso_list::{
                GsoList,
                Xmit, //
            },
            header::IpHeader, //
        },
        tx_inflight::TxInflight, //
    }, //
};
use roce::{
    id::Qpn,
    wire::{
        emit::HeaderBuf,
        ip::{
            Ipv4Pseudo,
            Ipv6Pseudo,
            Masked,
            UdpPseudo,
            ROCE_UDP_PORT, //
        }, //
    }, //
};

/// "Don't fragment" in the flags of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

/// The way to one peer.
pub(crate) struct Path {
    addresses: Addresses,
    /// Who sends and who is to take what is sent, if they are connected.
    ends: Option<(Qpn, Qpn)>,
    /// The interface that packets leave by, unless they stay on this machine.
    ifindex: i32,
    traffic_class: u8,
    priority: u8,
    hop_limit: u8,
    flow_label: u32,
    source_port: u16,
    /// Identification of the next IPv4 packet. With DF any value is legal (RFC 6864), but the
    /// ICRC covers it, so it is chosen here.
    ipv4_id: u16,
    /// The covered fields of IP and UDP; identification and lengths change with each packet.
    masked: Masked,
    route: Option<Route>,
    /// Packets that are ready, and wait for more.
    burst: Option<GsoList>,
    /// Where packets are counted until they have left this machine.
    tx_inflight: Option<Arc<TxInflight>>,
    /// Whether those that are sent now are.
    counts: bool,
    /// The network has refused something that was sent.
    refused: bool,
}

impl Path {
    /// The way that address vector `ah` describes, for the flow from `qpn` at `port` to `dest_qpn`.
    ///
    /// # Errors
    ///
    /// `EINVAL` when source and destination are of different families, or the source is an address of another
    /// namespace: that of an interface which is on top of the port's, but was moved away; or of none, as it is just
    /// going.
    pub(crate) fn new(ah: &AhAttr, port: &Port, (qpn, dest_qpn): (u32, u32)) -> Result<Self> {
        if ah.net != Some(port.net()) {
            return Err(EINVAL);
        }
        let addresses = Addresses::from_gids(&ah.sgid, &ah.dgid).ok_or(EINVAL)?;
        let udp = UdpPseudo {
            sport: rdma::net::udp_source_port(ah.flow_label, qpn, dest_qpn),
            dport: ROCE_UDP_PORT,
            len: 0,
        };
        let masked = match addresses {
            Addresses::V4 { src, dst } => Masked::ipv4(
                &Ipv4Pseudo {
                    total_len: 0,
                    id: 0,
                    frag: DONT_FRAGMENT,
                    saddr: src,
                    daddr: dst,
                },
                &udp,
            ),
            Addresses::V6 { src, dst } => Masked::ipv6(
                &Ipv6Pseudo {
                    payload_len: 0,
                    saddr: src,
                    daddr: dst,
                },
                &udp,
            ),
        };
        Ok(Self {
            addresses,
            ends: None,
            ifindex: ah.ifindex,
            traffic_class: ah.traffic_class,
            // The service level is the priority of a frame; without one, the traffic class decides.
            priority: ah.sl,
            // 0 would keep a packet for a group on this machine. In a GRH, 0 and 1 both mean that
            // it stays in the subnet (IBA 8.3).
            hop_limit: ah.hop_limit.max(1),
            flow_label: ah.flow_label,
            source_port: udp.sport,
            ipv4_id: 0,
            masked,
            route: None,
            burst: None,
            tx_inflight: None,
            counts: true,
            refused: false,
        })
    }

    /// The same way, from a connected queue pair to its peer.
    pub(crate) fn between(self, (qpn, dest_qpn): (u32, u32)) -> Self {
        Self {
            ends: Some((Qpn::new(qpn), Qpn::new(dest_qpn))),
            ..self
        }
    }

    /// The same way, whose packets are counted in `tx_inflight`.
    pub(crate) fn counted_in(self, tx_inflight: &Arc<TxInflight>) -> Self {
        Self {
            tx_inflight: Some(tx_inflight.clone()),
            ..self
        }
    }

    /// Whether what is flushed from now on is counted: of little, counting would be a large part of the work.
    pub(crate) fn set_counts(&mut self, counts: bool) {
        self.counts = counts;
    }

    /// Whether the network has refused something since this was last asked.
    pub(crate) fn take_refused(&mut self) -> bool {
        core::mem::take(&mut self.refused)
    }

    /// Where packets come from and go to.
    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Lets go of the cached route.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// Whether packets never leave this machine.
    #[inline]
    pub(crate) fn stays_here(&mut self, port: &Port, guard: &rcu::Guard) -> bool {
        self.route(port, guard).is_some_and(Route::is_local)
    }

    /// Whether a packet with these addresses comes from the peer.
    pub(crate) fn is_from_peer(&self, received: &Addresses) -> bool {
        *received == self.addresses.reversed()
    }

    /// Starts the next packet. `None`: no memory.
    pub(crate) fn tx_packet(
        &mut self,
        headers: &HeaderBuf,
        payload_len: usize,
    ) -> Option<TxPacket> {
        trace::packet_out(|| traced(headers.as_slice(), payload_len));
        let udp_payload = headers
            .len()
            .checked_add(payload_len)?
            .checked_add(trailer_len(payload_len))?;
        self.ipv4_id = self.ipv4_id.wrapping_add(1);
        self.masked.set_packet(self.ipv4_id, udp_payload);
        TxPacket::new(&self.masked, headers, payload_len)
    }

    /// Sends the packet that was started last, together with those that come after it, until
    /// [`Path::flush`] at the latest.
    pub(crate) fn send(&mut self, (port, traffic): (&Port, &Traffic), tx_packet: TxPacket) {
        let ip = IpHeader {
            addresses: self.addresses,
            traffic_class: self.traffic_class,
            priority: self.priority,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            ipv4_id: self.ipv4_id,
        };
        let ports = (self.source_port, ROCE_UDP_PORT);
        let sealed = tx_packet.finish().and_then(|skb| skb.seal(&ip, ports));
        let Some(packet) = sealed else {
            return port.counters().sent(1, 0, Xmit::Lost);
        };
        let packet = match &mut self.burst {
            Some(burst) => match burst.push(packet) {
                Ok(()) => return,
                Err(packet) => packet,
            },
            None => packet,
        };
        self.flush((port, traffic));
        let guard = rcu::read_lock();
        // CAST: `u32` to `usize`, on 64 bits.
        let bytes = packet.payload_len() as usize;
        self.burst = self
            .route(port, &guard)
            .map(|route| GsoList::new(packet, route));
        if self.burst.is_none() {
            port.counters().sent(1, bytes, Xmit::Lost);
        }
    }

    /// Gives to the network what was sent since the last time. To be called before the path is left
    /// alone.
    pub(crate) fn flush(&mut self, (port, traffic): (&Port, &Traffic)) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let (packets, bytes) = (burst.packets(), burst.payload_len());
        let guard = rcu::read_lock();
        let tx_inflight = self.tx_inflight.as_ref().filter(|_| self.counts).cloned();
        let ends = self.ends;
        let sent = match self.route(port, &guard) {
            // Whoever sends them learns no more than if they had been dropped on arrival.
            Some(route) if !may_go(ends, (port, route), packets, &guard) => Xmit::Sent,
            Some(route) => burst.send(route, tx_inflight.as_ref()),
            None => Xmit::Lost,
        };
        self.refused |= sent != Xmit::Sent;
        port.counters().sent(packets, bytes, sent);
        if sent != Xmit::Lost {
            traffic.sent(packets, bytes);
        }
    }

    /// The cached route, looked up again when the network has changed. `None`: there is none, or
    /// the device is going away.
    fn route(&mut self, port: &Port, guard: &rcu::Guard) -> Option<&Route> {
        let netdev = port.netdev(guard)?;
        if !self.route.as_ref().is_some_and(Route::is_valid) {
            let flow = (&self.addresses, (self.source_port, ROCE_UDP_PORT));
            self.route = Route::lookup(netdev, self.ifindex, flow, self.traffic_class).ok();
        }
        self.route.as_ref()
    }
}

/// Whether packets may take this way. On this machine they would be taken for those of the peer that the other queue
/// pair is connected to, whoever that is.
fn may_go(
    ends: Option<(Qpn, Qpn)>,
    (port, route): (&Port, &Route),
    packets: u16,
    guard: &rcu::Guard,
) -> bool {
    match ends {
        Some(ends) if route.is_local() => {
            let loopback_filter = port.loopback_filter();
            loopback_filter.admits(ends, port.net(), packets, guard)
        }
        _ => true,
    }
}

/// A packet for the tracepoint: what its base transport header says.
pub(crate) fn traced(headers: &[u8], payload_len: usize) -> Option<trace::TracedPacket> {
    let (&[opcode, _, _, _, _, q0, q1, q2, _, p0, p1, p2], _) = headers.split_first_chunk()?;
    Some(trace::TracedPacket {
        dest_qpn: u32::from_be_bytes([0, q0, q1, q2]),
        opcode,
        psn: u32::from_be_bytes([0, p0, p1, p2]),
        bytes: headers
            .len()
            .wrapping_add(payload_len)
            .wrapping_add(trailer_len(payload_len)),
    })
}
