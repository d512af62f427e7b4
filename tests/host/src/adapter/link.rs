// SPDX-License-Identifier: GPL-2.0

//! A QP of this driver connected to a QP of an adapter, with the network and the clock.

use super::{
    requester::AdapterWork,
    Adapter,
    Profile, //
};
use crate::{
    host::Host,
    net::Net,
    pair::{
        pattern,
        remote,
        request,
        Setup,
        A,
        ALL_ACCESS,
        B, //
    }, //
};
use roce::{
    id::Rkey,
    psn::Psn,
    status::WcStatus,
    time::Instant,
    wr::{
        Imm,
        Remote,
        SendOp,
        SendWr, //
    }, //
};

/// Most steps until nothing is left to do.
const MAX_STEPS: usize = 200_000;

/// Bytes of the memory that each end shares.
pub const SHARED_BYTES: usize = 256 << 10;

/// A connection between this driver (A) and an adapter (B).
pub struct AdapterLink {
    /// The clock.
    pub now: Instant,
    /// The network.
    pub net: Net,
    /// The end of this driver.
    pub host: Host,
    /// The other end.
    pub adapter: Adapter,
    /// Address and key of the memory that each end shares.
    pub shared: [(u64, Rkey); 2],
    setup: Setup,
    posted: u64,
    /// READs of both ends: the end, the buffer, and the bytes it must hold.
    expected: Vec<(usize, u64, Vec<u8>)>,
    /// WRITEs of both ends: the end that is written, the address, and the bytes.
    written: Vec<(usize, u64, Vec<u8>)>,
    /// Messages sent from each end that use a receive.
    messages: [Vec<Vec<u8>>; 2],
    /// Bytes of the shared memory of each end that are not written yet.
    unwritten: [usize; 2],
}

impl AdapterLink {
    /// Connects the two ends.
    #[must_use]
    pub fn new(profile: Profile, setup: Setup) -> Self {
        let first = Psn::new(setup.first_psn);
        let other = first.add(1 << 23);
        let mut host = Host::new(&setup, A, first, other);
        let mut adapter = Adapter::new(profile, setup.mtu, (other, first));
        let bytes = pattern(setup.seed, SHARED_BYTES);
        let shared = [&mut host.memory, &mut adapter.memory].map(|memory| {
            let va = memory.store(&bytes);
            (va, memory.register(va, SHARED_BYTES, ALL_ACCESS))
        });
        Self {
            now: Instant::from_nanos(1_000_000),
            net: Net::new(setup.seed, setup.faults),
            host,
            adapter,
            shared,
            setup,
            posted: 0,
            expected: Vec::new(),
            written: Vec::new(),
            messages: [Vec::new(), Vec::new()],
            // The lower half is read, the upper half is written.
            unwritten: [SHARED_BYTES / 2; 2],
        }
    }

    /// Returns the other end's memory, `offset` bytes from its start.
    fn peer_memory(&self, from: usize, offset: usize) -> Remote {
        let (va, rkey) = self.shared[1 - from];
        remote(va + offset as u64, rkey)
    }

    /// Posts a request of this driver.
    fn post(&mut self, op: SendOp, len: usize, local: u64, signaled: bool) {
        self.posted += 1;
        let wr = SendWr {
            wr_id: self.posted,
            signaled,
            ..request(op, len)
        };
        self.host.post(wr, Some(local));
    }

    fn store(&mut self, at: usize, bytes: &[u8]) -> u64 {
        match at {
            A => self.host.memory.store(bytes),
            _ => self.adapter.memory.store(bytes),
        }
    }

    /// Posts a SEND of `len` bytes from either end.
    pub fn send(&mut self, from: usize, len: usize, signaled: bool) {
        let bytes = pattern(self.messages[from].len() as u64, len);
        let va = self.store(from, &bytes);
        self.messages[from].push(bytes);
        match from {
            A => self.post(SendOp::Send { imm: None }, len, va, signaled),
            _ => self.adapter.requester.post(AdapterWork::Send {
                va,
                len: len as u32,
            }),
        }
    }

    /// Posts a WRITE of `len` bytes from either end to memory that was not written yet, as far as there is any.
    pub fn write(&mut self, from: usize, len: usize, imm: bool, signaled: bool) {
        let offset = SHARED_BYTES - self.unwritten[1 - from];
        let len = len.min(self.unwritten[1 - from]);
        self.unwritten[1 - from] -= len;
        let to = self.peer_memory(from, offset);
        let bytes = pattern(offset as u64, len);
        let va = self.store(from, &bytes);
        self.written.push((1 - from, to.va, bytes));
        if imm {
            self.messages[from].push(Vec::new());
        }
        match from {
            A => {
                let imm = imm.then_some(Imm([7; 4]));
                self.post(SendOp::Write { remote: to, imm }, len, va, signaled);
            }
            _ => self.adapter.requester.post(AdapterWork::Write {
                va,
                len: len as u32,
                to,
                imm,
            }),
        }
    }

    /// Posts a READ of `len` bytes from either end.
    pub fn read(&mut self, from: usize, offset: usize, len: usize) {
        let remote = self.peer_memory(from, offset);
        let va = self.store(from, &vec![0; len]);
        let bytes = pattern(self.setup.seed, SHARED_BYTES)[offset..offset + len].to_vec();
        self.expected.push((from, va, bytes));
        match from {
            A => self.post(SendOp::Read { remote }, len, va, true),
            _ => self.adapter.requester.post(AdapterWork::Read {
                va,
                len: len as u32,
                from: remote,
            }),
        }
    }

    /// Posts a receive of `len` bytes at either end.
    pub fn receive(&mut self, at: usize, len: usize) {
        match at {
            A => {
                let va = self.host.memory.alloc(len);
                self.host.post_receive(0, va, len, None);
            }
            _ => self.adapter.responder.post_receive(len),
        }
    }

    /// Advances to the next event. Returns `false` if there is none.
    pub fn step(&mut self) -> bool {
        self.settle();
        let deadlines = [
            self.host.requester.next_wake().at(),
            self.adapter.deadline(),
            self.net.next_arrival(),
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        let mut arrived = [const { Vec::new() }; 2];
        while let Some((to, frame)) = self.net.arrive(self.now) {
            arrived[to].push(frame);
        }
        self.host.deliver(self.now, &arrived[A]);
        self.adapter.deliver(self.now, &arrived[B]);
        self.host.requester.handle_timeout(self.now);
        self.adapter.handle_timeout(self.now);
        self.settle();
        true
    }

    /// Sends all that either end can send now.
    fn settle(&mut self) {
        loop {
            let retired = self.host.retired;
            let sent = self.host.run_engines(self.now, self.setup.burst);
            let answered = self.adapter.poll(self.now);
            let progress = self.host.retired != retired || self.host.responder.has_work();
            if sent.is_empty() && answered.is_empty() && !progress {
                return;
            }
            for (from, frames) in [(A, sent), (B, answered)] {
                for frame in frames {
                    self.net.send(self.now, from, frame);
                }
            }
        }
    }

    /// Runs until there is no further event.
    ///
    /// # Panics
    ///
    /// If that takes too many steps.
    pub fn drive(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.step() {
                return;
            }
        }
        panic!("still busy at {:?}", self.now);
    }

    /// Checks that all requests are complete, once and with the right data.
    ///
    /// # Panics
    ///
    /// If one is not.
    pub fn check(&self) {
        let (host, adapter) = (&self.host, &self.adapter);
        assert_eq!(host.requester.error(), None);
        assert_eq!((host.fatal, adapter.responder.failed), (None, None));
        assert_eq!(adapter.requester.failed, None);
        assert_eq!(host.retired, self.posted, "all requests are complete");
        assert!(host.sent.iter().all(|c| c.status == WcStatus::Success));
        assert!(host.sent.is_sorted_by_key(|c| c.wr_id), "in order");
        assert_eq!(adapter.requester.completed, adapter.requester.posted());
        assert_eq!(adapter.requester.completed_early, 0, "by a wrong MSN");
        assert!(adapter.responder.received == self.messages[A], "messages");
        assert_eq!(host.received.len(), self.messages[B].len(), "messages");
        for (at, va, bytes) in self.expected.iter().chain(&self.written) {
            let memory = match *at {
                A => &host.memory,
                _ => &adapter.memory,
            };
            assert!(memory.get(*va, bytes.len()) == bytes, "bytes at {va:#x}");
        }
    }
}
