// SPDX-License-Identifier: GPL-2.0

//! Sources and sinks of payload.
//!
//! A [`PayloadSource`] holds the payload of the packet that an engine processes: socket buffers here, memory
//! of the local peer in `qp::rc::loopback_payload`. A [`PayloadSink`] is the packet that an engine builds.
//! Both are used in process context or softirq.

use crate::mem::page_fault::FaultWait;
use core::cell::Cell;
use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::rx::packet::RxPacket, //
};
use roce::access::Obstacle;

/// Payload of the packet that is being processed. Offsets count from the start of its BTH.
pub(crate) trait PayloadSource {
    /// Copies `len` bytes from packet offset `from` to offset `at` of `memory`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if `memory` is absent. Any error if the payload is not available ([`PayloadSource::has_failed`]). Some
    /// bytes may have been copied.
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result;

    /// Returns whether the payload is why the last copy failed. The source has then recorded the reason, and its owner
    /// waits or aborts, not the owner of the memory.
    #[inline]
    fn has_failed(&self) -> bool {
        false
    }

    /// Fills `to` with the bytes at packet offset `from`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there are fewer bytes, or they are not available.
    fn read(&self, from: u32, to: &mut [u8]) -> Result;
}

impl PayloadSource for RxPacket<'_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        self.copy_to_memory(from as usize, memory, at, len as usize)
    }

    #[inline]
    fn read(&self, from: u32, to: &mut [u8]) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        self.copy(from as usize, to)
    }
}

/// Why the memory that payload is copied from cannot be read, and what waits for it.
pub(crate) struct SourceFailure<'a, E> {
    wait: Cell<Option<&'a mut FaultWait>>,
    failure: Cell<Option<Obstacle<E>>>,
}

impl<'a, E: Copy> SourceFailure<'a, E> {
    /// There is none. `wait` waits for memory that is absent.
    #[inline]
    pub(crate) fn new(wait: &'a mut FaultWait) -> Self {
        Self {
            wait: Cell::new(Some(wait)),
            failure: Cell::new(None),
        }
    }

    /// Records that the payload cannot be read. Returns an error for [`PayloadSource::copy_to`].
    #[cold]
    pub(crate) fn refused(&self, error: E) -> Error {
        self.failure.set(Some(Obstacle::Refused(error)));
        EFAULT
    }

    /// As [`SourceFailure::refused`], for what `f` returns, which may make the wait begin.
    #[cold]
    pub(crate) fn record(&self, f: impl FnOnce(&mut FaultWait) -> Obstacle<E>) -> Error {
        if let Some(wait) = self.wait.take() {
            self.failure.set(Some(f(wait)));
            self.wait.set(Some(wait));
        }
        EFAULT
    }

    /// Returns whether the payload could not be read.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Returns why the payload could not be read, if so.
    #[inline]
    pub(crate) fn take(&self) -> Option<Obstacle<E>> {
        self.failure.take()
    }
}

/// Destination of the payload of a packet under construction.
pub(crate) trait PayloadSink {
    /// Appends `len` bytes at `offset` of `memory`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if a page is absent. Any other error: the packet has no space, or the range exceeds the
    /// memory.
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result;

    /// Appends a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// The packet has no space.
    fn append_bytes(&mut self, bytes: &[u8]) -> Result;
}
