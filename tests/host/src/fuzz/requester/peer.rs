// SPDX-License-Identifier: GPL-2.0

//! The peer that answers as it should, in the end: what it is asked for, and no more; and what may be on the way there.

use super::*;

impl World {
    /// How much may be in flight at most: no round trip took longer than all of this.
    pub(super) fn widest(&self) -> FlowLimit {
        let trips = self.now.as_nanos() / 1_000_000;
        let factor = trips.clamp(1, 4) as u32;
        FlowLimit {
            bytes: FLOW.bytes * factor,
            packets: FLOW.packets * factor,
        }
    }

    /// Plays a peer that answers everything, and checks that it all completes.
    pub(super) fn finish(&mut self) {
        self.requester.resume();
        if self.posted.iter().any(|posted| posted.length > MODEST) {
            self.requester.fail();
        }
        for _ in 0..10_000 {
            self.report();
            self.check();
            if self.posted.is_empty() {
                return;
            }
            if let Some(deadline) = self.requester.poll_timeout() {
                self.now = self.now.max(deadline);
                self.requester.handle_timeout(self.now);
            }
            self.perform(false);
            self.exchange();
        }
        panic!("never done: {:?}", self.requester);
    }

    fn exchange(&mut self) {
        let limit = BurstLimit {
            bytes: u32::MAX,
            packets: 1,
        };
        let burst = self.requester.burst(self.now, limit);
        let Some(segment) = burst.sparse_ack_requests(true).next() else {
            return;
        };
        let headers = segment.headers.emit(segment.length as usize);
        let len = headers.len() + segment.length.next_multiple_of(4) as usize + 4;
        let request = Packet::parse(headers.as_slice(), len).expect("a packet");
        let (psn, reth) = (request.psn(), request.reth());
        match (request.opcode().operation(), reth) {
            (Operation::CompareSwap | Operation::FetchAdd, _) => {
                self.answer(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, 0);
            }
            (Operation::AtomicWrite | Operation::Flush, _) => {
                self.answer(Opcode::RC_READ_RESPONSE_ONLY, psn, 0);
            }
            (Operation::ReadRequest, Some(reth)) => {
                for index in 0..Mtu::Mtu256.packets(reth.len) {
                    let payload = Mtu::Mtu256.payload(index, reth.len);
                    self.answer(Opcode::RC_READ_RESPONSE_ONLY, psn.add(index), payload);
                }
            }
            _ if request.ack_request() => {
                let last = self.requester.next_psn().sub(1);
                self.answer(Opcode::RC_ACKNOWLEDGE, last, 0);
            }
            _ => {}
        }
    }

    fn answer(&mut self, opcode: Opcode, psn: Psn, payload: u32) {
        let aeth = Aeth {
            syndrome: Syndrome::ACK_UNLIMITED,
            msn: Msn::new(0),
        };
        let headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(1), psn)
            .aeth(aeth)
            .emit(payload as usize);
        let len = headers.len() + payload.next_multiple_of(4) as usize + 4;
        let packet = Packet::parse(headers.as_slice(), len).expect("a packet");
        let mut host = Host {
            posted: &self.posted,
            refuse: false,
        };
        let _ = self.requester.handle_response(self.now, &packet, &mut host);
    }
}
