// SPDX-License-Identifier: GPL-2.0

//! Path from an engine to its peer: addresses, UDP source port, IPv4 identification, cached route.
//!
//! Each engine of a connected QP owns its path; the UD send engine creates one per datagram. Packets are sent in
//! process context or softirq. A super-packet is sent at once; packets are collected in a GSO list, which
//! [`Path::transmit_pending`] passes to the stack.
//! Every failure counts as loss, and the transport recovers from loss. [`impaired`] sends the packets of a port with
//! impairments.

mod impaired;

use self::impaired::LatePacket;
use crate::{
    packet::{
        tx_packet::{
            trailer_len,
            TxPacket, //
        }, //
    },
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
            gso_list::{
                GsoList,
                ListLimits, //
            },
            header::IpHeader,
            output::Xmit,
            skb::IpPacket,
            super_packet::{
                SuperPacket,
                SuperPacketHeader, //
            }, //
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
        mtu::Mtu,
        tx_desc::TxDesc, //
    },
    wire::{
        emit::{
            HeaderBuf,
            Headers, //
        },
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

/// The rest of a message is sent as a packet if it has less payload.
const MIN_UNSPLIT_BYTES: u32 = 1024;

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
    /// Finished packets that wait for more.
    gso_list: Option<GsoList>,
    /// Whether each packet is sent in a buffer of its own.
    singly: bool,
    /// Whether the route loses buffers of several packets.
    gso_loss: GsoLoss,
    /// A buffer of several packets was sent since the last [`Path::take_gso_sent`].
    gso_sent: bool,
    /// Whether a super-packet was sent last.
    follows_super_packet: bool,
    /// Counts packets until their buffers are freed.
    tx_inflight: Option<Arc<TxInflight>>,
    /// Whether lists transmitted from now on count in `tx_inflight`.
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
            gso_list: None,
            singly: false,
            gso_loss: GsoLoss::default(),
            gso_sent: false,
            follows_super_packet: false,
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

    /// Sets whether GSO lists that are transmitted from now on count as in flight. For short packets, counting would be
    /// a large part of the cost.
    pub(crate) fn set_counted(&mut self, counted: bool) {
        self.counted = counted;
    }

    /// Has `decide` say whether each packet is sent in a buffer of its own from now on, neither in a super-packet nor
    /// in a list. It gets what is known of the route, which is forgotten when the route changes.
    #[inline]
    pub(crate) fn send_singly_if(&mut self, decide: impl FnOnce(&mut GsoLoss) -> bool) {
        self.singly = decide(&mut self.gso_loss);
    }

    /// Returns the length of the longest buffer of several packets, if one was sent since the last call.
    #[inline]
    pub(crate) fn take_gso_sent(&mut self) -> Option<u32> {
        core::mem::take(&mut self.gso_sent).then_some(self.gso_loss.longest())
    }

    /// Notes that a buffer of several packets, with `bytes` of UDP payload, is sent.
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

    /// Starts the next packet. `None`: no memory.
    pub(crate) fn tx_packet(
        &mut self,
        headers: &HeaderBuf,
        payload_len: usize,
    ) -> Option<TxPacket> {
        trace::packet_out(|| trace_fields(headers.as_slice(), payload_len));
        let udp_payload = headers
            .len()
            .checked_add(payload_len)?
            .checked_add(trailer_len(payload_len))?;
        self.ipv4_id = self.ipv4_id.wrapping_add(1);
        self.masked.set_packet(self.ipv4_id, udp_payload);
        TxPacket::new(&self.masked, headers, payload_len)
    }

    /// Finishes and sends `tx_packet`, which must be the packet that [`Path::tx_packet`] started last: both use the
    /// current IPv4 identification. The packet waits in the GSO list for further packets, until the list is full or
    /// [`Path::transmit_pending`] is called.
    pub(crate) fn send(&mut self, tx: TxContext<'_>, tx_packet: TxPacket) {
        if tx.port.impairments().any() {
            return self.send_impaired(tx, tx_packet);
        }
        self.follows_super_packet = false;
        let ports = (self.source_port, ROCE_UDP_PORT);
        let ip = self.ip_header();
        let sealed = tx_packet.finish().and_then(|skb| skb.seal(&ip, ports));
        let Some(packet) = sealed else {
            return tx.port.counters().sent(1, 0, Xmit::Lost);
        };
        if self.singly {
            self.transmit_list(tx);
            return self.send_alone(tx, packet);
        }
        self.open_list(tx.port);
        let packet = match &mut self.gso_list {
            Some(gso_list) => match gso_list.push(packet) {
                Ok(()) => return,
                Err(packet) => packet,
            },
            None => packet,
        };
        self.transmit_pending(tx);
        self.gso_list = Some(GsoList::new(packet));
    }

    /// Lets a list of one packet take more, as far as the route allows.
    #[inline]
    fn open_list(&mut self, port: &Port) {
        if self.gso_list.as_ref().is_none_or(|list| list.packets() > 1) {
            return;
        }
        let guard = rcu::read_lock();
        let limits = self.route(port, &guard).map(ListLimits::of);
        if let (Some(list), Some(limits)) = (&mut self.gso_list, limits) {
            list.open(limits);
        }
    }

    fn send_alone(&mut self, tx: TxContext<'_>, packet: IpPacket) {
        self.gso_list = Some(GsoList::new(packet));
        self.transmit_list(tx);
    }

    /// Sends a CNP to the peer, with a traffic class of its own. Packets that were sent before go first.
    pub(crate) fn send_cnp(&mut self, tx: TxContext<'_>, traffic_class: u8) {
        let Some((_, dest_qpn)) = self.qpns else {
            return;
        };
        self.transmit_pending(tx);
        // CNPs take the route of the other packets: it is looked up before the class changes.
        let _ = self.route(tx.port, &rcu::read_lock());
        let headers = Headers::new(Opcode::CNP, Pkey::DEFAULT, dest_qpn, Psn::new(0)).emit(0);
        let Some(packet) = self.tx_packet(&headers, 0) else {
            return tx.port.counters().sent(1, 0, Xmit::Lost);
        };
        let usual = (self.traffic_class, self.priority, self.counted);
        // With priority 0 the traffic class decides. No packet waits for a CNP to leave the local stack.
        (self.traffic_class, self.priority, self.counted) = (traffic_class, 0, false);
        self.send(tx, packet);
        self.transmit_pending(tx);
        (self.traffic_class, self.priority, self.counted) = usual;
    }

    /// Starts a buffer for the packets of `desc`. `None` if they must be sent as packets: there is only one, the
    /// route does not take super-packets, every ICRC is to be verified, or there is no memory.
    #[inline]
    pub(crate) fn super_packet<'a>(
        &mut self,
        port: &'a Port,
        (desc, mtu): (&TxDesc, Mtu),
    ) -> Option<SuperPacket<'a>> {
        // A list can have single packets of many messages. But the rest of a long message is sent alone anyway.
        let is_rest = self.follows_super_packet && desc.length >= MIN_UNSPLIT_BYTES;
        if desc.packets > 1 || (is_rest && desc.continues_message()) {
            return self.begin_super_packet(port, (desc, mtu));
        }
        None
    }

    /// As [`Path::super_packet`], for enough packets. Not inlined, so that the code of a packet stays small.
    #[inline(never)]
    fn begin_super_packet<'a>(
        &mut self,
        port: &'a Port,
        (desc, mtu): (&TxDesc, Mtu),
    ) -> Option<SuperPacket<'a>> {
        // CAST: `u32` to `usize`, which has 64 bits.
        if self.singly || !port.sends_super_packets() || !SuperPacket::fits(desc.length as usize) {
            return None;
        }
        let ip_and_udp = self.masked.as_bytes().len();
        let longest = desc.longest_packet(mtu).checked_add(ip_and_udp)?;
        let guard = rcu::read_lock();
        // CAST: Little more than a path MTU.
        let taken = self
            .route(port, &guard)?
            .takes_super_packets(longest as u32);
        taken.then(|| SuperPacket::new(port.page_pool()))?
    }

    /// Sends `super_packet`, which has at least the payload of `desc`. The packets that were sent before go first.
    pub(crate) fn send_super_packet(
        &mut self,
        tx: TxContext<'_>,
        (desc, mtu): (&TxDesc, Mtu),
        super_packet: SuperPacket<'_>,
    ) {
        self.transmit_pending(tx);
        // CAST: `u32` to `usize`, which has 64 bits; a super-packet has at most 64 packets, little longer than a path
        // MTU.
        let (payload_len, packets) = (desc.length as usize, desc.packets as u16);
        let headers = desc.headers.emit(payload_len);
        trace::packet_out(|| trace_fields(headers.as_slice(), payload_len));
        self.ipv4_id = self.ipv4_id.wrapping_add(1);
        let header = SuperPacketHeader {
            headers: headers.as_slice(),
            ip: &self.ip_header(),
            ports: (self.source_port, ROCE_UDP_PORT),
            packets,
            longest: desc.longest_packet(mtu) as u16,
        };
        // The packets have consecutive identifications.
        self.ipv4_id = self.ipv4_id.wrapping_add(packets).wrapping_sub(1);
        let guard = rcu::read_lock();
        let tx_inflight = self.counted_in();
        let sent = match self.route(tx.port, &guard) {
            // The route may have changed since the buffer was begun.
            Some(route) if route.takes_super_packets(0) => {
                super_packet.send((&header, payload_len), route, tx_inflight.as_ref())
            }
            _ => Xmit::Lost,
        };
        self.count(tx, (packets, desc.wire_len(mtu)), sent);
        self.follows_super_packet = true;
        self.on_gso_sent(payload_len);
    }

    /// Returns what counts the buffers that are transmitted now, if anything does.
    fn counted_in(&self) -> Option<Arc<TxInflight>> {
        self.tx_inflight.as_ref().filter(|_| self.counted).cloned()
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

    /// Returns the IP header of the packet with the current IPv4 identification.
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

    /// Passes the GSO list to the stack, if there is one, and a packet that an impairment delays. The engine calls it
    /// after each burst, because nothing else transmits a list that is not full.
    pub(crate) fn transmit_pending(&mut self, tx: TxContext<'_>) {
        self.follows_super_packet = false;
        self.transmit_list(tx);
        self.send_late(tx);
    }

    fn transmit_list(&mut self, tx: TxContext<'_>) {
        let Some(gso_list) = self.gso_list.take() else {
            return;
        };
        let (packets, bytes) = (gso_list.packets(), gso_list.payload_len());
        if packets > 1 {
            self.on_gso_sent(bytes);
        }
        let guard = rcu::read_lock();
        let tx_inflight = self.counted_in();
        let qpns = self.qpns;
        let sent = match self.route(tx.port, &guard) {
            // Counts as sent, as if the receiver had dropped the packets: the sender must not learn the difference.
            Some(route) if !is_admitted(qpns, (tx.port, route), packets, &guard) => Xmit::Sent,
            Some(route) => gso_list.send(route, tx_inflight.as_ref()),
            None => Xmit::Lost,
        };
        self.count(tx, (packets, bytes), sent);
    }

    /// Returns the cached route. Looks it up again if the network has changed. `None`: there is no route, or the netdev
    /// is being unregistered.
    fn route(&mut self, port: &Port, guard: &rcu::Guard) -> Option<&Route> {
        let netdev = port.netdev(guard)?;
        if !self.route.as_ref().is_some_and(Route::is_valid) {
            let flow = (&self.addresses, (self.source_port, ROCE_UDP_PORT));
            self.gso_loss = GsoLoss::default();
            self.route = Route::lookup(netdev, self.ifindex, flow, self.traffic_class).ok();
        }
        self.route.as_ref()
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
