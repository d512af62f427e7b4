// SPDX-License-Identifier: GPL-2.0

//! The reorder buffers of a host: frames that arrived early, as the driver keeps them.

use super::Host;
use roce::{
    rc::reorder::{
        Admission,
        EarlySize,
        GapWait,
        ReorderBuffer, //
    },
    status::DropReason,
    time::{
        Duration,
        Instant, //
    },
    wire::packet::Packet, //
};

/// The buffers of both engines.
pub(super) struct EarlyFrames {
    requests: ReorderBuffer<Vec<u8>>,
    responses: ReorderBuffer<Vec<u8>>,
    /// When the first gap counts as a loss.
    pub(super) until: Option<Instant>,
    /// Frames kept so far.
    pub(super) kept: u64,
}

impl EarlyFrames {
    pub(super) const fn new(wait: Duration) -> Self {
        Self {
            requests: ReorderBuffer::new(wait),
            responses: ReorderBuffer::new(wait),
            until: None,
            kept: 0,
        }
    }
}

impl Host {
    /// Keeps or drops `frame` if it is early. Returns whether it did.
    pub(super) fn keep_early(&mut self, packet: &Packet<'_>, frame: &[u8]) -> bool {
        let Some(early) = &mut self.early else {
            return false;
        };
        let (is_early, buffer) = match packet.opcode().is_response() {
            true => (self.requester.is_early(packet), &mut early.responses),
            false => (self.responder.is_early(packet), &mut early.requests),
        };
        if !is_early {
            return false;
        }
        let size = EarlySize {
            packets: 1,
            bytes: u32::try_from(frame.len()).expect("a frame is short"),
        };
        match buffer.admission(packet.psn(), size) {
            Admission::Keep => {
                buffer.keep(packet.psn(), size, frame.to_vec());
                early.kept += 1;
                true
            }
            Admission::Repeated => {
                self.dropped.push(DropReason::AheadOfSequence);
                true
            }
            Admission::Full => false,
        }
    }

    /// Returns a kept frame that is no longer early.
    pub(super) fn take_kept(&mut self) -> Option<Vec<u8>> {
        let early = self.early.as_mut()?;
        if self.responder.awaits_repetition() {
            early.requests.clear();
        }
        let expected = self.responder.expected_psn();
        let requester = &self.requester;
        early
            .requests
            .take(|psn| psn.is_after(expected))
            .or_else(|| {
                early
                    .responses
                    .take(|psn| requester.awaits_response_before(psn))
            })
    }

    /// Drops the early frames of a connection that has ended.
    pub(super) fn forget_early_requests(&mut self) {
        if let Some(early) = &mut self.early {
            early.requests.clear();
        }
    }

    /// As [`Self::forget_early_requests`], for responses.
    pub(super) fn forget_early_responses(&mut self) {
        if let Some(early) = &mut self.early {
            early.responses.clear();
        }
    }

    /// Reports gaps that have lasted too long.
    pub(super) fn check_gaps(&mut self, now: Instant) {
        let Some(early) = &mut self.early else {
            return;
        };
        let request = early.requests.gap_wait(self.responder.expected_psn(), now);
        let response = early.responses.gap_wait(self.requester.oldest_psn(), now);
        if request == GapWait::Over {
            self.responder.report_gap();
        }
        if response == GapWait::Over {
            self.requester.report_gap();
        }
        let until = [request, response]
            .into_iter()
            .filter_map(|wait| match wait {
                GapWait::Until(at) => Some(at),
                GapWait::Done | GapWait::Over => None,
            });
        early.until = until.min();
    }
}
