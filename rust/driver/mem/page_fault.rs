// SPDX-License-Identifier: GPL-2.0

//! Page faults of on-demand memory (ODP), and flushes that are too long for softirq.
//!
//! An engine that finds memory absent records the access in one of its [`FaultWaits`]: there is one for the packets
//! that it sends, and one for those that it has received. A work item faults the memory in, which sleeps, and then runs
//! the engine again. Meanwhile the engine goes on with everything that does not need this memory; "A wait holds back
//! what needs it" in `Documentation/decisions-memory.rst` has the table. The owner of the engine accesses its
//! [`FaultWaits`], so there is no lock.
//!
//! After a fault an engine may continue with another access than the one that faulted, for example because it sends
//! earlier packets again. The result of a fault therefore applies only to the same access: same key, address and
//! rights.
//!
//! A fault request holds the key of the memory, not a reference: the work item looks up the key again. The
//! region may therefore be deregistered meanwhile, and no reference is dropped in atomic context.

use crate::mem::{
    access_request::AccessRequest,
    flush::Flush,
    key_table::KeyTable,
    mw::QpIdentity,
    pd::Pd, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    mm::{
        hmm_range::Fetch,
        memory::Memory,
        on_demand::OnDemand, //
    },
    sync::{
        read_section::ReadSection,
        timer::now, //
    }, //
};
use roce::access::{
    Access,
    Obstacle, //
};

/// Limit of the faults of one access. Each time, the memory was reclaimed again before the engine could use
/// it.
const MAX_FAULT_TRIES: u32 = 256;

/// A wait for this long is reported to the peer, which may otherwise soon give up. A fault that need not wait for a
/// disk is over before: it costs the peer no RNR retry, and no time.
const SLOW_FAULT_NS: u64 = 1_000_000;

/// Limit of the memory that one fault brings in ahead of need, counted from the faulting address.
pub(crate) const FAULT_AROUND_BYTES: u32 = 2 << 20;

/// An access that found memory absent.
#[derive(Clone)]
pub(crate) struct FaultRequest {
    /// Protection domain of the access.
    pub(crate) pd: Arc<Pd>,
    /// The QP, if the access is one of its peer.
    pub(crate) peer_of: Option<QpIdentity>,
    /// Key of the region or window.
    pub(crate) key: u32,
    /// Address of the first byte.
    pub(crate) va: u64,
    /// Bytes that must become present.
    pub(crate) len: u32,
    /// Bytes from `va` on that will be needed next, including the first `len`. Failure to fault them in is
    /// not an error.
    pub(crate) around_len: u32,
    /// Rights of the access.
    pub(crate) access: Access,
}

impl FaultRequest {
    /// Faults the memory in. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`OnDemand::fault`]; `EFAULT` if the key no longer grants the access.
    pub(crate) fn fault_in(&self, keys: &KeyTable) -> Result {
        let (region, offset) = self.lookup(keys).ok_or(EFAULT)?;
        let fetch = if self.access.writes() {
            Fetch::Write
        } else {
            Fetch::Read
        };
        let ahead = self.around_len.min(FAULT_AROUND_BYTES);
        if ahead > self.len && region.fault(offset, ahead.into(), fetch).is_ok() {
            return Ok(());
        }
        match self.len {
            0 => Ok(()),
            len => region.fault(offset, len.into(), fetch),
        }
    }

    /// Faults in the first `len` bytes, in the mode `fetch`. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`FaultRequest::fault_in`].
    pub(crate) fn prefetch(&self, keys: &KeyTable, fetch: Fetch) -> Result {
        let (region, offset) = self.lookup(keys).ok_or(EFAULT)?;
        region.fault(offset, self.len.into(), fetch)
    }

    /// Returns whether both are the same access: their memory begins at the same address.
    fn is_same_access(&self, other: &Self) -> bool {
        (self.key, self.va, self.access, self.peer_of.is_some())
            == (other.key, other.va, other.access, other.peer_of.is_some())
    }

    /// Returns the on-demand region of the memory, and the offset in it.
    pub(crate) fn lookup(&self, keys: &KeyTable) -> Option<(Arc<OnDemand>, u64)> {
        let guard = ReadSection::enter();
        let request = AccessRequest {
            pd: &self.pd,
            va: self.va,
            len: self.len,
            access: self.access,
        };
        let reader = keys.reader(&guard);
        let found = match self.peer_of {
            None => reader.lookup_local(self.key, &request),
            Some(identity) => reader.lookup_remote(identity, self.key, &request),
        }
        .ok()?;
        match found.memory() {
            Memory::OnDemand(region) => Some((region.clone(), found.offset())),
            _ => None,
        }
    }
}

/// Work that an engine waits for, and that a work item does.
#[derive(Clone)]
pub(crate) enum DeferredWork {
    /// Faults in this memory.
    FaultIn(FaultRequest),
    /// Executes all of this flush.
    Flush(Flush),
}

impl DeferredWork {
    /// Does the work. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`FaultRequest::fault_in`] and [`Flush::finish`].
    pub(crate) fn service(&self, keys: &KeyTable) -> Result {
        match self {
            Self::FaultIn(request) => request.fault_in(keys),
            Self::Flush(flush) => flush.finish(keys),
        }
    }

    /// Returns whether both are for the same access.
    fn is_same_access(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::FaultIn(request), Self::FaultIn(other)) => request.is_same_access(other),
            (Self::Flush(flush), Self::Flush(other)) => flush.is_same(other),
            _ => false,
        }
    }
}

/// The page fault or flush that an engine waits for.
#[derive(Default)]
pub(crate) struct FaultWait {
    /// The work that is waited for, or the last one, until an access succeeds.
    work: Option<DeferredWork>,
    state: WorkState,
    /// Number of the work begun last. A result with another number is stale.
    serial: u32,
    /// Faults of the current access so far.
    tries: u32,
    /// When the peer may be told to send again later, in nanoseconds.
    nak_at_ns: u64,
    /// How often the peer was told.
    naks: u8,
}

/// State of the work of a [`FaultWait`], if there is any.
#[derive(Clone, Copy, Debug, Default)]
enum WorkState {
    /// A work item has not begun it.
    #[default]
    Due,
    /// A work item has begun it.
    Begun,
    /// It is done.
    Done(Result),
}

/// Which memory an engine waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FaultSide {
    /// That of a packet to send.
    Tx,
    /// That of a received packet.
    Rx,
}

/// The page faults that an engine waits for. Neither holds back what needs only the other memory.
#[derive(Default)]
pub(crate) struct FaultWaits {
    /// For the memory of a packet to send.
    pub(crate) tx: FaultWait,
    /// For the memory of a received packet.
    pub(crate) rx: FaultWait,
}

impl FaultWaits {
    /// Returns the wait of one side.
    pub(crate) fn side(&mut self, side: FaultSide) -> &mut FaultWait {
        match side {
            FaultSide::Tx => &mut self.tx,
            FaultSide::Rx => &mut self.rx,
        }
    }

    /// Returns whether any memory is absent.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.tx.is_waiting() || self.rx.is_waiting()
    }

    /// Cancels both waits and discards their results.
    pub(crate) fn reset(&mut self) {
        self.tx.reset();
        self.rx.reset();
    }
}

impl FaultWait {
    /// Returns whether the access must wait until [`FaultWait::end`].
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.work.is_some() && !matches!(self.state, WorkState::Done(_))
    }

    /// Returns whether there is work for a work item to begin.
    #[inline]
    pub(crate) fn needs_service(&self) -> bool {
        self.work.is_some() && matches!(self.state, WorkState::Due)
    }

    /// Returns when the peer may be told to send again later, in nanoseconds, and how often it was told before.
    pub(crate) fn next_nak(&self) -> (u64, u8) {
        (self.nak_at_ns, self.naks)
    }

    /// The peer was told at `now_ns` to send again after `delay_ns`. It is told again when it has done so: that takes
    /// no less than half of the delay, as clocks differ.
    pub(crate) fn on_nak(&mut self, now_ns: u64, delay_ns: u64) {
        self.naks = self.naks.saturating_add(1);
        self.nak_at_ns = now_ns.saturating_add(delay_ns / 2);
    }

    /// Returns whether the current access has not waited yet. Only then is it worthwhile to fault memory in
    /// ahead.
    #[inline]
    pub(crate) fn is_first_try(&self) -> bool {
        self.tries == 0
    }

    /// Notes that an access succeeded. The next one is a new access.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.tries = 0;
        if self.work.is_some() {
            self.clear_result();
        }
    }

    #[cold]
    fn clear_result(&mut self) {
        if !self.is_waiting() {
            self.work = None;
        }
    }

    /// The memory of an access is absent: the engine waits for `request`.
    ///
    /// Returns `Absent` if it must wait; `Refused` with `error` if the fault of this access failed or was repeated too
    /// often.
    pub(crate) fn absent<E>(&mut self, request: FaultRequest, error: E) -> Obstacle<E> {
        self.wait_for(DeferredWork::FaultIn(request), error)
    }

    /// As [`FaultWait::absent`], for a flush that takes too long for the current context.
    pub(crate) fn unflushed<E>(&mut self, flush: Flush, error: E) -> Obstacle<E> {
        self.wait_for(DeferredWork::Flush(flush), error)
    }

    #[cold]
    fn wait_for<E>(&mut self, work: DeferredWork, error: E) -> Obstacle<E> {
        if self.is_for(&work) {
            return Obstacle::Absent;
        }
        if self.has_failed(&work) || self.tries >= MAX_FAULT_TRIES {
            return Obstacle::Refused(error);
        }
        if self.tries == 0 {
            (self.nak_at_ns, self.naks) = (now().saturating_add(SLOW_FAULT_NS), 0);
        }
        self.tries = self.tries.saturating_add(1);
        (self.work, self.state) = (Some(work), WorkState::Due);
        Obstacle::Absent
    }

    /// Faults memory in ahead of an access that need not wait for it yet, if nothing else waits.
    #[cold]
    pub(crate) fn fault_ahead(&mut self, request: FaultRequest) {
        if !self.is_waiting() {
            let _ = self.absent(request, ());
        }
    }

    /// Returns whether the engine waits for this work already.
    fn is_for(&self, work: &DeferredWork) -> bool {
        self.is_waiting() && self.is_last(work)
    }

    /// Returns whether this is the work that is or was waited for.
    fn is_last(&self, work: &DeferredWork) -> bool {
        let last = self.work.as_ref();
        last.is_some_and(|last| last.is_same_access(work))
    }

    /// Returns whether the last fault was for this access and failed.
    fn has_failed(&self, work: &DeferredWork) -> bool {
        match self.state {
            // Memory that was reclaimed before the fault completed may be available next time.
            WorkState::Done(Err(error)) => error != EBUSY && error != EAGAIN && self.is_last(work),
            _ => false,
        }
    }

    /// Returns, once, whether `flush` was completed while the engine waited.
    pub(crate) fn take_flushed(&mut self, flush: &Flush) -> bool {
        match (&self.work, self.state) {
            (Some(DeferredWork::Flush(done)), WorkState::Done(Ok(()))) if done.is_same(flush) => {
                self.work = None;
                true
            }
            _ => false,
        }
    }

    /// Returns the work to do, and a number to pass to [`FaultWait::end`]. `None` if the work is in progress,
    /// or the engine no longer waits.
    pub(crate) fn begin(&mut self) -> Option<(DeferredWork, u32)> {
        let work = self.work.clone().filter(|_| self.needs_service())?;
        (self.serial, self.state) = (self.serial.wrapping_add(1), WorkState::Begun);
        Some((work, self.serial))
    }

    /// Ends the wait with the result of the work, unless it is stale.
    pub(crate) fn end(&mut self, serial: u32, result: Result) {
        if self.serial == serial && matches!(self.state, WorkState::Begun) {
            self.state = WorkState::Done(result);
        }
    }

    /// Cancels the wait and discards its result.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            serial: self.serial.wrapping_add(1),
            ..Self::default()
        };
    }
}
