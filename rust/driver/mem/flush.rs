// SPDX-License-Identifier: GPL-2.0

//! Flushes: what a peer has written gets to where it shall be safe.
//!
//! Owns the check of one flush, and its steps, each short enough for softirq. Does not know who takes the
//! steps. Visible to all is whatever a processor has written, so only persistent memory takes work.
//!
//! IBA: annex A19, memory placement extensions.

use crate::mem::{
    access_request::AccessRequest,
    key_table::KeyTable,
    mw::QpIdentity,
    pd::Pd, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    mm::memory::Memory,
    sync::workqueue::cond_resched, //
};
use roce::{
    access::{
        Access,
        AccessError, //
    },
    wr::{
        FlushScope,
        Placement,
        Remote, //
    }, //
};

/// Most bytes of a step: some tens of microseconds.
const STEP: u64 = 256 << 10;

/// What the peer of a queue pair wants flushed.
pub(crate) struct Flush {
    /// Protection domain of the queue pair.
    pub(crate) pd: Arc<Pd>,
    /// The queue pair.
    pub(crate) identity: QpIdentity,
    /// Key, and first address.
    pub(crate) remote: Remote,
    /// Which bytes.
    pub(crate) scope: FlushScope,
    /// Where they shall be.
    pub(crate) placement: Placement,
}

impl Flush {
    /// Whether it is of the same bytes, to the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.remote, self.scope, self.placement) == (other.remote, other.scope, other.placement)
    }

    /// Checks that the peer may ask for that, and takes a step from byte `done` on. Returns where the next
    /// begins, if there is one. Every step looks the key up, so the memory may go in between.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] or [`Mr::grants`](crate::mem::mr::Mr::grants) finds wrong; `Rights`: the memory is
    /// not persistent, whatever a window says.
    pub(crate) fn step(&self, keys: &KeyTable, done: u64) -> Result<Option<u64>, AccessError> {
        let guard = rcu::read_lock();
        let (key, access) = (self.remote.rkey.get(), self.placement.access());
        match self.scope {
            FlushScope::Range(len) => {
                let request = AccessRequest {
                    pd: &self.pd,
                    va: self.remote.va,
                    len,
                    access,
                };
                let found = keys.remote(self.identity, key, &request, &guard)?;
                self.write_back(found.memory(), found.at(), (done, len.into()))
            }
            FlushScope::Region => {
                let (mr, generation) = keys.region(key, &guard).ok_or(AccessError::Key)?;
                mr.grants(generation, &self.pd, access)?;
                self.write_back(&mr.memory, 0, (done, mr.region.length))
            }
        }
    }

    /// A step of the `len` bytes at `at`, of which `done` are done.
    fn write_back(
        &self,
        memory: &Memory,
        at: u64,
        (done, len): (u64, u64),
    ) -> Result<Option<u64>, AccessError> {
        if !self.placement.access().contains(Access::FLUSH_PERSISTENT) {
            return Ok(None);
        }
        let left = len.saturating_sub(done);
        let now = left.min(STEP);
        // CAST: No more than a step.
        memory
            .write_back(at.saturating_add(done), now as usize)
            .map_err(|_| AccessError::Rights)?;
        Ok((now < left).then(|| done.saturating_add(now)))
    }

    /// Takes all steps. Sleeps.
    ///
    /// # Errors
    ///
    /// `EFAULT`: as [`Flush::step`].
    pub(crate) fn finish(&self, keys: &KeyTable) -> Result {
        let mut done = 0;
        while let Some(next) = self.step(keys, done).map_err(|_| EFAULT)? {
            done = next;
            cond_resched();
        }
        Ok(())
    }
}
