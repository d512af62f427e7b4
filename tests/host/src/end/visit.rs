// SPDX-License-Identifier: GPL-2.0

//! Two hosts on one machine: packets are handed over, in runs, and answered on the spot.
//!
//! Owns what a driver does in one visit of a sending half at the receiving half of its peer. Whether a visit
//! is possible the caller decides.

use super::*;

impl End {
    /// Whether packets on the wire could be overtaken by a visit at `peer`. To be asked before each.
    #[must_use]
    pub fn may_visit(&mut self, peer: &mut Self) -> bool {
        let answered = core::mem::take(&mut peer.answered);
        let wired = self.by_wire || answered;
        self.by_wire = wired && self.requester.in_flight();
        !self.by_wire
    }

    /// Hands over what there is to send, and takes what `peer` has to say to it.
    pub fn visit(&mut self, now: Instant, limit: BurstLimit, peer: &mut Self) {
        self.prepare();
        let expected = peer.responder.expected_psn();
        if self.requester.next_psn().is_before(expected) {
            peer.responder.force_ack();
            self.hear(now, limit, 1, peer);
        }
        let run = match self.requester.next_psn() == expected {
            true => u32::MAX,
            false => 1,
        };
        let unseen = self.hand_over(now, limit, run, peer);
        if peer.responder.expected_psn() != expected {
            peer.responder.force_ack();
        }
        self.hear(now, limit, run, peer);
        if unseen {
            self.requester.rewind();
        }
        self.report();
        peer.fatal = peer.fatal.or(peer.responder.take_event());
    }

    /// Hands over requests. Returns whether the last was not seen by the peer.
    fn hand_over(&mut self, now: Instant, limit: BurstLimit, run: u32, peer: &mut Self) -> bool {
        for segment in self.requester.burst(now, limit).coalescing(run) {
            let found = request_payload(&segment, &self.memory, &self.locals, &mut self.absences);
            let bytes = match found {
                Ok(bytes) => bytes,
                Err(obstacle) => return self.stopped_by(obstacle),
            };
            let frame = frame(&segment, &bytes);
            if peer.take_as(now, &frame, segment.packets) == Some(Taken::Paused) {
                return true;
            }
            if !peer.responder.is_in_sync() {
                return false;
            }
        }
        false
    }

    /// Takes what the peer has to say.
    fn hear(&mut self, now: Instant, limit: BurstLimit, run: u32, peer: &mut Self) {
        let mut refused = None;
        for segment in peer.responder.burst(limit).coalescing(run) {
            let bytes = match segment.source {
                TxPayload::Remote(remote) => {
                    let access = Access::REMOTE_READ;
                    if let Err(error) = peer.memory.check(remote, segment.length, access) {
                        refused = Some((segment.packets, error));
                        break;
                    }
                    peer.memory.get(remote.va, u32_as_usize(segment.length))
                }
                _ => &[],
            };
            let frame = frame(&segment, bytes);
            if self.take_as(now, &frame, segment.packets) == Some(Taken::Paused) {
                peer.responder.unsend(segment.packets);
                return;
            }
        }
        if let Some((packets, error)) = refused {
            peer.responder.abort_read(packets, error);
        }
    }

    /// Takes a frame that stands for so many packets.
    fn take_as(&mut self, now: Instant, frame: &[u8], packets: u32) -> Option<Taken> {
        let packet = self.parse(frame)?.as_super_packet(packets);
        self.take(now, frame, &packet)
    }
}
