// SPDX-License-Identifier: GPL-2.0

//! The well-behaved peer at the end of a run, and the largest possible flow limit.

use super::*;

impl World {
    /// Returns the largest possible flow limit: the RTT is at most the elapsed time.
    pub(super) fn max_flow(&self) -> FlowLimit {
        let elapsed_ms = self.now.as_nanos() / 1_000_000;
        let factor = elapsed_ms.clamp(1, 4) as u32;
        FlowLimit {
            bytes: FLOW_LIMIT.bytes * factor,
            packets: FLOW_LIMIT.packets * factor,
        }
    }

    /// Responds to all requests, and checks that they complete.
    pub(super) fn finish(&mut self) {
        self.requester.resume();
        if self
            .posted
            .iter()
            .any(|posted| posted.length > MAX_ANSWERED_BYTES)
        {
            self.requester.fail();
        }
        for _ in 0..10_000 {
            self.report();
            self.check();
            if self.posted.is_empty() {
                return;
            }
            if let Some(deadline) = self.requester.next_wake().at() {
                self.now = self.now.max(deadline);
                self.requester.handle_timeout(self.now);
            }
            self.perform(false);
            self.exchange();
        }
        panic!("does not complete: {:?}", self.requester);
    }

    fn exchange(&mut self) {
        let limit = BurstLimit {
            bytes: u32::MAX,
            packets: 1,
        };
        let burst = self.requester.burst(self.now, limit);
        let Some(desc) = burst.sparse_ack_requests(true).next() else {
            return;
        };
        let headers = desc.headers.emit(desc.length as usize);
        let len = headers.len() + desc.length.next_multiple_of(4) as usize + 4;
        let request = Packet::parse(headers.as_slice(), len).expect("a packet");
        let (psn, reth) = (request.psn(), request.reth());
        match (request.opcode().operation(), reth) {
            (Operation::CompareSwap | Operation::FetchAdd, _) => {
                self.deliver_response(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, 0);
            }
            (Operation::AtomicWrite | Operation::Flush, _) => {
                self.deliver_response(Opcode::RC_READ_RESPONSE_ONLY, psn, 0);
            }
            (Operation::ReadRequest, Some(reth)) => {
                for index in 0..Mtu::Mtu256.packets(reth.len) {
                    let payload = Mtu::Mtu256.payload(index, reth.len);
                    self.deliver_response(Opcode::RC_READ_RESPONSE_ONLY, psn.add(index), payload);
                }
            }
            _ if request.ack_request() => {
                let last = self.requester.next_psn().sub(1);
                self.deliver_response(Opcode::RC_ACKNOWLEDGE, last, 0);
            }
            _ => {}
        }
    }

    fn deliver_response(&mut self, opcode: Opcode, psn: Psn, payload: u32) {
        // Requests complete even if the peer never reports a receive.
        let syndrome = match self.next_id % 2 {
            0 => Syndrome::ACK_UNLIMITED,
            _ => Syndrome::Ack { credits: 0 },
        };
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(0),
        };
        let headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(1), psn)
            .aeth(aeth)
            .emit(payload as usize);
        let len = headers.len() + payload.next_multiple_of(4) as usize + 4;
        let packet = Packet::parse(headers.as_slice(), len).expect("a packet");
        let mut context = TestContext {
            posted: &self.posted,
            copies_fail: false,
        };
        let _ = self
            .requester
            .handle_response(self.now, &packet, &mut context);
    }
}
