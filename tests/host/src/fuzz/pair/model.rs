// SPDX-License-Identifier: GPL-2.0

//! What must become of what was asked for, told in the order of posting, without packets.
//!
//! Owns the expectation. A request that must fail is known as such when it is posted: none after it may be seen
//! by the peer. Where a requester gave up, nobody knows how far its requests came; only then both is right.

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
    },
};

/// What one host asks the other for, and the receives for it there.
#[derive(Default)]
pub(in crate::fuzz) struct Side {
    pub(super) asked: Vec<Asked>,
    /// Receives posted at the other host.
    pub(super) receives: Vec<Receive>,
    /// What the receive of a message of which the number is given shall be like.
    pub(super) spoilt: Option<(usize, Spoilt)>,
    /// Keys of the other host that are taken back, and keys of this one.
    pub(super) revoked: [Vec<Rkey>; 2],
    /// READs were posted that a request which changes memory must not overtake.
    pub(super) unfenced: bool,
    /// The requests that were done with when the QP was reset last.
    pub(super) retired_before: u64,
}

/// A request, and what it needs to be judged.
pub(super) struct Asked {
    pub(super) wr: SendWr,
    /// What it carries.
    pub(super) bytes: Vec<u8>,
    /// Where what it reads goes.
    pub(super) local: u64,
    /// Where in the shared memory of the peer it begins.
    pub(super) start: usize,
    /// How it must fail, if it must.
    pub(super) verdict: Option<WcStatus>,
}

/// A receive.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub(super) wr_id: u64,
    pub(super) va: u64,
}

/// What is wrong with a receive.
#[derive(Clone, Copy)]
pub(super) enum Spoilt {
    Short,
    Bad,
}

impl Side {
    /// Messages that use up a receive.
    fn messages(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|asked| asked.wr.op.uses_receive())
    }

    /// Returns how many messages there are.
    pub(super) fn message_count(&self) -> usize {
        self.messages().count()
    }

    /// Forgets what was posted, all of which is done with or forgotten by the QP.
    pub(in crate::fuzz) fn forget_requests(&mut self, retired: u64) {
        self.asked.clear();
        self.unfenced = false;
        self.spoilt = None;
        self.retired_before = retired;
    }

    /// Forgets the receives at the other host.
    pub(in crate::fuzz) fn forget_receives(&mut self) {
        self.receives.clear();
    }

    /// Returns how each request ended that has left the queue.
    fn outcomes(&self, end: &End) -> Vec<WcStatus> {
        let mut sent = end.sent.iter().peekable();
        let retired = (end.retired - self.retired_before) as usize;
        assert!(retired <= self.asked.len(), "each once");
        let outcomes = self.asked[..retired].iter().map(|asked| {
            let Some(done) = sent.next_if(|done| done.wr_id == asked.wr.wr_id) else {
                assert!(!asked.wr.signaled, "success is told where that was wanted");
                return WcStatus::Success;
            };
            assert_eq!(done.opcode, asked.wr.op.wc_opcode());
            if done.status == WcStatus::Success {
                assert!(
                    asked.wr.signaled,
                    "success is told only where that was wanted"
                );
                assert_eq!(done.byte_len, asked.wr.length);
            }
            done.status
        });
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(sent.next(), None, "each once, in order");
        outcomes
    }
}

impl World<'_> {
    /// Checks what host `at` was told so far: each request once, in order; successes, then a failure, then
    /// what was flushed; and each receive once, in order.
    pub(super) fn check_reports(&self, at: usize) {
        let (end, side) = (&self.ends[at], &self.sides[at]);
        let outcomes = side.outcomes(end);
        let good = outcomes
            .iter()
            .take_while(|&&status| status == WcStatus::Success)
            .count();
        for (index, status) in outcomes.iter().enumerate().skip(good) {
            match *status {
                WcStatus::Success => panic!("nothing succeeds after a failure"),
                WcStatus::WrFlushErr => {}
                status => {
                    assert_eq!(index, good, "one request fails");
                    assert_eq!(Some(status), end.requester.error());
                    self.check_failure(at, &side.asked[index], status);
                }
            }
            assert_eq!(self.states[at], QpState::Err);
        }
        let must_fail = side.asked[..good]
            .iter()
            .any(|asked| asked.verdict.is_some());
        assert!(self.torn || !must_fail, "what cannot be done succeeded");
        self.check_receives(at);
    }

    /// Checks that a request of `from` may end like this.
    fn check_failure(&self, from: usize, asked: &Asked, status: WcStatus) {
        let given_up = self.torn || self.harm > u32::from(RETRIES) || !self.listens(1 - from);
        match status {
            _ if Some(status) == asked.verdict || self.torn => {}
            WcStatus::RetryExcErr => assert!(given_up, "given up after {} faults", self.harm),
            status => panic!("{status:?} instead of {:?}: {:?}", asked.verdict, asked.wr),
        }
    }

    fn check_receives(&self, at: usize) {
        let posted = &self.sides[1 - at].receives;
        let received = &self.ends[at].received;
        assert!(received.len() <= posted.len(), "each once");
        let mut ended = false;
        for ((done, _), receive) in received.iter().zip(posted) {
            assert_eq!(done.wr_id, receive.wr_id, "in order");
            assert!(!ended || done.status == WcStatus::WrFlushErr);
            ended |= done.status != WcStatus::Success;
            assert!(!ended || self.states[at] == QpState::Err);
        }
        if self.states[at] == QpState::Err {
            assert_eq!(received.len(), posted.len(), "all are flushed");
        }
    }

    /// Checks that nothing that was posted at `at` is left there.
    pub(super) fn check_flushed(&self, at: usize) {
        let done = self.sides[at].outcomes(&self.ends[at]).len();
        assert_eq!(done, self.sides[at].asked.len(), "all are flushed");
    }

    /// Checks that a QP that was reset tells nothing any more.
    pub(in crate::fuzz) fn check_silent(&mut self, at: usize) {
        let (sent, received) = (self.ends[at].sent.len(), self.ends[at].received.len());
        let retired = self.ends[at].retired;
        assert!(!self.turn(at, self.setup.burst), "nothing is sent");
        let end = &mut self.ends[at];
        end.requester.handle_timeout(self.now);
        assert_eq!(end.requester.poll_timeout(), None);
        assert!(!end.requester.has_work() && !end.responder.has_work());
        assert_eq!(end.requester.free_slots() as usize, self.setup.slots);
        let after = (end.sent.len(), end.received.len(), end.retired);
        assert_eq!(after, (sent, received, retired), "nothing is reported");
    }

    /// Checks what became of all that `from` asked for, once nothing happens any more.
    pub(super) fn check_outcome(&self, from: usize) {
        let (end, side) = (&self.ends[from], &self.sides[from]);
        let outcomes = side.outcomes(end);
        if matches!(self.states[from], QpState::Rts | QpState::Err) {
            assert_eq!(outcomes.len(), side.asked.len(), "all are done with");
        }
        if self.torn {
            return;
        }
        let good = outcomes
            .iter()
            .take_while(|&&status| status == WcStatus::Success)
            .count();
        // As far as the peer may have got: nothing that must fail is seen there, nor what comes after it.
        let far = side.asked.iter().position(|asked| asked.verdict.is_some());
        let far = far.unwrap_or(side.asked.len());
        self.check_memory(from, good, far);
        self.check_messages(from, good, far);
        self.check_effects(from, good, far);
    }

    /// Checks every byte: of the peer's shared memory, and what was read of it.
    fn check_memory(&self, from: usize, good: usize, far: usize) {
        let (end, peer) = (&self.ends[from], &self.ends[1 - from]);
        let mut shared = pattern((1 - from) as u64, SHARED);
        for asked in &self.sides[from].asked[..good] {
            let (start, len) = (asked.start, asked.wr.length as usize);
            let found = &mut shared[start..start + if asked.touches() { len } else { 0 }];
            if asked.yields() {
                assert!(end.memory.get(asked.local, len) == found, "bytes read");
            }
            asked.change(found);
        }
        let (va, _) = self.shared[1 - from];
        let is = peer.memory.get(va, SHARED);
        let mut known = vec![true; SHARED];
        for asked in &self.sides[from].asked[good..far] {
            if asked.touches() && !asked.wr.op.is_read() {
                known[asked.start..asked.start + asked.wr.length as usize].fill(false);
            }
        }
        let wrong = (0..SHARED).find(|&at| known[at] && is[at] != shared[at]);
        assert_eq!(wrong, None, "bytes written");
    }

    /// Checks every message that was received.
    fn check_messages(&self, from: usize, good: usize, far: usize) {
        let (side, peer) = (&self.sides[from], &self.ends[1 - from]);
        let count = |asked: &[Asked]| asked.iter().filter(|a| a.wr.op.uses_receive()).count();
        let received = &peer.received;
        let whole = received
            .iter()
            .take_while(|(done, _)| done.status == WcStatus::Success)
            .count();
        let (least, most) = (count(&side.asked[..good]), count(&side.asked[..far]));
        assert!((least..=most).contains(&whole), "{least} {whole} {most}");
        let messages = side.messages().zip(&side.receives);
        for ((asked, receive), (done, solicited)) in messages.zip(&received[..whole]) {
            let len = asked.bytes.len();
            let (opcode, imm, invalidated) = asked.announced();
            assert_eq!(
                (done.opcode, done.imm, done.invalidated),
                (opcode, imm, invalidated)
            );
            assert_eq!(done.byte_len as usize, len);
            assert_eq!(*solicited, asked.wr.solicited);
            if opcode == WcOpcode::Recv {
                assert!(
                    peer.memory.get(receive.va, len) == asked.bytes,
                    "bytes received"
                );
            }
        }
    }

    /// Checks what was done beside.
    fn check_effects(&self, from: usize, good: usize, far: usize) {
        let (side, end, peer) = (&self.sides[from], &self.ends[from], &self.ends[1 - from]);
        let count = |many: usize, kind: fn(&SendOp) -> bool| {
            side.asked[..many].iter().filter(|a| kind(&a.wr.op)).count()
        };
        let between = |done: usize, kind: fn(&SendOp) -> bool| {
            let range = count(good, kind)..=count(far, kind);
            assert!(range.contains(&done), "{done} of {range:?}");
        };
        between(peer.atomics as usize, |op| {
            matches!(op, SendOp::Atomic { .. } | SendOp::AtomicWrite { .. })
        });
        between(peer.flushed.len(), |op| matches!(op, SendOp::Flush { .. }));
        let local = |asked: &Asked| match asked.wr.op {
            SendOp::Local(op) => Some(op),
            _ => None,
        };
        let wanted: Vec<LocalOp> = side.asked.iter().filter_map(local).collect();
        let performed: Vec<_> = end.performed.iter().map(|(_, op)| *op).collect();
        assert!(wanted.starts_with(&performed), "in order");
        assert!(performed.len() >= count(good, |op| matches!(op, SendOp::Local(_))));
        for (at, keys) in [peer, end].into_iter().zip(&side.revoked) {
            let taken = at.invalidated.iter().filter(|key| keys.contains(key));
            let taken: Vec<_> = taken.copied().collect();
            assert!(keys.starts_with(&taken), "each once, in order");
        }
    }
}

impl Asked {
    /// Returns whether it is about bytes of the peer's shared memory.
    fn touches(&self) -> bool {
        match self.wr.op {
            SendOp::Write { .. } | SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => true,
            op => op.is_read(),
        }
    }

    /// Returns whether bytes of the peer end up here.
    fn yields(&self) -> bool {
        self.wr.op.is_read() || matches!(self.wr.op, SendOp::Atomic { .. })
    }

    /// Does to `bytes` what the peer has to do.
    fn change(&self, bytes: &mut [u8]) {
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

    /// Returns how the peer's completion tells of it.
    fn announced(&self) -> (WcOpcode, Option<Imm>, Option<Rkey>) {
        match self.wr.op {
            SendOp::Send { imm } => (WcOpcode::Recv, imm, None),
            SendOp::SendInvalidate { rkey } => (WcOpcode::Recv, None, Some(rkey)),
            SendOp::Write { imm, .. } => (WcOpcode::RecvRdmaWithImm, imm, None),
            op => panic!("{op:?} uses no receive"),
        }
    }
}
