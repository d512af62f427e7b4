// SPDX-License-Identifier: GPL-2.0

//! Planning of response packets: which packets the responder sends next.
//!
//! Responses to READs and other requests with a response are sent first, in PSN order. Then follows
//! one ACK or NAK for all requests, or a sequence error NAK and an ACK. An ACK must not overtake a
//! read response: to the peer it would show that the response was lost.

use super::{
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::{
        AckPoint,
        Fatal,
        PendingAck,
        Responder, //
    }, //
};
use crate::{
    access::Access,
    psn::Psn,
    segmentation::tx_desc::{
        BurstLimit,
        TxDesc,
        TxPayload, //
    },
    status::NakCode,
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        ext::AtomicAckEth,
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        }, //
    }, //
};

/// RNR timer code for a page fault in progress: 491.52 ms (IBA table 45).
const FAULT_RNR_TIMER_CODE: u8 = 31;

/// An iterator that plans and yields the responses to send. A packet counts as sent once it is
/// yielded.
///
/// Created by [`Responder::burst`].
#[derive(Debug)]
pub struct ResponseBurst<'a, A> {
    responder: &'a mut Responder<A>,
    limit: BurstLimit,
    first: bool,
    /// Most packets in one super-packet.
    max_packets: u32,
}

impl<A> ResponseBurst<'_, A> {
    /// Combines up to `max_packets` packets into one super-packet.
    #[must_use]
    pub fn coalescing(self, max_packets: u32) -> Self {
        Self {
            max_packets,
            ..self
        }
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Returns the responses that can be sent: read responses in PSN order, then, if all of them fit
    /// in `limit`, the pending ACK or NAK.
    pub fn burst(&mut self, limit: BurstLimit) -> ResponseBurst<'_, A> {
        ResponseBurst {
            responder: self,
            limit,
            first: true,
            max_packets: 1,
        }
    }

    /// Returns an RNR NAK for the next packet without a response, to delay the peer during a page
    /// fault. The responder still executes the requests it has received when the fault is resolved.
    pub fn fault_rnr_nak(&mut self) -> TxDesc {
        let at = match self.replay.pending() {
            Some(entry) => self.nak_point(entry.first.add(entry.next)),
            None => self.expected_point(),
        };
        self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
        self.ack_desc(
            at,
            Syndrome::Rnr {
                timer: FAULT_RNR_TIMER_CODE,
            },
        )
    }

    /// NAKs the pending READ if the QP no longer grants remote reads.
    fn nak_if_read_revoked(&mut self) {
        if self.config.access.contains(Access::REMOTE_READ) {
            return;
        }
        let pending = self.replay.pending();
        if let Some(entry) = pending.filter(|entry| entry.request == Request::Read) {
            let at = self.nak_point(entry.first.add(entry.next));
            self.replay.clear();
            self.nak_fatal(at, NakCode::InvalidRequest, Fatal::RequestError);
        }
    }

    fn next_response(
        &mut self,
        limit: &mut BurstLimit,
        max_packets: u32,
        first: bool,
    ) -> Option<TxDesc> {
        let entry = *self.replay.pending()?;
        let (mtu, index) = (self.config.path_mtu, entry.next);
        let left = entry.end.saturating_sub(index);
        let count = max_packets.min(left).min(limit.full_packets(mtu)).max(1);
        let end = index.saturating_add(count);
        let length = mtu.payload_between(index, end, entry.length);
        if !limit.take(count, length, first) {
            return None;
        }
        let position = match (index == entry.start, end >= entry.end) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        };
        let (operation, original) = match entry.request {
            Request::Atomic(_, original) => (Operation::AtomicAcknowledge, original),
            Request::Read | Request::AtomicWrite | Request::Flush => (Operation::ReadResponse, 0),
        };
        let opcode = Opcode::of(Service::Rc, operation, position, false)?;
        let psn = entry.first.add(index);
        // Headers that the opcode does not have are not emitted: no AETH in a MIDDLE packet, no
        // original value in a read response.
        let headers = Headers::new(opcode, self.config.pkey, self.config.dest_qpn, psn)
            .aeth(Aeth {
                syndrome: Syndrome::ACK_UNLIMITED,
                msn: entry.msn,
            })
            .original(AtomicAckEth { original });
        self.replay.sent(count);
        self.response_end = psn.add(count);
        let last = self.response_end.sub(1);
        if self
            .pending_ack
            .required()
            .is_some_and(|required| !last.is_before(required))
        {
            self.pending_ack = self.pending_ack.after_response();
        }
        Some(TxDesc {
            headers,
            source: match length {
                0 => TxPayload::None,
                _ => TxPayload::Remote(entry.remote.advance(mtu.offset(index, entry.length))),
            },
            offset: 0,
            length,
            packets: count,
        })
    }

    fn next_ack(&mut self, limit: &mut BurstLimit, first: bool) -> Option<TxDesc> {
        let (at, syndrome) = match self.pending_ack {
            PendingAck::None => return None,
            PendingAck::Ack { required } => (self.ack_point(required), Syndrome::ACK_UNLIMITED),
            PendingAck::SequenceNak { .. } => {
                (self.expected_point(), Syndrome::Nak(NakCode::PsnSequence))
            }
            PendingAck::RnrNak => {
                let timer = self.config.min_rnr_timer;
                (self.expected_point(), Syndrome::Rnr { timer })
            }
            PendingAck::FatalNak { at, code } => (at, Syndrome::Nak(code)),
        };
        if !limit.take(1, 0, first) {
            return None;
        }
        let stats = &mut self.stats;
        match self.pending_ack {
            PendingAck::Ack { .. } => stats.acks = stats.acks.wrapping_add(1),
            PendingAck::SequenceNak { .. } => {
                stats.sequence_naks = stats.sequence_naks.wrapping_add(1);
            }
            _ => {}
        }
        self.pending_ack = self.pending_ack.after_send();
        Some(self.ack_desc(at, syndrome))
    }

    /// Returns the point of an ACK that covers at least `required`. The MSN belongs to its PSN: some peers complete
    /// requests by the MSN.
    fn ack_point(&self, required: Psn) -> AckPoint {
        let psn = self.replay.ack_psn(required, self.expected);
        let covers_all = psn.next() == self.expected;
        AckPoint {
            psn,
            // An ACK that covers less ends before a response.
            msn: match covers_all {
                true => self.msn,
                false => self.replay.msn_before(psn.next()).unwrap_or(self.msn),
            },
        }
    }

    fn ack_desc(&self, AckPoint { psn, msn }: AckPoint, syndrome: Syndrome) -> TxDesc {
        let aeth = Aeth { syndrome, msn };
        TxDesc {
            headers: Headers::ack(self.config.pkey, self.config.dest_qpn, psn, aeth),
            source: TxPayload::None,
            offset: 0,
            length: 0,
            packets: 1,
        }
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Iterator for ResponseBurst<'_, A> {
    type Item = TxDesc;

    fn next(&mut self) -> Option<TxDesc> {
        let first = core::mem::replace(&mut self.first, false);
        self.responder.nak_if_read_revoked();
        match self.responder.replay.pending() {
            Some(_) => self
                .responder
                .next_response(&mut self.limit, self.max_packets, first),
            None => self.responder.next_ack(&mut self.limit, first),
        }
    }
}
