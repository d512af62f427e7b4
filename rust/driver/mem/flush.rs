// SPDX-License-Identifier: GPL-2.0

//! Execution of a FLUSH of the peer.
//!
//! A flush is split into steps, each short enough for softirq. The receive engine executes the first step; if
//! more follow, a work item executes the whole flush. Data written by a CPU is globally visible at once, so
//! only a flush to persistent memory takes work.
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
    sync::Arc, //
};
use rdma::{
    mm::memory::Memory,
    sync::{
        read_section::ReadSection,
        workqueue::cond_resched, //
    }, //
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

/// Upper limit of one step, which takes some tens of microseconds.
const STEP_BYTES: u64 = 256 << 10;

/// A flush that the peer of a QP requests.
#[derive(Clone)]
pub(crate) struct Flush {
    /// Protection domain of the QP.
    pub(crate) pd: Arc<Pd>,
    /// Identity of the QP.
    pub(crate) identity: QpIdentity,
    /// The rkey and the first address.
    pub(crate) remote: Remote,
    /// Range to flush: some bytes, or the whole region or window.
    pub(crate) scope: FlushScope,
    /// Required placement: global visibility or persistence.
    pub(crate) placement: Placement,
}

impl Flush {
    /// Returns whether both flush the same bytes to the same placement.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.remote, self.scope, self.placement) == (other.remote, other.scope, other.placement)
    }

    /// Checks the request, and flushes one step from byte `done` on. Returns the start of the next step, if
    /// there is one. Each step looks up the key, so the region may be deregistered between steps.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`](crate::mem::key_table::KeyReader::lookup_remote). `Rights` if the memory is not
    /// persistent, even if a window grants the right.
    pub(crate) fn step(&self, keys: &KeyTable, done: u64) -> Result<Option<u64>, AccessError> {
        let guard = ReadSection::enter();
        let reader = keys.reader(&guard);
        let key = self.remote.rkey.get();
        let (va, len, checked) = match self.scope {
            FlushScope::Range(len) => (self.remote.va, u64::from(len), len),
            FlushScope::Region => {
                // A window that is bound anew before the look-up below has other bytes. To flush them changes nothing.
                let whole = reader.remote_addresses(self.identity, key)?;
                (whole.iova, whole.length, 0)
            }
        };
        let request = AccessRequest {
            pd: &self.pd,
            va,
            len: checked,
            access: self.placement.access(),
        };
        let found = reader.lookup_remote(self.identity, key, &request)?;
        self.write_back(found.memory(), found.offset(), (done, len))
    }

    /// Flushes one step of the `len` bytes at `at`, of which `done` are flushed.
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
        let now = left.min(STEP_BYTES);
        // CAST: At most `STEP_BYTES`.
        memory
            .write_back(at.saturating_add(done), now as usize)
            .map_err(|_| AccessError::Rights)?;
        Ok((now < left).then(|| done.saturating_add(now)))
    }

    /// Flushes all steps. Sleeps.
    ///
    /// # Errors
    ///
    /// `EFAULT` if [`Flush::step`] fails.
    pub(crate) fn finish(&self, keys: &KeyTable) -> Result {
        let mut done = 0;
        while let Some(next) = self.step(keys, done).map_err(|_| EFAULT)? {
            done = next;
            cond_resched();
        }
        Ok(())
    }
}
