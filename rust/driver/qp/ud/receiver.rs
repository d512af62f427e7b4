// SPDX-License-Identifier: GPL-2.0

//! The half of a datagram queue pair that receives.
//!
//! Owns what lets datagrams in. A datagram that nobody waits for is dropped: that is what
//! "unreliable" means.

use crate::{
    mem::page_fault::{
        AccessFailure,
        FaultWait, //
    },
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            flush_receives,
            refuse_packets,
            report_as,
            take_packets,
            Engine, //
        },
        shared::QpShared, //
    },
    queue::{
        cq::Cq,
        recv_source::TooShort,
        rq::RecvQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::wc::Wc,
    net::{
        netdev::NetDevBorrow,
        route::Addresses,
        rx::{
            coalesced::CoalescedPackets,
            queue::SkbQueue,
            skb::RxSkb, //
        }, //
    },
    sync::exclusive::More, //
};
use roce::{
    access::{
        Obstacle,
        Taken, //
    },
    id::{
        Qkey,
        Qpn, //
    },
    pma,
    segmentation::tx_desc::RxPayload,
    status::{
        DropReason,
        WcStatus, //
    },
    ud::{
        self,
        GRH_LEN, //
    },
    wire::{
        ip::UDP_LEN,
        packet::Packet, //
    },
    wr::{
        Completion,
        Imm,
        RecvWr,
        WcOpcode, //
    }, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// `enum rdma_network_type`.
mod network {
    pub(super) const IPV4: u8 = 2;
    pub(super) const IPV6: u8 = 3;
}

/// The half that receives.
pub(crate) struct UdRecvEngine {
    receives: RecvQueue,
    cq: Arc<Cq>,
    qkey: Qkey,
    /// The receive that was taken for the datagram that waits for memory.
    held: Option<RecvWr>,
    fault_wait: FaultWait,
}

impl UdRecvEngine {
    /// The half in RESET.
    pub(crate) fn new(receives: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            receives,
            cq,
            qkey: Qkey::new(0),
            held: None,
            fault_wait: FaultWait::default(),
        }
    }

    /// Sets the Q_Key that lets datagrams in.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// Takes one datagram.
    fn receive(
        &mut self,
        qp: &QpShared,
        (bytes, packet): (&CoalescedPackets<'_>, &Packet<'_>),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        if !qp.receives() {
            return Err(DropReason::WrongQpState);
        }
        let from = ud::admit(packet, self.qkey)?;
        if qp.number() == Qpn::GSI.get() && !is_mad(bytes, packet) {
            return Err(DropReason::BadMad);
        }
        let room = room_for(packet);
        // It may have been taken for another, which has been dropped since.
        if self.held.is_some_and(|wr| wr.length < room) {
            return Err(DropReason::BadLength);
        }
        let taken = match self.held.take() {
            Some(wr) => Ok(wr),
            // Whoever knows the Q_Key may send what does not fit, and nobody else shall suffer for it: QP 1 would be
            // lost for good, and a shared queue would be empty.
            None => match self.receives.take_for(room) {
                Err(TooShort) => return Err(DropReason::BadLength),
                Ok(taken) => taken.ok_or(DropReason::NoReceiveBuffer)?,
            },
        };
        let (wr_id, placed) = match taken {
            Ok(wr) => {
                let placed = self.place(qp, bytes, packet);
                match self.fault_wait.resolve(placed, WcStatus::LocProtErr) {
                    Ok(byte_len) => (wr.wr_id, Ok(byte_len)),
                    Err(Obstacle::Refused(status)) => (wr.wr_id, Err(status)),
                    Err(Obstacle::Absent) => {
                        self.held = Some(wr);
                        return Ok(Taken::Paused);
                    }
                }
            }
            Err(bad) => (bad.wr_id, Err(bad.status)),
        };
        self.fault_wait.progress();
        let wc = match placed {
            Ok(byte_len) => {
                qp.port().counters().count(Counter::RecvQueue);
                datagram(qp, bytes.first().skb(), packet, from, wr_id, byte_len)
            }
            Err(status) => {
                actions.fail_now(qp);
                qp.completion(&Completion::failed(wr_id, WcOpcode::Recv, status))
            }
        };
        let urgent = packet.solicited() || placed.is_err();
        report_as(&self.cq, &wc, urgent, actions);
        Ok(Taken::Whole)
    }

    /// Copies a datagram, behind its IP header, into the current receive, where it fits. Returns how many
    /// bytes.
    fn place(
        &self,
        qp: &QpShared,
        bytes: &CoalescedPackets<'_>,
        packet: &Packet<'_>,
    ) -> Result<u32, AccessFailure<WcStatus>> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| WcStatus::LocLenErr)?;
        let sges = self.receives.current();
        let qp_memory = qp.qp_memory_of(self.receives.pd());
        qp_memory.scatter_bytes(sges, 0, &route_header(bytes.first().skb()))?;
        let offset = u32::try_from(packet.payload_offset()).map_err(|_| WcStatus::LocLenErr)?;
        qp_memory.scatter(sges, GRH_LEN, bytes, RxPayload { offset, len })?;
        Ok(len.saturating_add(GRH_LEN))
    }
}

impl Engine for UdRecvEngine {
    fn run(&mut self, qp: &QpShared, inbox: &SkbQueue, actions: &mut Actions) -> More {
        if qp.is_failed() {
            let refused = refuse_packets(qp, inbox);
            if let Some(RecvWr { wr_id, .. }) = self.held.take() {
                let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
                report_as(&self.cq, &qp.completion(&done), true, actions);
            }
            let flushed = flush_receives(qp, &self.cq, &mut self.receives, actions);
            return refused.or(flushed);
        }
        take_packets(qp, inbox, |run, packet| {
            self.receive(qp, (run, packet), actions)
        })
    }

    fn reset(&mut self, inbox: &SkbQueue) {
        inbox.purge();
        self.held = None;
        self.receives.clear();
    }

    fn fault_wait(&mut self) -> &mut FaultWait {
        &mut self.fault_wait
    }

    fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}

/// Whether it is a management datagram, of the only version there is (IBA 13.4.2). The core does not look how long one
/// is, and logs each one of another version: strangers decide neither over answers longer than their requests nor
/// over the log.
fn is_mad(bytes: &CoalescedPackets<'_>, packet: &Packet<'_>) -> bool {
    let mut version = [0];
    packet.payload_len() == pma::MAD_LEN
        && bytes
            .first()
            .copy(packet.payload_offset(), &mut version)
            .is_ok()
        && version == [pma::VERSION]
}

/// How long a receive must be for a datagram behind its IP header, in bytes.
fn room_for(packet: &Packet<'_>) -> u32 {
    let payload = u32::try_from(packet.payload_len()).unwrap_or(u32::MAX);
    payload.saturating_add(GRH_LEN)
}

/// The completion of a receive that got a datagram.
fn datagram(
    qp: &QpShared,
    skb: &RxSkb,
    packet: &Packet<'_>,
    from: Qpn,
    wr_id: u64,
    byte_len: u32,
) -> Wc {
    let done = Completion {
        wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        byte_len,
        imm: packet.imm().map(|imm| Imm(imm.0)),
        invalidated: None,
    };
    Wc {
        src_qp: from.get(),
        grh: true,
        vlan_id: RxOrigin::of(skb).vlan_id(),
        network_hdr_type: Some(match skb.addresses() {
            Addresses::V4 { .. } => network::IPV4,
            Addresses::V6 { .. } => network::IPV6,
        }),
        ..qp.completion(&done)
    }
}

/// By what a datagram has come in, which is known when it does; kept with it.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct RxOrigin {
    vlan_id: u16,
    is_vlan: u16,
}

impl RxOrigin {
    /// Notes that `skb` has come in by the interface `via`.
    pub(crate) fn note(skb: &mut RxSkb, via: &NetDevBorrow) {
        let vlan_id = via.vlan_id();
        skb.set_cb(Self {
            vlan_id: vlan_id.unwrap_or(0),
            is_vlan: vlan_id.is_some().into(),
        });
    }

    /// What was noted of `skb`.
    fn of(skb: &RxSkb) -> Self {
        skb.cb()
    }

    fn vlan_id(&self) -> Option<u16> {
        (self.is_vlan != 0).then_some(self.vlan_id)
    }
}

/// What stands in the place of a global route header (IBA annex 17): an IPv6 header, or 20 zeros and
/// an IPv4 header.
fn route_header(skb: &RxSkb) -> [u8; GRH_LEN as usize] {
    let mut grh = [0; GRH_LEN as usize];
    let headers = skb.ip_and_udp_header();
    let ip = headers
        .get(..headers.len().saturating_sub(UDP_LEN))
        .unwrap_or_default();
    let start = grh.len().saturating_sub(ip.len());
    if let Some(place) = grh.get_mut(start..) {
        for (to, from) in place.iter_mut().zip(ip) {
            *to = *from;
        }
    }
    grh
}
