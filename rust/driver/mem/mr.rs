// SPDX-License-Identifier: GPL-2.0

//! Memory regions: what stands behind a key.
//!
//! Owns the checks between a key and the memory of one region: generation, protection domain,
//! rights, bounds. Does not know packets or queue pairs; whoever passes the checks gets an offset
//! into [`Memory`], which only copies.
//!
//! A region of a process does not change as long as it has its place in the table. One for fast
//! registration changes in softirq, so its readers go through a [`RwRevocable`].

use crate::mem::{
    access_request::AccessRequest,
    pd::Pd, //
};
use kernel::sync::{
    atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    Arc, //
};
use rdma::mm::memory::Memory;
use roce::access::{
    Access,
    AccessError,
    Region, //
};

/// Counts the windows that are bound to a region, so that it does not go while there are any.
pub(crate) struct BoundWindows(Atomic<i32>);

/// No window may be bound.
const CLOSED: i32 = -1;

impl BoundWindows {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// A window wants to be bound. `false`: the region is going.
    pub(crate) fn enter(&self) -> bool {
        let mut count = self.0.load(Relaxed);
        loop {
            if count == CLOSED {
                return false;
            }
            match self.0.cmpxchg(count, count.wrapping_add(1), Full) {
                Ok(_) => return true,
                Err(other) => count = other,
            }
        }
    }

    /// A window is not bound any more.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Full);
    }

    /// How many are bound.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// From now on no window can be bound. `false`: there are some.
    pub(crate) fn close(&self) -> bool {
        matches!(self.0.cmpxchg(0, CLOSED, Full), Ok(_) | Err(CLOSED))
    }

    /// Takes [`BoundWindows::close`] back.
    pub(crate) fn reopen(&self) {
        let _ = self.0.cmpxchg(CLOSED, 0, Full);
    }
}

/// Memory that a consumer has registered.
pub(crate) struct Mr {
    pub(crate) pd: Arc<Pd>,
    /// The low byte of the key.
    pub(crate) generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Shared with the region that takes the place of this one when it is changed.
    pub(crate) memory: Arc<Memory>,
    pub(crate) windows: BoundWindows,
}

impl Mr {
    /// A region without windows.
    pub(crate) fn new(
        pd: Arc<Pd>,
        generation: u8,
        access: Access,
        region: Region,
        memory: Arc<Memory>,
    ) -> Self {
        Self {
            pd,
            generation,
            access,
            region,
            memory,
            windows: BoundWindows::new(),
        }
    }

    /// [`AccessRequest::check`] for this region.
    ///
    /// # Errors
    ///
    /// Those of [`AccessRequest::check`], and the wrong generation.
    pub(crate) fn locate(
        &self,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<u64, AccessError> {
        if self.generation != generation {
            return Err(AccessError::Key);
        }
        request.check(&self.pd, self.access, self.region)
    }

    /// Checks that a holder of `pd` may do `access` to all of the region.
    ///
    /// # Errors
    ///
    /// As [`Mr::locate`].
    pub(crate) fn grants(
        &self,
        generation: u8,
        pd: &Arc<Pd>,
        access: Access,
    ) -> Result<(), AccessError> {
        let start = AccessRequest {
            pd,
            va: self.region.iova,
            len: 0,
            access,
        };
        self.locate(generation, &start).map(|_| ())
    }
}
