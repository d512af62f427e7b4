// SPDX-License-Identifier: GPL-2.0

//! Waiting for memory on demand, or until much memory is flushed.
//!
//! Owns what one half of a queue pair knows about memory that it found absent: which, whether
//! somebody is bringing it, and how often that was in vain. Bringing it sleeps, so a work item does
//! it; the half pauses until then, and does nothing in between that the peer could see. Does not
//! know what the memory is for. A flush of much memory waits in the same way.
//!
//! A half has several accesses to make, those of requests and those of answers. So what has become of a
//! wait says nothing of another access than the one that waited: that one is known by what it asked for.
//!
//! Names of memory are kept here, not references to it: the work item looks the key up as
//! any access does. So a region may go meanwhile, and nobody has to drop one where that must not
//! sleep.

use crate::mem::{
    access_request::AccessRequest,
    flush::Flush,
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
    mm::{
        hmm_range::Fetch,
        memory::Memory,
        on_demand::OnDemand, //
    },
    sync::timer::now, //
};
use roce::access::{
    Access,
    Obstacle, //
};

/// How often the same access may find memory absent. Each time, something else has taken away what
/// was brought, in the time that a work item needs to end.
const MOST_TRIES: u32 = 256;

/// A wait that a peer should hear of, in nanoseconds: it may soon give us up.
const SLOW: u64 = 30_000_000;

/// Most bytes that are brought at a time beyond those that are missed.
pub(crate) const MOST_AHEAD: u32 = 2 << 20;

/// Memory that an access missed.
#[derive(Clone)]
pub(crate) struct FaultRequest {
    /// Protection domain of who asks.
    pub(crate) pd: Arc<Pd>,
    /// The queue pair, if it is its peer who asks.
    pub(crate) peer_of: Option<QpIdentity>,
    /// Key of the region or window.
    pub(crate) key: u32,
    /// Address of the first byte.
    pub(crate) va: u64,
    /// Bytes that must be there.
    pub(crate) must: u32,
    /// Bytes that will be needed next, from the same address on. They may be missing.
    pub(crate) may: u32,
    /// What for.
    pub(crate) access: Access,
}

impl FaultRequest {
    /// Brings the memory. Sleeps.
    ///
    /// # Errors
    ///
    /// Why it cannot be had; see [`OnDemand::fault`].
    pub(crate) fn bring(&self, keys: &KeyTable) -> Result {
        let (region, offset) = self.find(keys).ok_or(EFAULT)?;
        let fetch = if self.access.writes() {
            Fetch::Write
        } else {
            Fetch::Read
        };
        let ahead = self.may.min(MOST_AHEAD);
        if ahead > self.must && region.fault(offset, ahead.into(), fetch).is_ok() {
            return Ok(());
        }
        match self.must {
            0 => Ok(()),
            must => region.fault(offset, must.into(), fetch),
        }
    }

    /// Brings as much of the memory as `fetch` says. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`FaultRequest::bring`].
    pub(crate) fn prefetch(&self, keys: &KeyTable, fetch: Fetch) -> Result {
        let (region, offset) = self.find(keys).ok_or(EFAULT)?;
        region.fault(offset, self.must.into(), fetch)
    }

    /// Whether the same access wants it: its memory begins at the same place.
    fn is_for(&self, other: &Self) -> bool {
        (self.key, self.va, self.access, self.peer_of.is_some())
            == (other.key, other.va, other.access, other.peer_of.is_some())
    }

    /// The region on demand that the memory is in, and where.
    pub(crate) fn find(&self, keys: &KeyTable) -> Option<(Arc<OnDemand>, u64)> {
        let guard = rcu::read_lock();
        let request = AccessRequest {
            pd: &self.pd,
            va: self.va,
            len: self.must,
            access: self.access,
        };
        let found = match self.peer_of {
            None => keys.local(self.key, &request, &guard),
            Some(identity) => keys.remote(identity, self.key, &request, &guard),
        }
        .ok()?;
        match found.memory() {
            Memory::OnDemand(region) => Some((region.clone(), found.at())),
            _ => None,
        }
    }
}

/// What a half waits for, and a work item does.
pub(crate) enum DeferredWork {
    /// This is brought.
    Bring(FaultRequest),
    /// All of this is flushed.
    Flush(Flush),
}

impl DeferredWork {
    /// Does it. Sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`FaultRequest::bring`] and [`Flush::finish`].
    pub(crate) fn carry_out(&self, keys: &KeyTable) -> Result {
        match self {
            Self::Bring(request) => request.bring(keys),
            Self::Flush(flush) => flush.finish(keys),
        }
    }

    /// Whether it is for the same access.
    fn is_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bring(request), Self::Bring(other)) => request.is_for(other),
            (Self::Flush(flush), Self::Flush(other)) => flush.is_same(other),
            _ => false,
        }
    }
}

/// Why an access to memory did not happen.
pub(crate) enum AccessFailure<E> {
    /// This is not there at present.
    Absent(FaultRequest),
    /// What was to be copied is not there at present, and somebody else knows of it.
    AbsentElsewhere,
    /// This takes long.
    Unflushed(Flush),
    /// It cannot be done.
    Refused(E),
}

impl<E> From<E> for AccessFailure<E> {
    fn from(error: E) -> Self {
        Self::Refused(error)
    }
}

/// What a half knows about memory that it waits for.
#[derive(Default)]
pub(crate) struct FaultWait {
    request: Option<DeferredWork>,
    /// Somebody is bringing it, for the wait with the number `serial`.
    serial: u32,
    waiting: bool,
    /// How often the access at hand has waited.
    tries: u32,
    /// What was done last, and how that went, until an access was made.
    done: Option<(DeferredWork, Result)>,
    /// When the wait began, or when the peer was last told of it.
    since: u64,
    /// How many buffers with packets wait as well, as far as noted.
    behind: u32,
}

impl FaultWait {
    /// Whether the half has to do nothing until [`FaultWait::end`].
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether the half waits for so long that its peer should hear of it; each time but once.
    pub(crate) fn is_slow(&mut self) -> bool {
        let now = now();
        let slow = self.waiting && now.saturating_sub(self.since) >= SLOW;
        if slow {
            self.since = now;
        }
        slow
    }

    /// While the half waits it takes no packets. Notes that `buffers` with packets are there; whether more than were
    /// noted before.
    pub(crate) fn notices(&mut self, buffers: u32) -> bool {
        core::mem::replace(&mut self.behind, buffers) < buffers
    }

    /// Whether this access has not waited yet, so that it is worthwhile to look ahead.
    #[inline]
    pub(crate) fn is_first_try(&self) -> bool {
        self.tries == 0
    }

    /// An access was made: whatever comes now is another.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.tries = 0;
        if self.done.is_some() {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.done = None;
    }

    /// What is to become of an access that ended like this: the half waits, or fails with `hopeless`
    /// where waiting was in vain.
    pub(crate) fn resolve<T, E>(
        &mut self,
        outcome: Result<T, AccessFailure<E>>,
        hopeless: E,
    ) -> Result<T, Obstacle<E>> {
        let work = match outcome {
            Ok(value) => return Ok(value),
            Err(AccessFailure::Refused(error)) => return Err(Obstacle::Refused(error)),
            Err(AccessFailure::AbsentElsewhere) => return Err(Obstacle::Absent),
            Err(AccessFailure::Absent(request)) => DeferredWork::Bring(request),
            Err(AccessFailure::Unflushed(flush)) => DeferredWork::Flush(flush),
        };
        if self.has_failed(&work) || self.tries >= MOST_TRIES {
            return Err(Obstacle::Refused(hopeless));
        }
        if self.tries == 0 {
            self.since = now();
        }
        self.tries = self.tries.saturating_add(1);
        self.waiting = true;
        self.request = Some(work);
        Err(Obstacle::Absent)
    }

    /// Whether the memory of an access could not be had when the half has waited for it.
    fn has_failed(&self, work: &DeferredWork) -> bool {
        match &self.done {
            // One that was stolen again and again may be there next time.
            Some((done, Err(error))) => *error != EBUSY && *error != EAGAIN && done.is_for(work),
            _ => false,
        }
    }

    /// Whether `flush` was done while the half has waited. Says so once.
    pub(crate) fn take_flushed(&mut self, flush: &Flush) -> bool {
        match &self.done {
            Some((DeferredWork::Flush(done), Ok(()))) if done.is_same(flush) => {
                self.done = None;
                true
            }
            _ => false,
        }
    }

    /// What is to be brought, and a number to give to [`FaultWait::end`]. Nothing if somebody else does
    /// it, or nobody waits any more.
    pub(crate) fn begin(&mut self) -> Option<(DeferredWork, u32)> {
        let work = self.request.take()?;
        self.serial = self.serial.wrapping_add(1);
        Some((work, self.serial))
    }

    /// The chore is done, or cannot be: the memory is there, or cannot be had.
    pub(crate) fn end(&mut self, serial: u32, work: DeferredWork, brought: Result) {
        if self.serial == serial && self.request.is_none() {
            (self.waiting, self.behind) = (false, 0);
            self.done = Some((work, brought));
        }
    }

    /// Forgets the wait, and what comes of it.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            serial: self.serial.wrapping_add(1),
            ..Self::default()
        };
    }
}
