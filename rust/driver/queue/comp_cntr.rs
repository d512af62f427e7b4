// SPDX-License-Identifier: GPL-2.0

//! Completion counters, and those of a QP.
//!
//! A counter counts what has completed, reported in a CQ or not: an engine counts a request before it reports it, and
//! after it has placed its data and released its entry. A reader of the count sees both.
//! It is read and set in process context, and counted in any context.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};
use rdma::ib::comp_cntr::{
    CompCntrChange,
    CompCntrEntry,
    CompCntrOps,
    CompCntrUnit, //
};
use roce::{
    status::WcStatus,
    wr::WcOpcode, //
};

/// A completion counter. Its values wrap around.
pub(crate) struct CompCntr {
    unit: CompCntrUnit,
    /// Successes, in the unit of the counter.
    completed: Atomic<u64>,
    /// Failures, in requests: a request that has failed has no number of bytes.
    failed: Atomic<u64>,
}

impl CompCntr {
    /// Creates a counter with values of 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(unit: CompCntrUnit) -> Result<Arc<Self>> {
        let counter = Self {
            unit,
            completed: Atomic::new(0),
            failed: Atomic::new(0),
        };
        Ok(Arc::new(counter, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns a value.
    pub(crate) fn read(&self, entry: CompCntrEntry) -> u64 {
        self.entry(entry).load(Acquire)
    }

    /// Changes a value. What is counted while it is set may be lost.
    pub(crate) fn change(&self, entry: CompCntrEntry, change: CompCntrChange) {
        match change {
            CompCntrChange::Set(value) => self.entry(entry).store(value, Relaxed),
            CompCntrChange::Add(amount) => self.entry(entry).add(amount, Relaxed),
        }
    }

    fn entry(&self, entry: CompCntrEntry) -> &Atomic<u64> {
        match entry {
            CompCntrEntry::Completed => &self.completed,
            CompCntrEntry::Failed => &self.failed,
        }
    }

    /// Counts an operation with a payload of `length` bytes.
    fn count(&self, status: WcStatus, length: u32) {
        let (value, amount) = match (status, self.unit) {
            (WcStatus::Success, CompCntrUnit::Requests) => (&self.completed, 1),
            (WcStatus::Success, CompCntrUnit::Bytes) => (&self.completed, length.into()),
            _ => (&self.failed, 1),
        };
        value.fetch_add(amount, Release);
    }
}

/// The counters of a QP, by what they count.
#[derive(Default)]
pub(crate) struct AttachedCntrs {
    send: Option<Arc<CompCntr>>,
    receive: Option<Arc<CompCntr>>,
    read: Option<Arc<CompCntr>>,
    write: Option<Arc<CompCntr>>,
    remote_write: Option<Arc<CompCntr>>,
}

impl AttachedCntrs {
    /// What can be counted.
    ///
    /// READs of the peer are not: a long one arrives as several requests, each a READ of its own, which nothing
    /// distinguishes from READs of the consumer (`rust/roce/rc/read_split.rs`).
    pub(crate) const OPS: CompCntrOps = CompCntrOps::SEND
        .union(CompCntrOps::RECV)
        .union(CompCntrOps::RDMA_READ)
        .union(CompCntrOps::RDMA_WRITE)
        .union(CompCntrOps::REMOTE_RDMA_WRITE);

    /// Counts these operations in `counter` from now on.
    pub(crate) fn attach(&mut self, counter: &Arc<CompCntr>, ops: CompCntrOps) {
        for (place, op) in [
            (&mut self.send, CompCntrOps::SEND),
            (&mut self.receive, CompCntrOps::RECV),
            (&mut self.read, CompCntrOps::RDMA_READ),
            (&mut self.write, CompCntrOps::RDMA_WRITE),
            (&mut self.remote_write, CompCntrOps::REMOTE_RDMA_WRITE),
        ] {
            if ops.contains(op) {
                *place = Some(counter.clone());
            }
        }
    }

    /// Counts a send work request that has ended, signaled or not. Atomic operations, FLUSHes and operations on memory
    /// keys belong to no counter.
    pub(crate) fn on_sent(&self, opcode: WcOpcode, status: WcStatus, length: u32) {
        let counter = match opcode {
            WcOpcode::Send => &self.send,
            WcOpcode::RdmaRead => &self.read,
            WcOpcode::RdmaWrite => &self.write,
            _ => return,
        };
        count(counter, status, length);
    }

    /// Counts a receive that has ended, of the QP or of its SRQ.
    pub(crate) fn on_received(&self, status: WcStatus, length: u32) {
        count(&self.receive, status, length);
    }

    /// Counts an RDMA WRITE of the peer, all of which is placed. One that is refused fails at the peer. One with
    /// immediate data uses a receive, too, which counts as such.
    pub(crate) fn on_written(&self, length: u32) {
        count(&self.remote_write, WcStatus::Success, length);
    }
}

fn count(counter: &Option<Arc<CompCntr>>, status: WcStatus, length: u32) {
    if let Some(counter) = counter {
        counter.count(status, length);
    }
}
