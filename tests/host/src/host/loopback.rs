// SPDX-License-Identifier: GPL-2.0

//! Loopback: the send engine passes super-packets directly to the receive engine of its peer and
//! handles the responses. The caller decides when.

use super::*;

impl Host {
    /// Returns whether a loopback pass cannot overtake packets in the network. Call it before each
    /// pass.
    #[must_use]
    pub fn can_use_loopback(&mut self, peer: &mut Self) -> bool {
        let responses = core::mem::take(&mut peer.responses_in_network);
        let in_network = self.requests_in_network || responses;
        self.requests_in_network = in_network && self.requester.in_flight();
        !self.requests_in_network
    }

    /// Passes requests to `peer` and handles its responses.
    pub fn loopback_pass(&mut self, now: Instant, limit: BurstLimit, peer: &mut Self) {
        self.prepare();
        let expected = peer.responder.expected_psn();
        if self.requester.next_psn().is_before(expected) {
            peer.responder.force_ack();
            self.receive_responses(now, limit, 1, peer);
        }
        let max_packets = match self.requester.next_psn() == expected {
            true => u32::MAX,
            false => 1,
        };
        let must_rewind = self.pass_requests(now, limit, max_packets, peer);
        if peer.responder.expected_psn() != expected {
            peer.responder.force_ack();
        }
        self.receive_responses(now, limit, max_packets, peer);
        if must_rewind {
            self.requester.rewind();
        }
        self.report();
        peer.fatal = peer.fatal.or(peer.responder.take_event());
    }

    /// Passes requests to the peer. Returns whether the peer did not handle the last one.
    fn pass_requests(
        &mut self,
        now: Instant,
        limit: BurstLimit,
        max_packets: u32,
        peer: &mut Self,
    ) -> bool {
        for desc in self.requester.burst(now, limit).coalescing(max_packets) {
            let found = request_payload(&desc, &self.memory, &self.locals, &mut self.page_faults);
            let bytes = match found {
                Ok(bytes) => bytes,
                Err(obstacle) => return self.abort_unless_absent(obstacle),
            };
            let frame = frame(&desc, &bytes);
            if peer.handle_super_packet(now, &frame, desc.packets) == Some(Taken::Paused) {
                return true;
            }
            if !peer.responder.is_in_sync() {
                return false;
            }
        }
        false
    }

    /// Handles the responses of the peer.
    fn receive_responses(
        &mut self,
        now: Instant,
        limit: BurstLimit,
        max_packets: u32,
        peer: &mut Self,
    ) {
        let mut failed_read = None;
        for desc in peer.responder.burst(limit).coalescing(max_packets) {
            let bytes = match desc.source {
                TxPayload::Remote(remote, _) => {
                    let access = Access::REMOTE_READ;
                    if let Err(error) = peer.memory.check(remote, desc.length, access) {
                        failed_read = Some((desc.packets, error));
                        break;
                    }
                    peer.memory.get(remote.va, u32_as_usize(desc.length))
                }
                _ => &[],
            };
            let frame = frame(&desc, bytes);
            if self.handle_super_packet(now, &frame, desc.packets) == Some(Taken::Paused) {
                peer.responder.unsend(desc.packets);
                return;
            }
        }
        if let Some((packets, error)) = failed_read {
            peer.responder.abort_read(packets, error);
        }
    }

    /// Handles a frame that is a super-packet of `packets` packets.
    fn handle_super_packet(&mut self, now: Instant, frame: &[u8], packets: u32) -> Option<Taken> {
        let packet = self.parse(frame)?.as_super_packet(packets);
        self.handle(now, frame, &packet)
    }
}
