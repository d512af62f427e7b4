// SPDX-License-Identifier: GPL-2.0

//! Receive engine of a UD QP: checks datagrams, places them behind a GRH, and completes receives.
//!
//! A datagram without a receive is dropped, as the service allows. Runs in process context or softirq, under
//! the lock of its [`Exclusive`](rdma::sync::exclusive::Exclusive).

use crate::{
    port::counters::Counter,
    qp::{
        actions::Actions,
        engine::{
            push_wc,
            Engine,
            EngineCore, //
        },
        run::QpRun,
        rx::flush_receives, //
    },
    queue::{
        cq::Cq,
        recv_source::RecvTooShort,
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
            packet::RxPacket,
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

/// Receive engine of a UD QP.
pub(crate) struct UdRecvEngine {
    core: EngineCore,
    receives: RecvQueue,
    qkey: Qkey,
    /// Receive taken for the datagram that waits for a page fault.
    waiting_recv: Option<RecvWr>,
}

impl UdRecvEngine {
    /// Creates the engine in RESET.
    pub(crate) fn new(receives: RecvQueue, cq: Arc<Cq>) -> Self {
        Self {
            core: EngineCore::new(cq),
            receives,
            qkey: Qkey::new(0),
            waiting_recv: None,
        }
    }

    /// Sets the Q_Key that datagrams must carry.
    pub(crate) fn set_qkey(&mut self, qkey: Qkey) {
        self.qkey = qkey;
    }

    /// Copies a datagram behind its GRH into the current receive, if it fits. Returns the number of bytes.
    fn place(
        &mut self,
        qp: &QpRun<'_>,
        source: &RxPacket<'_>,
        packet: &Packet<'_>,
    ) -> Result<u32, Obstacle<WcStatus>> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| WcStatus::LocLenErr)?;
        let sges = self.receives.current();
        let qp_memory = qp.recv_memory(self.receives.pd());
        let wait = &mut self.core.waits.rx;
        qp_memory.scatter_bytes(sges, 0, &grh(source.skb()), wait)?;
        let offset = u32::try_from(packet.payload_offset()).map_err(|_| WcStatus::LocLenErr)?;
        let payload = (source, RxPayload { offset, len });
        qp_memory.scatter(sges, GRH_LEN, payload, wait)?;
        Ok(len.saturating_add(GRH_LEN))
    }
}

impl Engine for UdRecvEngine {
    const HAS_PEER: bool = false;

    #[inline]
    fn core(&self) -> &EngineCore {
        &self.core
    }

    #[inline]
    fn core_mut(&mut self) -> &mut EngineCore {
        &mut self.core
    }

    fn handle(
        &mut self,
        qp: &QpRun<'_>,
        (packet, source): (&Packet<'_>, &RxPacket<'_>),
        actions: &mut Actions,
    ) -> Result<Taken, DropReason> {
        if !qp.accepts_packets() {
            return Err(DropReason::WrongQpState);
        }
        let src_qpn = ud::check_qkey(packet, self.qkey)?;
        if qp.number() == Qpn::GSI.get() && !is_mad(source, packet) {
            return Err(DropReason::BadMad);
        }
        let required = required_len(packet);
        // The receive may have been taken for another datagram, dropped since.
        if self.waiting_recv.is_some_and(|wr| wr.length < required) {
            return Err(DropReason::BadLength);
        }
        let taken = match self.waiting_recv.take() {
            Some(wr) => Ok(wr),
            // A peer that knows the Q_Key may send datagrams that are too long. They must not use up
            // receives, or QP 1 would fail and an SRQ would run empty.
            None => match self.receives.take_for(required) {
                Err(RecvTooShort) => return Err(DropReason::BadLength),
                Ok(taken) => taken.ok_or(DropReason::NoReceiveBuffer)?,
            },
        };
        let (wr_id, placed) = match taken {
            Ok(wr) => match self.place(qp, source, packet) {
                Ok(byte_len) => (wr.wr_id, Ok(byte_len)),
                Err(Obstacle::Refused(status)) => (wr.wr_id, Err(status)),
                Err(Obstacle::Absent) => {
                    self.waiting_recv = Some(wr);
                    return Ok(Taken::Paused);
                }
            },
            Err(bad) => (bad.wr_id, Err(bad.status)),
        };
        let wc = match placed {
            Ok(byte_len) => {
                qp.port().counters().count(Counter::RecvsCompleted);
                datagram_wc(qp, source.skb(), packet, src_qpn, wr_id, byte_len)
            }
            Err(status) => {
                actions.fail_now(qp);
                qp.completion(&Completion::failed(wr_id, WcOpcode::Recv, status))
            }
        };
        // The GRH is no payload.
        let payload = placed.map(|byte_len| byte_len.saturating_sub(GRH_LEN));
        let status = placed.err().unwrap_or(WcStatus::Success);
        self.core.count_received(status, payload.unwrap_or(0));
        let urgent = packet.solicited() || placed.is_err();
        push_wc(&self.core.cq, &wc, urgent, actions);
        Ok(Taken::Whole)
    }

    fn work(&mut self, qp: &QpRun<'_>, _: (&SkbQueue, More), actions: &mut Actions) -> More {
        if !qp.had_failed() {
            return More::No;
        }
        if let Some(RecvWr { wr_id, .. }) = self.waiting_recv.take() {
            let done = Completion::failed(wr_id, WcOpcode::Recv, WcStatus::WrFlushErr);
            self.core.count_received(done.status, 0);
            push_wc(&self.core.cq, &qp.completion(&done), true, actions);
        }
        flush_receives(qp, &self.core, &mut self.receives, actions)
    }

    fn reset(&mut self) {
        self.waiting_recv = None;
        self.receives.clear();
    }
}

/// Returns whether the datagram is a MAD of the only defined version (IBA 13.4.2). The core checks neither
/// length nor version quietly: without this check, a remote sender could get replies longer than its
/// requests, and fill the log.
fn is_mad(source: &RxPacket<'_>, packet: &Packet<'_>) -> bool {
    let mut version = [0];
    packet.payload_len() == pma::MAD_LEN
        && source.copy(packet.payload_offset(), &mut version).is_ok()
        && version == [pma::VERSION]
}

/// Returns the length that a receive must have for the datagram and its GRH, in bytes.
fn required_len(packet: &Packet<'_>) -> u32 {
    let payload = u32::try_from(packet.payload_len()).unwrap_or(u32::MAX);
    payload.saturating_add(GRH_LEN)
}

/// Returns the completion of a receive for a datagram.
fn datagram_wc(
    qp: &QpRun<'_>,
    skb: &RxSkb,
    packet: &Packet<'_>,
    src_qpn: Qpn,
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
        src_qp: src_qpn.get(),
        grh: true,
        vlan_id: RxOrigin::of(skb).vlan_id(),
        network_hdr_type: Some(match skb.addresses() {
            Addresses::V4 { .. } => network::IPV4,
            Addresses::V6 { .. } => network::IPV6,
        }),
        ..qp.completion(&done)
    }
}

/// VLAN of the interface that a datagram arrived on. Stored in the skb's control block on arrival.
#[derive(FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(crate) struct RxOrigin {
    vlan_id: u16,
    is_vlan: u16,
}

impl RxOrigin {
    /// Stores that `skb` arrived on the interface `via`.
    pub(crate) fn note(skb: &mut RxSkb, via: &NetDevBorrow) {
        let vlan_id = via.vlan_id();
        skb.set_cb(Self {
            vlan_id: vlan_id.unwrap_or(0),
            is_vlan: vlan_id.is_some().into(),
        });
    }

    /// Returns the stored value of `skb`.
    fn of(skb: &RxSkb) -> Self {
        skb.cb()
    }

    fn vlan_id(&self) -> Option<u16> {
        (self.is_vlan != 0).then_some(self.vlan_id)
    }
}

/// Returns the GRH of a datagram (IBA annex 17): the IPv6 header, or 20 zero bytes and the IPv4 header.
fn grh(skb: &RxSkb) -> [u8; GRH_LEN as usize] {
    let mut grh = [0; GRH_LEN as usize];
    let headers = skb.ip_and_udp_header();
    let ip = headers
        .get(..headers.len().saturating_sub(UDP_LEN))
        .unwrap_or_default();
    let start = grh.len().saturating_sub(ip.len());
    if let Some(target) = grh.get_mut(start..) {
        for (to, from) in target.iter_mut().zip(ip) {
            *to = *from;
        }
    }
    grh
}
