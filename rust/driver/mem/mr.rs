// SPDX-License-Identifier: GPL-2.0

//! Memory regions of user space, and the count of windows bound to a region.
//!
//! [`KeyTable`](crate::mem::key_table::KeyTable) finds a region by its key and calls the checks here:
//! generation, protection domain, rights, bounds. They return an offset into [`Memory`], which only copies.
//! An [`Mr`] does not change while it is in the table, so a `ReadSection` is sufficient to read it.

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

/// Number of windows bound to a region. The region is not removed or invalidated while it is nonzero.
pub(crate) struct BoundWindows(Atomic<i32>);

/// No window can be bound.
const CLOSED: i32 = -1;

impl BoundWindows {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts a window that will be bound. Returns false if the region is closed.
    pub(crate) fn try_attach(&self) -> bool {
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

    /// Uncounts a window that is no longer bound.
    pub(crate) fn detach(&self) {
        self.0.fetch_sub(1, Full);
    }

    /// Returns the number of bound windows.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// Prevents further windows from being bound. Returns false, without effect, if any are bound.
    pub(crate) fn close(&self) -> bool {
        matches!(self.0.cmpxchg(0, CLOSED, Full), Ok(_) | Err(CLOSED))
    }

    /// Undoes [`BoundWindows::close`].
    pub(crate) fn reopen(&self) {
        let _ = self.0.cmpxchg(CLOSED, 0, Full);
    }
}

/// A memory region of a process, of a DMA buffer, or of all kernel memory.
pub(crate) struct Mr {
    pub(crate) pd: Arc<Pd>,
    /// Low byte of the key.
    pub(crate) generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Shared with the region that replaces this one on re-registration.
    pub(crate) memory: Arc<Memory>,
    pub(crate) windows: BoundWindows,
}

impl Mr {
    /// Creates a region without bound windows.
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

    /// Checks `request` as [`AccessRequest::check`] does. Returns the offset of the bytes in the memory.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if the generation is wrong.
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
}
