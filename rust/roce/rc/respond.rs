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
    id::Msn,
    psn::Psn,
    segmentation::tx_desc::{
        BurstLimit,
        TxDesc,
        TxPayload, //
    },
    status::NakCode,
    time::{
        rnr_timeout,
        Duration, //
    },
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        ext::AtomicAckEth,
        opcode::{
            Operation,
            Position, //
        }, //
    }, //
};

/// RNR timer code of the first RNR NAK for a page fault in progress: 0.64 ms. Most faults that need not wait for a disk
/// take less.
const FIRST_FAULT_RNR_CODE: u8 = 12;

/// RNR timer code of the last RNR NAKs for a long page fault: 40.96 ms.
const LAST_FAULT_RNR_CODE: u8 = 24;

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

    /// Undoes the last `packets` packets of the response planned last, which were not sent. They are planned next.
    pub fn unsend(&mut self, packets: u32) {
        self.replay.unsend(self.response_end.sub(packets));
    }

    /// As [`unsend`](Self::unsend): the memory of the packets is not present. They wait until
    /// [`memory_present`](Self::memory_present). Requests are still executed, and requests before the READ are
    /// acknowledged.
    pub fn await_memory(&mut self, packets: u32) {
        let psn = self.response_end.sub(packets);
        self.unsend(packets);
        self.memory_wait.stop_at(psn);
        // The first packet of the READ, or a response right before it, acknowledges what is before it.
        self.owes_early_ack = self.replay.find(psn).is_some_and(|entry| {
            let is_first_request = entry.msn.prev() == Msn::new(0);
            let follows_response = self.replay.find(psn.sub(1)).is_some();
            entry.is_new() && entry.first == psn && !is_first_request && !follows_response
        });
    }

    /// Returns whether the next response waits for memory.
    #[inline]
    #[must_use]
    pub fn waits_for_memory(&self) -> bool {
        let pending = self.replay.pending();
        pending.is_some_and(|entry| self.memory_wait.holds(entry.next_psn()))
    }

    /// No response waits for memory any more.
    #[inline]
    pub fn memory_present(&mut self) {
        self.memory_wait.end();
        self.owes_early_ack = false;
    }

    /// Returns an RNR NAK for the next packet without a response, to delay the peer during a page
    /// fault, and the delay. The responder still executes the requests that it keeps when the fault is resolved.
    /// `before`: how many RNR NAKs this fault has caused before. Each delay is twice the last one, up to a limit.
    pub fn fault_rnr_nak(&mut self, before: u8) -> (TxDesc, Duration) {
        let at = match self.replay.pending() {
            Some(entry) => self.nak_point(entry.next_psn()),
            None => self.expected_point(),
        };
        self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
        // Two codes further the delay is twice as long.
        let timer = FIRST_FAULT_RNR_CODE
            .saturating_add(before.saturating_mul(2))
            .min(LAST_FAULT_RNR_CODE);
        let nak = self.ack_desc(at, Syndrome::Rnr { timer });
        (nak, rnr_timeout(timer))
    }

    /// NAKs the pending READ if the QP no longer grants remote reads.
    fn nak_if_read_revoked(&mut self) {
        if self.config.access.contains(Access::REMOTE_READ) {
            return;
        }
        let pending = self.replay.pending();
        if let Some(entry) = pending.filter(|entry| entry.request == Request::Read) {
            let at = self.nak_point(entry.next_psn());
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
        let count = self.memory_wait.room(entry.next_psn(), count);
        let end = index.saturating_add(count);
        let length = mtu.payload_between(index, end, entry.length);
        if !limit.take(count, length, first) {
            return None;
        }
        let position = Position::of(index == entry.start, end >= entry.end);
        let (operation, original) = match entry.request {
            Request::Atomic(_, original) => (Operation::AtomicAcknowledge, original),
            Request::Read | Request::AtomicWrite | Request::Flush => (Operation::ReadResponse, 0),
        };
        let psn = entry.next_psn();
        // Headers that the opcode does not have are not emitted: no AETH in a MIDDLE packet, no
        // original value in a read response.
        let headers = self
            .config
            .connection
            .headers(operation, position, false, psn)?
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
                _ => TxPayload::Remote(
                    entry.remote.advance(mtu.offset(index, entry.length)),
                    entry.srqn,
                ),
            },
            offset: 0,
            length,
            packets: count,
        })
    }

    /// Returns the ACK of the requests before a READ that waits for memory, once.
    fn early_ack(&mut self, limit: &mut BurstLimit, first: bool) -> Option<TxDesc> {
        let pending = self.replay.pending().filter(|_| self.owes_early_ack)?;
        let at = AckPoint {
            psn: pending.first.sub(1),
            msn: pending.msn.prev(),
        };
        if !limit.take(1, 0, first) {
            return None;
        }
        self.owes_early_ack = false;
        Some(self.ack_desc(at, Syndrome::ACK_UNLIMITED))
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
        if matches!(self.pending_ack, PendingAck::SequenceNak { .. }) {
            self.stats.sequence_naks = self.stats.sequence_naks.wrapping_add(1);
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
            headers: self.config.connection.ack(psn, aeth),
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
            Some(entry) if self.responder.memory_wait.holds(entry.next_psn()) => {
                self.responder.early_ack(&mut self.limit, first)
            }
            Some(_) => self
                .responder
                .next_response(&mut self.limit, self.max_packets, first),
            None => self.responder.next_ack(&mut self.limit, first),
        }
    }
}
