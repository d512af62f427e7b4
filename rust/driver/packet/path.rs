// SPDX-License-Identifier: GPL-2.0

//! Path from an engine to its peer: addresses, UDP source port, IPv4 identification, cached route.
//!
//! Each engine of a connected QP owns its path; the UD send engine creates one per datagram. Packets are sent in
//! process context or softirq. They are collected in a burst ([`burst`]), which [`Path::transmit_pending`] passes to
//! the stack: as one super-packet, if the route takes it, otherwise as packets.
//! Every failure counts as loss, and the transport recovers from loss. [`impaired`] sends the packets of a port with
//! impairments.

mod burst;
mod impaired;

pub(crate) use self::burst::{
    EntryWriter,
    Unsent, //
};

use self::{
    burst::Burst,
    impaired::LatePacket, //
};
use crate::{
    packet::icrc::trailer_len,
    port::{
        congestion::CongestionSettings,
        counters::EngineTraffic,
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
            header::IpHeader,
            output::Xmit, //
        },
        tx_inflight::TxInflight, //
    }, //
};
use roce::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    segmentation::{
        gso_loss::GsoLoss,
        tx_desc::{
            TxDesc,
            TxPayload, //
        }, //
    },
    wire::{
        emit::Headers,
        ip::{
            Ipv4Pseudo,
            Ipv6Pseudo,
            Masked,
            UdpPseudo,
            ROCE_UDP_PORT, //
        },
        opcode::Opcode, //
    }, //
};

/// "Don't fragment" in the flags of an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;

/// What packets are sent through, and counted in.
#[derive(Clone, Copy)]
pub(crate) struct TxContext<'a> {
    /// The port.
    pub(crate) port: &'a Port,
    /// The traffic of the engine that sends.
    pub(crate) traffic: &'a EngineTraffic,
}

/// Path to one peer.
pub(crate) struct Path {
    addresses: Addresses,
    /// Numbers of the local QP and of its peer, for a connected service.
    qpns: Option<(Qpn, Qpn)>,
    /// Index of the outgoing interface, unless packets stay on this host.
    ifindex: i32,
    traffic_class: u8,
    priority: u8,
    hop_limit: u8,
    flow_label: u32,
    source_port: u16,
    /// Identification of the next IPv4 packet. With DF any value is legal (RFC 6864), but the
    /// ICRC covers it, so it is chosen here.
    ipv4_id: u16,
    /// IP and UDP fields that the ICRC covers. Identification and lengths change with each packet.
    masked: Masked,
    route: Option<Route>,
    /// Packets that wait for more.
    burst: Option<Burst>,
    /// Whether each packet is sent in a buffer of its own.
    singly: bool,
    /// Whether the sender finds out that the route loses super-packets, so that single packets may be sent as one, too.
    detects_gso_loss: bool,
    /// Whether the route loses super-packets.
    gso_loss: GsoLoss,
    /// A super-packet was sent since the last [`Path::take_gso_sent`].
    gso_sent: bool,
    /// Counts packets until their buffers are freed.
    tx_inflight: Option<Arc<TxInflight>>,
    /// Whether bursts transmitted from now on count in `tx_inflight`.
    counted: bool,
    /// The stack has dropped packets or reported congestion since the last [`Path::take_congested`].
    congested: bool,
    /// Packet held back by an impairment.
    late: Option<LatePacket>,
}

impl Path {
    /// Creates the path that the address vector `ah` describes, for the flow from `qpn` at `port` to `dest_qpn`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if source and destination are of different address families, or if the source address is not in the
    /// namespace of the port: its interface, such as a VLAN, has moved to another namespace or is being removed.
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
            qpns: None,
            ifindex: ah.ifindex,
            traffic_class: ah.traffic_class,
            // The service level is the priority of the skb. With 0, the traffic class decides.
            priority: ah.sl,
            // IP multicast with 0 does not leave this host. In a GRH, 0 and 1 both limit a packet to its subnet (IBA
            // 8.3).
            hop_limit: ah.hop_limit.max(1),
            flow_label: ah.flow_label,
            source_port: udp.sport,
            ipv4_id: 0,
            masked,
            route: None,
            burst: None,
            singly: false,
            detects_gso_loss: false,
            gso_loss: GsoLoss::default(),
            gso_sent: false,
            tx_inflight: None,
            counted: true,
            congested: false,
            late: None,
        })
    }

    /// Sets the QP numbers of a connection.
    pub(crate) fn with_qpns(self, (qpn, dest_qpn): (u32, u32)) -> Self {
        Self {
            qpns: Some((Qpn::new(qpn), Qpn::new(dest_qpn))),
            ..self
        }
    }

    /// Sets the ECN field of the packets: it says whether the QP reacts to marks.
    pub(crate) fn with_congestion_control(self, settings: &CongestionSettings) -> Self {
        Self {
            traffic_class: settings.traffic_class(self.traffic_class),
            ..self
        }
    }

    /// Counts packets in `tx_inflight`.
    pub(crate) fn count_in(&mut self, tx_inflight: &Arc<TxInflight>) {
        self.tx_inflight = Some(tx_inflight.clone());
    }

    /// Sets whether bursts that are transmitted from now on count as in flight. For short packets, counting would be
    /// a large part of the cost.
    pub(crate) fn set_counted(&mut self, counted: bool) {
        self.counted = counted;
    }

    /// Has `decide` say whether each packet is sent in a buffer of its own from now on. It gets what is known of the
    /// route, which is forgotten when the route changes.
    #[inline]
    pub(crate) fn send_singly_if(&mut self, decide: impl FnOnce(&mut GsoLoss) -> bool) {
        self.singly = decide(&mut self.gso_loss);
    }

    /// Returns the length of the longest super-packet, if one was sent since the last call.
    #[inline]
    pub(crate) fn take_gso_sent(&mut self) -> Option<u32> {
        core::mem::take(&mut self.gso_sent).then_some(self.gso_loss.longest())
    }

    /// Notes that a super-packet with `bytes` of UDP payload is sent.
    #[inline]
    fn on_gso_sent(&mut self, bytes: usize) {
        self.gso_sent = true;
        // CAST: At most 64 KiB.
        self.gso_loss.on_sent(bytes as u32);
    }

    /// Returns whether the stack has dropped packets or reported congestion since the last call. The send engine calls
    /// it once per burst.
    pub(crate) fn take_congested(&mut self) -> bool {
        core::mem::take(&mut self.congested)
    }

    /// Returns source and destination address.
    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Drops the cached route.
    pub(crate) fn forget_route(&mut self) {
        self.route = None;
    }

    /// Returns whether packets stay on this host.
    #[inline]
    pub(crate) fn is_local(&mut self, port: &Port, guard: &rcu::Guard) -> bool {
        self.route(port, guard).is_some_and(Route::is_local)
    }

    /// Returns whether a packet with these addresses comes from the peer.
    pub(crate) fn is_from_peer(&self, received: &Addresses) -> bool {
        *received == self.addresses.reversed()
    }

    /// Sets whether single packets may be sent as super-packets, too: the sender finds out if the route loses them.
    #[inline]
    pub(crate) fn set_detects_gso_loss(&mut self, detects: bool) {
        self.detects_gso_loss = detects;
    }

    /// Sends a CNP to the peer, with a traffic class of its own. Packets that were sent before go first.
    pub(crate) fn send_cnp(&mut self, tx: TxContext<'_>, traffic_class: u8) {
        let Some((_, dest_qpn)) = self.qpns else {
            return;
        };
        self.transmit_pending(tx);
        // CNPs take the route of the other packets: it is looked up before the class changes.
        let _ = self.route(tx.port, &rcu::read_lock());
        let cnp = TxDesc {
            headers: Headers::new(Opcode::CNP, Pkey::DEFAULT, dest_qpn, Psn::new(0)),
            source: TxPayload::None,
            offset: 0,
            length: 0,
            packets: 1,
        };
        let usual = (self.traffic_class, self.priority, self.counted);
        let detects_gso_loss = self.detects_gso_loss;
        // With priority 0 the traffic class decides. No packet waits for a CNP to leave the local stack.
        (self.traffic_class, self.priority, self.counted) = (traffic_class, 0, false);
        self.detects_gso_loss = false;
        self.send_empty(tx, (&cnp, tx.port.active_mtu()));
        self.transmit_pending(tx);
        (self.traffic_class, self.priority, self.counted) = usual;
        self.detects_gso_loss = detects_gso_loss;
    }

    /// Counts packets that were passed to the stack, and their bytes of UDP payload.
    fn count(&mut self, tx: TxContext<'_>, (packets, bytes): (u16, usize), sent: Xmit) {
        // Recorded, not returned: packets are also sent in the middle of a burst. The engine reads the sum once per
        // burst, with `take_congested`.
        self.congested |= sent != Xmit::Sent;
        tx.port.counters().sent(packets, bytes, sent);
        if sent != Xmit::Lost {
            tx.traffic.sent(packets, bytes);
        }
    }

    /// Returns the IP header of the next packet.
    fn ip_header(&self) -> IpHeader {
        IpHeader {
            addresses: self.addresses,
            traffic_class: self.traffic_class,
            priority: self.priority,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            ipv4_id: self.ipv4_id,
        }
    }

    /// Passes the burst to the stack, if there is one, and a packet that an impairment delays. The engine calls it
    /// when it has no more packets, because nothing else transmits a burst that is not full.
    pub(crate) fn transmit_pending(&mut self, tx: TxContext<'_>) {
        self.transmit_burst(tx);
        self.send_late(tx);
    }

    /// Returns the route.
    fn route(&mut self, port: &Port, guard: &rcu::Guard) -> Option<&Route> {
        self.update_route(port, guard);
        self.route.as_ref()
    }

    /// Looks the cached route up again if the network has changed. There is none if the netdev is being unregistered.
    fn update_route(&mut self, port: &Port, guard: &rcu::Guard) {
        let Some(netdev) = port.netdev(guard) else {
            self.route = None;
            return;
        };
        if !self.route.as_ref().is_some_and(Route::is_valid) {
            let flow = (&self.addresses, (self.source_port, ROCE_UDP_PORT));
            self.gso_loss = GsoLoss::default();
            self.route = Route::lookup(netdev, self.ifindex, flow, self.traffic_class).ok();
        }
    }
}

/// Returns whether packets may be sent. The source address does not identify the QP that has sent a packet on this
/// host, so the spoof filter checks that the two QPs are connected.
fn is_admitted(
    qpns: Option<(Qpn, Qpn)>,
    (port, route): (&Port, &Route),
    packets: u16,
    guard: &rcu::Guard,
) -> bool {
    match qpns {
        Some(qpns) if route.is_local() => {
            let spoof_filter = port.spoof_filter();
            spoof_filter.admits(qpns, port.net(), packets, guard)
        }
        _ => true,
    }
}

/// Returns the BTH fields of a packet that the tracepoints report.
pub(crate) fn trace_fields(headers: &[u8], payload_len: usize) -> Option<trace::TracedPacket> {
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
