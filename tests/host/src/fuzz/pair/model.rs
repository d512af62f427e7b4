// SPDX-License-Identifier: GPL-2.0

//! The expected results of requests, computed in posting order, without packets.
//!
//! A request that must fail is marked when it is posted: the peer must not see later ones. If a
//! requester gave up, the progress of its requests is unknown, and either result is accepted.

use super::*;
use roce::{
    status::WcStatus,
    wr::{
        AtomicOp,
        Imm,
        LocalOp,
        SendOp,
        SendWr,
        WcOpcode, //
    }, //
};

/// Requests of one host, and the receives for them at its peer.
#[derive(Default)]
pub(in crate::fuzz) struct Side {
    pub(super) requests: Vec<Request>,
    /// Receives posted at the peer.
    pub(super) receives: Vec<Receive>,
    /// Number of the message whose receive must be invalid, and how.
    pub(super) bad_receive: Option<(usize, BadReceive)>,
    /// Invalidated keys of the peer, and of this host.
    pub(super) revoked: [Vec<Rkey>; 2],
    /// Unfenced READs are posted; a request that modifies memory must not overtake them.
    pub(super) unfenced: bool,
    /// Number of requests retired before the last reset.
    pub(super) retired_before: u64,
}

/// A request and its expected results.
pub(super) struct Request {
    pub(super) wr: SendWr,
    /// Payload.
    pub(super) bytes: Vec<u8>,
    /// Address of the local buffer.
    pub(super) local: u64,
    /// Offset in the shared memory of the peer.
    pub(super) start: usize,
    /// Status with which it must fail; `None` if it must succeed.
    pub(super) expected_error: Option<WcStatus>,
}

/// A receive.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub(super) wr_id: u64,
    pub(super) va: u64,
}

/// How a receive is invalid.
#[derive(Clone, Copy)]
pub(super) enum BadReceive {
    Short,
    Bad,
}

impl Side {
    /// Returns the messages that consume a receive.
    fn messages(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(|request| request.wr.op.uses_receive())
    }

    /// Returns the number of messages.
    pub(super) fn message_count(&self) -> usize {
        self.messages().count()
    }

    /// Discards the requests, which are complete or were discarded by the QP.
    pub(in crate::fuzz) fn clear_requests(&mut self, retired: u64) {
        self.requests.clear();
        self.unfenced = false;
        self.bad_receive = None;
        self.retired_before = retired;
    }

    /// Discards the receives at the peer.
    pub(in crate::fuzz) fn clear_receives(&mut self) {
        self.receives.clear();
    }

    /// Returns the status of each request that has left the queue.
    fn outcomes(&self, host: &Host) -> Vec<WcStatus> {
        let mut sent = host.sent.iter().peekable();
        let retired = (host.retired - self.retired_before) as usize;
        assert!(retired <= self.requests.len(), "each once");
        let outcomes = self.requests[..retired].iter().map(|request| {
            let Some(done) = sent.next_if(|done| done.wr_id == request.wr.wr_id) else {
                assert!(
                    !request.wr.signaled,
                    "success of a signaled request is reported"
                );
                return WcStatus::Success;
            };
            assert_eq!(done.opcode, request.wr.op.wc_opcode());
            if done.status == WcStatus::Success {
                assert!(
                    request.wr.signaled,
                    "success of an unsignaled request is not reported"
                );
                assert_eq!(done.byte_len, request.wr.length);
            }
            done.status
        });
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(sent.next(), None, "each once, in order");
        outcomes
    }
}

impl World<'_> {
    /// Checks the completions at host `at` so far: each request once and in order, successes, then
    /// one failure, then flushed requests; each receive once and in order.
    pub(super) fn check_reports(&self, at: usize) {
        let (host, side) = (&self.hosts[at], &self.sides[at]);
        let outcomes = side.outcomes(host);
        let succeeded = outcomes
            .iter()
            .take_while(|&&status| status == WcStatus::Success)
            .count();
        for (index, status) in outcomes.iter().enumerate().skip(succeeded) {
            match *status {
                WcStatus::Success => panic!("nothing succeeds after a failure"),
                WcStatus::WrFlushErr => {}
                status => {
                    assert_eq!(index, succeeded, "one request fails");
                    assert_eq!(Some(status), host.requester.error());
                    self.check_failure(at, &side.requests[index], status);
                }
            }
            assert_eq!(self.states[at], QpState::Err);
        }
        let must_fail = side.requests[..succeeded]
            .iter()
            .any(|request| request.expected_error.is_some());
        assert!(
            self.reset_in_use || !must_fail,
            "an invalid request succeeded"
        );
        self.check_receives(at);
    }

    /// Checks that the request may fail with `status`.
    fn check_failure(&self, from: usize, request: &Request, status: WcStatus) {
        let given_up = self.reset_in_use
            || self.faults_seen > u32::from(RETRY_CNT)
            || !self.executes_requests(1 - from);
        match status {
            _ if Some(status) == request.expected_error || self.reset_in_use => {}
            WcStatus::RetryExcErr => {
                assert!(given_up, "given up after {} faults", self.faults_seen)
            }
            status => panic!(
                "{status:?} instead of {:?}: {:?}",
                request.expected_error, request.wr
            ),
        }
    }

    fn check_receives(&self, at: usize) {
        let posted = &self.sides[1 - at].receives;
        let received = &self.hosts[at].received;
        assert!(received.len() <= posted.len(), "each once");
        let mut failed = false;
        for ((done, _), receive) in received.iter().zip(posted) {
            assert_eq!(done.wr_id, receive.wr_id, "in order");
            assert!(!failed || done.status == WcStatus::WrFlushErr);
            failed |= done.status != WcStatus::Success;
            assert!(!failed || self.states[at] == QpState::Err);
        }
        if self.states[at] == QpState::Err {
            assert_eq!(received.len(), posted.len(), "all are flushed");
        }
    }

    /// Checks that all requests posted at `at` are flushed.
    pub(super) fn check_flushed(&self, at: usize) {
        let done = self.sides[at].outcomes(&self.hosts[at]).len();
        assert_eq!(done, self.sides[at].requests.len(), "all are flushed");
    }

    /// Checks that a QP in RESET sends and reports nothing.
    pub(in crate::fuzz) fn check_reset(&mut self, at: usize) {
        let (sent, received) = (self.hosts[at].sent.len(), self.hosts[at].received.len());
        let retired = self.hosts[at].retired;
        assert!(!self.run_engines(at, self.setup.burst), "nothing is sent");
        let host = &mut self.hosts[at];
        host.requester.handle_timeout(self.now);
        assert_eq!(host.requester.next_wake().at(), None);
        assert!(!host.requester.has_work() && !host.responder.has_work());
        assert_eq!(host.requester.free_slots() as usize, self.setup.slots);
        let after = (host.sent.len(), host.received.len(), host.retired);
        assert_eq!(after, (sent, received, retired), "nothing is reported");
    }

    /// Checks the results of the requests of `from`, after the last event.
    pub(super) fn check_outcome(&self, from: usize) {
        let (host, side) = (&self.hosts[from], &self.sides[from]);
        let outcomes = side.outcomes(host);
        if matches!(self.states[from], QpState::Rts | QpState::Err) {
            assert_eq!(outcomes.len(), side.requests.len(), "all are complete");
        }
        if self.reset_in_use {
            return;
        }
        let succeeded = outcomes
            .iter()
            .take_while(|&&status| status == WcStatus::Success)
            .count();
        // The peer may have executed requests up to the first one that must fail.
        let max_executed = side
            .requests
            .iter()
            .position(|request| request.expected_error.is_some());
        let max_executed = max_executed.unwrap_or(side.requests.len());
        self.check_memory(from, succeeded, max_executed);
        self.check_messages(from, succeeded, max_executed);
        self.check_effects(from, succeeded, max_executed);
    }

    /// Checks the shared memory of the peer, and the data read from it.
    fn check_memory(&self, from: usize, succeeded: usize, max_executed: usize) {
        let (host, peer) = (&self.hosts[from], &self.hosts[1 - from]);
        let mut shared = pattern((1 - from) as u64, SHARED_BYTES);
        for request in &self.sides[from].requests[..succeeded] {
            let (start, len) = (request.start, request.wr.length as usize);
            let found = &mut shared[start..start + if request.accesses_shared() { len } else { 0 }];
            if request.returns_data() {
                assert!(host.memory.get(request.local, len) == found, "bytes read");
            }
            request.apply(found);
        }
        let (va, _) = self.shared[1 - from];
        let actual = peer.memory.get(va, SHARED_BYTES);
        let mut known = vec![true; SHARED_BYTES];
        for request in &self.sides[from].requests[succeeded..max_executed] {
            if request.accesses_shared() && !request.wr.op.is_read() {
                known[request.start..request.start + request.wr.length as usize].fill(false);
            }
        }
        let wrong = (0..SHARED_BYTES).find(|&at| known[at] && actual[at] != shared[at]);
        assert_eq!(wrong, None, "bytes written");
    }

    /// Checks the received messages.
    fn check_messages(&self, from: usize, succeeded: usize, max_executed: usize) {
        let (side, peer) = (&self.sides[from], &self.hosts[1 - from]);
        let count =
            |requests: &[Request]| requests.iter().filter(|a| a.wr.op.uses_receive()).count();
        let received = &peer.received;
        let complete = received
            .iter()
            .take_while(|(done, _)| done.status == WcStatus::Success)
            .count();
        let (min, max) = (
            count(&side.requests[..succeeded]),
            count(&side.requests[..max_executed]),
        );
        assert!((min..=max).contains(&complete), "{min} {complete} {max}");
        let messages = side.messages().zip(&side.receives);
        for ((request, receive), (done, solicited)) in messages.zip(&received[..complete]) {
            let len = request.bytes.len();
            let (opcode, imm, invalidated) = request.recv_completion();
            assert_eq!(
                (done.opcode, done.imm, done.invalidated),
                (opcode, imm, invalidated)
            );
            assert_eq!(done.byte_len as usize, len);
            assert_eq!(*solicited, request.wr.solicited);
            if opcode == WcOpcode::Recv {
                assert!(
                    peer.memory.get(receive.va, len) == request.bytes,
                    "bytes received"
                );
            }
        }
    }

    /// Checks atomics, flushes, local operations and invalidated keys.
    fn check_effects(&self, from: usize, succeeded: usize, max_executed: usize) {
        let (side, host, peer) = (&self.sides[from], &self.hosts[from], &self.hosts[1 - from]);
        let count = |end: usize, kind: fn(&SendOp) -> bool| {
            side.requests[..end]
                .iter()
                .filter(|a| kind(&a.wr.op))
                .count()
        };
        let between = |done: usize, kind: fn(&SendOp) -> bool| {
            let range = count(succeeded, kind)..=count(max_executed, kind);
            assert!(range.contains(&done), "{done} of {range:?}");
        };
        between(peer.atomics as usize, |op| {
            matches!(op, SendOp::Atomic { .. } | SendOp::AtomicWrite { .. })
        });
        between(peer.flushed.len(), |op| matches!(op, SendOp::Flush { .. }));
        let local = |request: &Request| match request.wr.op {
            SendOp::Local(op) => Some(op),
            _ => None,
        };
        let expected: Vec<LocalOp> = side.requests.iter().filter_map(local).collect();
        let performed: Vec<_> = host.performed.iter().map(|(_, op)| *op).collect();
        assert!(expected.starts_with(&performed), "in order");
        assert!(performed.len() >= count(succeeded, |op| matches!(op, SendOp::Local(_))));
        for (at, keys) in [peer, host].into_iter().zip(&side.revoked) {
            let taken = at.invalidated.iter().filter(|key| keys.contains(key));
            let taken: Vec<_> = taken.copied().collect();
            assert!(keys.starts_with(&taken), "each once, in order");
        }
    }
}

impl Request {
    /// Returns whether it accesses shared memory of the peer.
    fn accesses_shared(&self) -> bool {
        match self.wr.op {
            SendOp::Write { .. } | SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => true,
            op => op.is_read(),
        }
    }

    /// Returns whether it stores data of the peer in local memory.
    fn returns_data(&self) -> bool {
        self.wr.op.is_read() || matches!(self.wr.op, SendOp::Atomic { .. })
    }

    /// Applies the request to `bytes`, as the peer must.
    fn apply(&self, bytes: &mut [u8]) {
        match self.wr.op {
            SendOp::Write { .. } => bytes.copy_from_slice(&self.bytes),
            SendOp::AtomicWrite { value, .. } => bytes.copy_from_slice(&value.to_ne_bytes()),
            SendOp::Atomic { op, .. } => {
                let old = u64::from_ne_bytes((&*bytes).try_into().expect("eight bytes"));
                let new = match op {
                    AtomicOp::FetchAdd { add } => old.wrapping_add(add),
                    AtomicOp::CompareSwap { compare, swap } if compare == old => swap,
                    AtomicOp::CompareSwap { .. } => old,
                };
                bytes.copy_from_slice(&new.to_ne_bytes());
            }
            _ => {}
        }
    }

    /// Returns opcode, immediate data and invalidated key of the peer's completion.
    fn recv_completion(&self) -> (WcOpcode, Option<Imm>, Option<Rkey>) {
        match self.wr.op {
            SendOp::Send { imm } => (WcOpcode::Recv, imm, None),
            SendOp::SendInvalidate { rkey } => (WcOpcode::Recv, None, Some(rkey)),
            SendOp::Write { imm, .. } => (WcOpcode::RecvRdmaWithImm, imm, None),
            op => panic!("{op:?} consumes no receive"),
        }
    }
}
