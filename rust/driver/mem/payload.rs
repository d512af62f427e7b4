// SPDX-License-Identifier: GPL-2.0

//! Sources and sinks of payload.
//!
//! A [`PayloadSource`] holds the payload of the packet that an engine processes: socket buffers here, memory
//! of the local peer in `qp::rc::loopback_payload`. A [`PayloadSink`] is the packet that an engine builds.
//! Both are used in process context or softirq.

use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::rx::coalesced::CoalescedPackets, //
};

/// Why payload was not copied to memory.
pub(crate) enum PayloadError {
    /// The memory cannot be accessed; `EAGAIN` if it is absent.
    Memory(Error),
    /// The payload is not available now. The source has recorded the reason.
    Source,
}

/// Payload of the packet that is being processed. Offsets count from the start of its BTH.
pub(crate) trait PayloadSource {
    /// Copies `len` bytes from packet offset `from` to offset `at` of `memory`.
    ///
    /// # Errors
    ///
    /// Either side cannot be accessed. Some bytes may have been copied.
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), PayloadError>;

    /// Fills `to` with the bytes at packet offset `from`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there are fewer bytes, or they are not available.
    fn read(&self, from: u32, to: &mut [u8]) -> Result;
}

impl PayloadSource for CoalescedPackets<'_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), PayloadError> {
        // CAST: `u32` to `usize`, on 64 bits.
        self.copy_to_memory(from as usize, memory, at, len as usize)
            .map_err(PayloadError::Memory)
    }

    #[inline]
    fn read(&self, from: u32, to: &mut [u8]) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        self.first().copy(from as usize, to)
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
