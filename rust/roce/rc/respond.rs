// SPDX-License-Identifier: GPL-2.0

//! Answers to packets: what the responder sends next, if anything.
//!
//! Owns the order of answers: responses to READs and their like by PSN, then one acknowledgement or refusal for
//! everything, or that a request is missing and then an acknowledgement. It cannot overtake a read response, as it
//! would say that one is lost.

use super::{
    pending_ack::PendingReply,
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::{
        Fatal,
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

/// A pause of 491.52 ms, as an RNR NAK says it (IBA table 45).
const LONG_PAUSE: u8 = 31;

/// Answers to be sent, planned as they are taken. Each counts as sent once it is yielded.
///
/// Made by [`Responder::burst`].
#[derive(Debug)]
pub struct ResponseBurst<'a, A> {
    responder: &'a mut Responder<A>,
    limit: BurstLimit,
    first: bool,
    /// Most packets of one segment.
    run: u32,
}

impl<A> ResponseBurst<'_, A> {
    /// Makes each segment a run of up to `run` packets.
    #[must_use]
    pub fn coalescing(self, run: u32) -> Self {
        Self { run, ..self }
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Plans the answers that can be sent: read responses, in the order of their PSNs; then, if
    /// all of them fit, an acknowledgement or a refusal, or that a request is missing and the former, if due.
    pub fn burst(&mut self, limit: BurstLimit) -> ResponseBurst<'_, A> {
        ResponseBurst {
            responder: self,
            limit,
            first: true,
            run: 1,
        }
    }

    /// Asks the peer for patience, with an RNR NAK for the next packet that is not answered, while
    /// memory is being brought. When it is there, what has arrived is taken and answered
    /// nevertheless.
    pub fn stall(&mut self) -> TxDesc {
        let psn = match self.replay.pending() {
            Some(answer) => answer.first.add(answer.next),
            None => self.expected,
        };
        self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
        self.ack_desc(psn, Syndrome::Rnr { timer: LONG_PAUSE })
    }

    /// Refuses a READ that is not answered to the end if the right to it has gone.
    fn withhold(&mut self) {
        if self.config.access.contains(Access::REMOTE_READ) {
            return;
        }
        let pending = self.replay.pending();
        if let Some(answer) = pending.filter(|answer| answer.request == Request::Read) {
            let psn = answer.first.add(answer.next);
            self.replay.clear();
            self.refuse(psn, NakCode::InvalidRequest, Fatal::RequestError);
        }
    }

    fn response(&mut self, limit: &mut BurstLimit, run: u32, first: bool) -> Option<TxDesc> {
        let answer = *self.replay.pending()?;
        let (mtu, index) = (self.config.path_mtu, answer.next);
        let left = answer.end.saturating_sub(index);
        let count = run.min(left).min(limit.full_packets(mtu)).max(1);
        let end = index.saturating_add(count);
        let length = mtu.span(index, end, answer.length);
        if !limit.take(count, length, first) {
            return None;
        }
        let position = match (index == answer.start, end >= answer.end) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        };
        let (operation, original) = match answer.request {
            Request::Atomic(_, found) => (Operation::AtomicAcknowledge, found),
            Request::Read | Request::AtomicWrite | Request::Flush => (Operation::ReadResponse, 0),
        };
        let opcode = Opcode::of(Service::Rc, operation, position, false)?;
        let psn = answer.first.add(index);
        // A MIDDLE has no AETH, and a read response no original value: they leave it out.
        let headers = Headers::new(opcode, self.config.pkey, self.config.dest_qpn, psn)
            .aeth(Aeth {
                syndrome: Syndrome::ACK_UNLIMITED,
                msn: answer.msn,
            })
            .original(AtomicAckEth { original });
        self.replay.sent(count);
        self.read_end = psn.add(count);
        let last = self.read_end.sub(1);
        if self.reply.owed().is_some_and(|owed| !last.is_before(owed)) {
            self.reply = self.reply.acknowledged();
        }
        Some(TxDesc {
            headers,
            source: match length {
                0 => TxPayload::None,
                _ => TxPayload::Remote(answer.remote.advance(mtu.offset(index, answer.length))),
            },
            offset: 0,
            length,
            packets: count,
        })
    }

    fn acknowledgement(&mut self, limit: &mut BurstLimit, first: bool) -> Option<TxDesc> {
        let stats = &mut self.stats;
        let (psn, syndrome, count) = match self.reply {
            PendingReply::None => return None,
            PendingReply::Ack { owed } => (
                self.replay.acknowledged(owed, self.expected),
                Syndrome::ACK_UNLIMITED,
                Some(&mut stats.acks),
            ),
            PendingReply::Sequence { .. } => (
                self.expected,
                Syndrome::Nak(NakCode::PsnSequence),
                Some(&mut stats.sequence_naks),
            ),
            PendingReply::NotReady => (
                self.expected,
                Syndrome::Rnr {
                    timer: self.config.min_rnr_timer,
                },
                None,
            ),
            PendingReply::NakReason { psn, code } => (psn, Syndrome::Nak(code), None),
        };
        if !limit.take(1, 0, first) {
            return None;
        }
        if let Some(count) = count {
            *count = count.wrapping_add(1);
        }
        self.reply = self.reply.rest();
        Some(self.ack_desc(psn, syndrome))
    }

    fn ack_desc(&self, psn: Psn, syndrome: Syndrome) -> TxDesc {
        let aeth = Aeth {
            syndrome,
            msn: self.msn,
        };
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
        self.responder.withhold();
        match self.responder.replay.pending() {
            Some(_) => self.responder.response(&mut self.limit, self.run, first),
            None => self.responder.acknowledgement(&mut self.limit, first),
        }
    }
}
