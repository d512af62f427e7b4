// SPDX-License-Identifier: GPL-2.0

//! What is asked for: requests of every kind, some of which cannot be done, and receives.

use super::{
    model::{
        Asked,
        Receive,
        Spoilt, //
    },
    *,
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
    },
};

impl World<'_> {
    /// Posts a request that can be done.
    pub(super) fn ask(&mut self) {
        let choice = self.bytes.byte();
        let from = usize::from(choice & 1);
        let imm = (choice & 2 != 0).then_some(Imm([choice; 4]));
        let kind = usize::from(choice >> 2) % 16;
        let (start, len) = self.range();
        let at = self.place(from, start);
        let aligned = start & !7;
        let eight = self.place(from, aligned);
        let (op, start, len) = match kind {
            0..=3 => (SendOp::Send { imm }, 0, len),
            4 => (self.revoke_there(from), 0, len),
            5..=7 => (SendOp::Write { remote: at, imm }, start, len),
            8 | 9 => (SendOp::Read { remote: at }, start, len),
            10 => (self.revoke_here(from, at), start, len),
            11 | 12 => (self.atomic(eight), aligned, 8),
            13 => {
                let value = (u64::from(self.bytes.byte()) << 32) | 0x1234;
                (
                    SendOp::AtomicWrite {
                        remote: eight,
                        value,
                    },
                    aligned,
                    8,
                )
            }
            14 => (self.flush(at, len), start, 0),
            _ => (self.local(), 0, 0),
        };
        self.post(from, op, (start, len), None);
    }

    /// Posts a request that cannot be done. Whatever comes after it must fail too.
    pub(super) fn spoil(&mut self) {
        let choice = self.bytes.byte();
        let from = usize::from(choice & 1);
        if self.sides[from]
            .asked
            .iter()
            .any(|asked| asked.verdict.is_some())
        {
            return;
        }
        let (start, len) = self.range();
        let len = len.max(1);
        let (va, rkey) = self.shared[1 - from];
        let nowhere = remote(va, Rkey::new(1));
        let beyond = remote(va + SHARED as u64 + 1 - len as u64, rkey);
        let uneven = remote(va + 1, rkey);
        let (send, denied) = (SendOp::Send { imm: None }, WcStatus::RemAccessErr);
        let (op, len, status) = match (choice >> 1) % 12 {
            0 => (
                SendOp::Write {
                    remote: nowhere,
                    imm: None,
                },
                len,
                denied,
            ),
            1 => (
                SendOp::Write {
                    remote: beyond,
                    imm: Some(Imm([9; 4])),
                },
                len,
                denied,
            ),
            2 => (SendOp::Read { remote: nowhere }, len, denied),
            3 => (SendOp::Read { remote: beyond }, len, denied),
            4 => (
                SendOp::AtomicWrite {
                    remote: uneven,
                    value: 7,
                },
                8,
                WcStatus::RemInvReqErr,
            ),
            5 => (self.atomic(uneven), 8, WcStatus::RemInvReqErr),
            6 => (self.atomic(nowhere), 8, denied),
            7 => (send, MAX_MESSAGE_BYTES as usize + 1, WcStatus::LocLenErr),
            8 => (self.flush(nowhere, 0), 0, denied),
            9 => return self.spoil_receive(from, Spoilt::Short, WcStatus::RemInvReqErr),
            10 => return self.spoil_receive(from, Spoilt::Bad, WcStatus::RemOpErr),
            _ => (send, len, WcStatus::LocProtErr),
        };
        self.post(from, op, (start, len), Some(status));
    }

    /// Posts a message whose receive cannot take it.
    fn spoil_receive(&mut self, from: usize, how: Spoilt, status: WcStatus) {
        let side = &self.sides[from];
        let number = side.message_count();
        if side.receives.len() > number || !self.may_ask(from) {
            return;
        }
        let side = &mut self.sides[from];
        side.spoilt = Some((number, how));
        self.post(from, SendOp::Send { imm: None }, (0, 9), Some(status));
    }

    /// Returns how many receives host `at` needs so that each message finds one. What was sent before a reset may
    /// have taken some, and may still take as many as there are frames on their way; and a probe, which is nothing
    /// new but to a host that was reset, takes one.
    pub(super) fn wanted_receives(&self, at: usize) -> usize {
        let side = &self.sides[1 - at];
        let taken = match self.torn {
            true => self.ends[at].received.len() + self.wires[at].len() + 1,
            false => 0,
        };
        (side.message_count() + taken).saturating_sub(side.receives.len())
    }

    /// Posts a receive at host `at`, if it may, and there are not too many.
    pub(super) fn post_receive(&mut self, at: usize) {
        let side = &self.sides[1 - at];
        if self.states[at] != QpState::Reset && side.receives.len() < side.message_count() + 8 {
            self.add_receive(at);
        }
    }

    /// Posts a receive at host `at`, long enough for whatever comes.
    pub(super) fn add_receive(&mut self, at: usize) {
        let side = &mut self.sides[1 - at];
        let number = side.receives.len();
        let (len, bad) = match side.spoilt {
            Some((index, Spoilt::Short)) if index == number => (8, None),
            Some((index, Spoilt::Bad)) if index == number => (SHARED, Some(WcStatus::LocProtErr)),
            _ => (SHARED, None),
        };
        self.next_wr += 1;
        let wr_id = self.next_wr;
        let va = self.ends[at].memory.alloc(len);
        self.sides[1 - at].receives.push(Receive { wr_id, va });
        self.ends[at].post_receive(wr_id, va, len, bad);
        self.follow(at);
    }

    /// Returns whether `from` may be given a request.
    fn may_ask(&self, from: usize) -> bool {
        self.states[from] != QpState::Reset && self.sides[from].asked.len() < MOST
    }

    fn post(
        &mut self,
        from: usize,
        op: SendOp,
        (start, len): (usize, usize),
        verdict: Option<WcStatus>,
    ) {
        if !self.may_ask(from) {
            return;
        }
        let side = &self.sides[from];
        let flags = self.bytes.byte();
        // What changes memory may overtake a READ before it, unless it is fenced.
        let changes = matches!(
            op,
            SendOp::Write { .. } | SendOp::Atomic { .. } | SendOp::AtomicWrite { .. }
        );
        self.next_wr += 1;
        let wr = SendWr {
            wr_id: self.next_wr,
            signaled: flags & 3 != 0,
            solicited: flags & 4 != 0,
            fence: flags & 24 == 24 || changes && side.unfenced,
            ..request(op, len)
        };
        let carried = op.sends_payload() && len <= SHARED;
        let bytes = match carried {
            true => pattern(self.next_wr, len),
            false => Vec::new(),
        };
        let memory = &mut self.ends[from].memory;
        let local = match carried {
            true => memory.store(&bytes),
            false => memory.alloc(if len <= SHARED { len } else { 0 }),
        };
        let side = &mut self.sides[from];
        side.unfenced = op.is_read() || side.unfenced && !wr.fence;
        match op {
            SendOp::SendInvalidate { rkey } => side.revoked[0].push(rkey),
            SendOp::ReadInvalidate { rkey, .. } => side.revoked[1].push(rkey),
            _ => {}
        }
        side.asked.push(Asked {
            wr,
            bytes,
            local,
            start,
            verdict,
        });
        let missing = verdict == Some(WcStatus::LocProtErr);
        self.ends[from].post(wr, (!missing).then_some(local));
        self.follow(from);
    }

    // What requests are about.

    /// Chooses a part of the shared memory.
    fn range(&mut self) -> (usize, usize) {
        let mtu = self.setup.mtu.bytes();
        let len = self.bytes.number(mtu) as usize % (SHARED + 1);
        let start = usize::from(self.bytes.byte()) * 16 % (SHARED - len.max(8) + 1);
        (start, len)
    }

    fn place(&self, from: usize, start: usize) -> Remote {
        let (va, rkey) = self.shared[1 - from];
        remote(va + start as u64, rkey)
    }

    fn revoke_there(&mut self, from: usize) -> SendOp {
        let (va, _) = self.shared[1 - from];
        let rkey = self.ends[1 - from].memory.register(va, 1, EVERYTHING);
        SendOp::SendInvalidate { rkey }
    }

    fn revoke_here(&mut self, from: usize, remote: Remote) -> SendOp {
        let (va, _) = self.shared[from];
        let rkey = self.ends[from].memory.register(va, 1, EVERYTHING);
        SendOp::ReadInvalidate { remote, rkey }
    }

    fn atomic(&mut self, remote: Remote) -> SendOp {
        let number = u64::from(self.bytes.byte()) | 0xffff_ff00;
        let op = match number & 1 {
            0 => AtomicOp::FetchAdd { add: number },
            // The second time in the same place, it finds what it put there.
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
