// SPDX-License-Identifier: GPL-2.0

//! The requests of a run, of every kind, some of them invalid, and the receives.

use super::{
    model::{
        BadReceive,
        Receive,
        Request, //
    },
    *, //
};
use crate::pair::{
    remote,
    request, //
};
use roce::{
    status::WcStatus,
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        LocalOp,
        Placement,
        Remote,
        SendOp,
        SendWr,
        MAX_MESSAGE_BYTES, //
    }, //
};

impl World<'_> {
    /// Posts a valid request.
    pub(super) fn post_valid(&mut self) {
        let choice = self.bytes.byte();
        let from = usize::from(choice & 1);
        let imm = (choice & 2 != 0).then_some(Imm([choice; 4]));
        let kind = usize::from(choice >> 2) % 16;
        let (start, len) = self.range();
        let target = self.shared_at(from, start);
        let aligned = start & !7;
        let aligned_target = self.shared_at(from, aligned);
        let (op, start, len) = match kind {
            0..=3 => (SendOp::Send { imm }, 0, len),
            4 => (self.send_invalidate(from), 0, len),
            5..=7 => (
                SendOp::Write {
                    remote: target,
                    imm,
                },
                start,
                len,
            ),
            8 | 9 => (SendOp::Read { remote: target }, start, len),
            10 => (self.read_invalidate(from, target), start, len),
            11 | 12 => (self.atomic(aligned_target), aligned, 8),
            13 => {
                let value = (u64::from(self.bytes.byte()) << 32) | 0x1234;
                (
                    SendOp::AtomicWrite {
                        remote: aligned_target,
                        value,
                    },
                    aligned,
                    8,
                )
            }
            14 => (self.flush(target, len), start, 0),
            _ => (self.local(), 0, 0),
        };
        self.post(from, op, (start, len), None);
    }

    /// Posts an invalid request. All later requests must fail.
    pub(super) fn post_invalid(&mut self) {
        let choice = self.bytes.byte();
        let from = usize::from(choice & 1);
        if self.sides[from]
            .requests
            .iter()
            .any(|request| request.expected_error.is_some())
        {
            return;
        }
        let (start, len) = self.range();
        let len = len.max(1);
        let (va, rkey) = self.shared[1 - from];
        let bad_key = remote(va, Rkey::new(1));
        let outside = remote(va + SHARED_BYTES as u64 + 1 - len as u64, rkey);
        let unaligned = remote(va + 1, rkey);
        let (send, denied) = (SendOp::Send { imm: None }, WcStatus::RemAccessErr);
        let (op, len, status) = match (choice >> 1) % 12 {
            0 => (
                SendOp::Write {
                    remote: bad_key,
                    imm: None,
                },
                len,
                denied,
            ),
            1 => (
                SendOp::Write {
                    remote: outside,
                    imm: Some(Imm([9; 4])),
                },
                len,
                denied,
            ),
            2 => (SendOp::Read { remote: bad_key }, len, denied),
            3 => (SendOp::Read { remote: outside }, len, denied),
            4 => (
                SendOp::AtomicWrite {
                    remote: unaligned,
                    value: 7,
                },
                8,
                WcStatus::RemInvReqErr,
            ),
            5 => (self.atomic(unaligned), 8, WcStatus::RemInvReqErr),
            6 => (self.atomic(bad_key), 8, denied),
            7 => (send, MAX_MESSAGE_BYTES as usize + 1, WcStatus::LocLenErr),
            8 => (self.flush(bad_key, 0), 0, denied),
            9 => return self.post_bad_receive(from, BadReceive::Short, WcStatus::RemInvReqErr),
            10 => return self.post_bad_receive(from, BadReceive::Bad, WcStatus::RemOpErr),
            _ => (send, len, WcStatus::LocProtErr),
        };
        self.post(from, op, (start, len), Some(status));
    }

    /// Posts a message whose receive is too short or unusable.
    fn post_bad_receive(&mut self, from: usize, how: BadReceive, status: WcStatus) {
        let side = &self.sides[from];
        let number = side.message_count();
        if side.receives.len() > number || !self.may_post(from) {
            return;
        }
        let side = &mut self.sides[from];
        side.bad_receive = Some((number, how));
        self.post(from, SendOp::Send { imm: None }, (0, 9), Some(status));
    }

    /// Returns the number of receives that host `at` lacks for the messages. Messages sent before a
    /// reset may have consumed some, and frames in flight may consume others; so may an ACK probe,
    /// which is a new request to a QP that was reset.
    pub(super) fn missing_receives(&self, at: usize) -> usize {
        let side = &self.sides[1 - at];
        let consumed = match self.reset_in_use {
            true => self.hosts[at].received.len() + self.network[at].len() + 1,
            false => 0,
        };
        (side.message_count() + consumed).saturating_sub(side.receives.len())
    }

    /// Posts a receive at host `at`, if the state permits and not too many are posted.
    pub(super) fn post_receive(&mut self, at: usize) {
        let side = &self.sides[1 - at];
        if self.states[at] != QpState::Reset && side.receives.len() < side.message_count() + 8 {
            self.add_receive(at);
        }
    }

    /// Posts a receive at host `at` for a message of any length.
    pub(super) fn add_receive(&mut self, at: usize) {
        let side = &mut self.sides[1 - at];
        let number = side.receives.len();
        let (len, bad) = match side.bad_receive {
            Some((index, BadReceive::Short)) if index == number => (8, None),
            Some((index, BadReceive::Bad)) if index == number => {
                (SHARED_BYTES, Some(WcStatus::LocProtErr))
            }
            _ => (SHARED_BYTES, None),
        };
        self.next_wr += 1;
        let wr_id = self.next_wr;
        let va = self.hosts[at].memory.alloc(len);
        self.sides[1 - at].receives.push(Receive { wr_id, va });
        self.hosts[at].post_receive(wr_id, va, len, bad);
        self.apply_errors(at);
    }

    /// Returns whether a request may be posted at `from`.
    fn may_post(&self, from: usize) -> bool {
        self.states[from] != QpState::Reset && self.sides[from].requests.len() < MAX_REQUESTS
    }

    fn post(
        &mut self,
        from: usize,
        op: SendOp,
        (start, len): (usize, usize),
        expected_error: Option<WcStatus>,
    ) {
        if !self.may_post(from) {
            return;
        }
        let side = &self.sides[from];
        let flags = self.bytes.byte();
        // A request that modifies memory may overtake an earlier READ, unless it is fenced.
        let modifies = matches!(
            op,
            SendOp::Write { .. } | SendOp::Atomic { .. } | SendOp::AtomicWrite { .. }
        );
        self.next_wr += 1;
        let wr = SendWr {
            wr_id: self.next_wr,
            signaled: flags & 3 != 0,
            solicited: flags & 4 != 0,
            fence: flags & 24 == 24 || modifies && side.unfenced,
            ..request(op, len)
        };
        let has_payload = op.sends_payload() && len <= SHARED_BYTES;
        let bytes = match has_payload {
            true => pattern(self.next_wr, len),
            false => Vec::new(),
        };
        let memory = &mut self.hosts[from].memory;
        let local = match has_payload {
            true => memory.store(&bytes),
            false => memory.alloc(if len <= SHARED_BYTES { len } else { 0 }),
        };
        let side = &mut self.sides[from];
        side.unfenced = op.is_read() || side.unfenced && !wr.fence;
        match op {
            SendOp::SendInvalidate { rkey } => side.revoked[0].push(rkey),
            SendOp::ReadInvalidate { rkey, .. } => side.revoked[1].push(rkey),
            _ => {}
        }
        side.requests.push(Request {
            wr,
            bytes,
            local,
            start,
            expected_error,
        });
        let no_memory = expected_error == Some(WcStatus::LocProtErr);
        self.hosts[from].post(wr, (!no_memory).then_some(local));
        self.apply_errors(from);
    }

    // Operands of requests.

    /// Chooses a range of the shared memory.
    fn range(&mut self) -> (usize, usize) {
        let mtu = self.setup.mtu.bytes();
        let len = self.bytes.number(mtu) as usize % (SHARED_BYTES + 1);
        let start = usize::from(self.bytes.byte()) * 16 % (SHARED_BYTES - len.max(8) + 1);
        (start, len)
    }

    fn shared_at(&self, from: usize, start: usize) -> Remote {
        let (va, rkey) = self.shared[1 - from];
        remote(va + start as u64, rkey)
    }

    fn send_invalidate(&mut self, from: usize) -> SendOp {
        let (va, _) = self.shared[1 - from];
        let rkey = self.hosts[1 - from].memory.register(va, 1, ALL_ACCESS);
        SendOp::SendInvalidate { rkey }
    }

    fn read_invalidate(&mut self, from: usize, remote: Remote) -> SendOp {
        let (va, _) = self.shared[from];
        let rkey = self.hosts[from].memory.register(va, 1, ALL_ACCESS);
        SendOp::ReadInvalidate { remote, rkey }
    }

    fn atomic(&mut self, remote: Remote) -> SendOp {
        let number = u64::from(self.bytes.byte()) | 0xffff_ff00;
        let op = match number & 1 {
            0 => AtomicOp::FetchAdd { add: number },
            // Succeeds when it is repeated at the same address.
            _ => AtomicOp::CompareSwap {
                compare: number,
                swap: number ^ 2,
            },
        };
        SendOp::Atomic { remote, op }
    }

    fn flush(&self, remote: Remote, len: usize) -> SendOp {
        let scope = match len {
            0 => FlushScope::Region,
            len => FlushScope::Range(len as u32),
        };
        SendOp::Flush {
            remote,
            scope,
            placement: Placement::Both,
        }
    }

    fn local(&mut self) -> SendOp {
        SendOp::Local(match self.bytes.below(3) {
            0 => LocalOp::Invalidate,
            1 => LocalOp::Bind,
            _ => LocalOp::Register,
        })
    }
}
