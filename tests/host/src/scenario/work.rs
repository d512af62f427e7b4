// SPDX-License-Identifier: GPL-2.0

//! Requests of a scenario, of every kind, and their expected results.

use super::*;

impl Scenario {
    /// Posts a request, or several related ones.
    pub(super) fn choose(&mut self, from: usize) {
        let len = self.length();
        let imm = (self.random.below(2) == 0).then(|| Imm([self.random.byte(); 4]));
        let start = self.random.below(SHARED_BYTES - len + 1);
        match self.random.below(12) {
            7 | 8 => self.atomic(from, start & !7),
            9 => self.atomic_write(from, start & !7),
            10 => {
                self.flush(from, start, len);
                self.local(from);
            }
            0..=2 => self.send(from, len, imm),
            3 | 4 => self.write(from, start, len, imm, false),
            5 | 6 => {
                // A WRITE may overtake an earlier READ, unless it is fenced.
                self.read(from, start, len);
                self.write(from, start, len, imm, true);
            }
            _ => {
                self.read(from, start, len);
                self.send(from, 0, None);
                self.fence(from);
            }
        }
    }

    fn send(&mut self, from: usize, len: usize, imm: Option<Imm>) {
        let bytes = self.bytes(len);
        let local = self.pair.hosts[from].memory.store(&bytes);
        let invalidated = match self.random.below(4) {
            0 if imm.is_none() => Some(self.key_to_invalidate(from)),
            _ => None,
        };
        let op = match invalidated {
            Some(rkey) => SendOp::SendInvalidate { rkey },
            None => SendOp::Send { imm },
        };
        let wr = self.post(from, op, len, false, Some(local));
        self.receives[1 - from].push(len);
        self.expected[from].received.push(Message {
            opcode: WcOpcode::Recv,
            bytes,
            placed: true,
            imm,
            invalidated,
            solicited: wr.solicited,
        });
    }

    fn atomic(&mut self, from: usize, start: usize) {
        let start = start.min(SHARED_BYTES - 8);
        let (va, rkey) = self.shared[1 - from];
        let now = &self.expected[from].shared[start..start + 8];
        let now = u64::from_ne_bytes(now.try_into().expect("eight bytes"));
        let other = self.random.bits();
        let (op, new) = match self.random.below(3) {
            0 => (AtomicOp::FetchAdd { add: other }, now.wrapping_add(other)),
            1 => (
                AtomicOp::CompareSwap {
                    compare: now,
                    swap: other,
                },
                other,
            ),
            _ => (
                AtomicOp::CompareSwap {
                    compare: !now,
                    swap: other,
                },
                now,
            ),
        };
        let remote = remote(va + start as u64, rkey);
        let local = self.pair.hosts[from].memory.alloc(8);
        self.post(from, SendOp::Atomic { remote, op }, 8, false, Some(local));
        let expected = &mut self.expected[from];
        expected.shared[start..start + 8].copy_from_slice(&new.to_ne_bytes());
        expected.read.push((local, now.to_ne_bytes().to_vec()));
        expected.atomics += 1;
    }

    fn atomic_write(&mut self, from: usize, start: usize) {
        let start = start.min(SHARED_BYTES - 8);
        let (va, rkey) = self.shared[1 - from];
        let remote = remote(va + start as u64, rkey);
        let value = self.random.bits();
        self.post(from, SendOp::AtomicWrite { remote, value }, 8, false, None);
        let expected = &mut self.expected[from];
        expected.shared[start..start + 8].copy_from_slice(&value.to_ne_bytes());
        expected.atomics += 1;
    }

    fn flush(&mut self, from: usize, start: usize, len: usize) {
        let (va, rkey) = self.shared[1 - from];
        let op = SendOp::Flush {
            remote: remote(va + start as u64, rkey),
            scope: match self.random.below(2) {
                0 => FlushScope::Range(1 + len as u32 / 2),
                _ => FlushScope::Region,
            },
            placement: Placement::Both,
        };
        self.post(from, op, 0, false, None);
        self.expected[from].flushes += 1;
    }

    fn local(&mut self, from: usize) {
        let op = match self.random.below(3) {
            0 => LocalOp::Invalidate,
            1 => LocalOp::Bind,
            _ => LocalOp::Register,
        };
        let fence = self.random.below(2) == 0;
        self.post(from, SendOp::Local(op), 0, fence, None);
        self.expected[from].local.push(op);
    }

    /// Registers a key of the peer to be invalidated.
    fn key_to_invalidate(&mut self, from: usize) -> Rkey {
        let (va, _) = self.shared[1 - from];
        let rkey = self.pair.hosts[1 - from].memory.register(va, 1, ALL_ACCESS);
        self.expected[from].invalidated.push(rkey);
        rkey
    }

    fn write(&mut self, from: usize, start: usize, len: usize, imm: Option<Imm>, fence: bool) {
        let bytes = self.bytes(len);
        let local = self.pair.hosts[from].memory.store(&bytes);
        let (va, rkey) = self.shared[1 - from];
        let op = SendOp::Write {
            remote: remote(va + start as u64, rkey),
            imm,
        };
        let wr = self.post(from, op, len, fence, Some(local));
        let expected = &mut self.expected[from];
        expected.shared[start..start + len].copy_from_slice(&bytes);
        if imm.is_some() {
            self.receives[1 - from].push(0);
            expected.received.push(Message {
                opcode: WcOpcode::RecvRdmaWithImm,
                bytes,
                placed: false,
                imm,
                invalidated: None,
                solicited: wr.solicited,
            });
        }
    }

    fn read(&mut self, from: usize, start: usize, len: usize) {
        let local = self.pair.hosts[from].memory.alloc(len);
        let (va, rkey) = self.shared[1 - from];
        let op = SendOp::Read {
            remote: remote(va + start as u64, rkey),
        };
        self.post(from, op, len, false, Some(local));
        let expected = &mut self.expected[from];
        let bytes = expected.shared[start..start + len].to_vec();
        expected.read.push((local, bytes));
    }

    /// Keeps later requests from overtaking earlier READs.
    fn fence(&mut self, from: usize) {
        let (va, rkey) = self.shared[1 - from];
        let op = SendOp::Write {
            remote: remote(va, rkey),
            imm: None,
        };
        self.post(from, op, 0, true, None);
    }

    fn post(
        &mut self,
        from: usize,
        op: SendOp,
        len: usize,
        fence: bool,
        local: Option<u64>,
    ) -> SendWr {
        let wr = SendWr {
            signaled: self.random.below(4) != 0,
            solicited: self.random.below(2) == 0,
            fence,
            ..request(op, len)
        };
        let wr_id = self.pair.post(from, wr, local);
        let expected = &mut self.expected[from];
        expected.posted += 1;
        if wr.signaled {
            expected.sent.push((wr_id, op.wc_opcode()));
        }
        wr
    }

    /// Chooses a length: 0, about one MTU, a few MTUs, or about the flow limit.
    fn length(&mut self) -> usize {
        let mtu = self.setup.mtu.bytes() as usize;
        let random = &mut self.random;
        let len = match random.below(6) {
            0 => 0,
            1 => random.below(64),
            2 => mtu + random.below(3) - 1,
            3 => mtu * (1 + random.below(4)),
            4 => random.below(8 * mtu),
            _ => random.below(3 * self.setup.flow.bytes as usize),
        };
        len.min(MAX_MESSAGE_LEN)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        pattern(self.random.bits(), len)
    }
}
