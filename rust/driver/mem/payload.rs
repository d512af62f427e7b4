// SPDX-License-Identifier: GPL-2.0

//! The bytes of a packet at hand, wherever they stand.
//!
//! Owns the question how they get into memory. Does not know what memory, nor what the packet is for. Those of
//! a packet from the network stand in a socket buffer; others are in `nearby`.

use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::rx::coalesced::CoalescedPackets, //
};

/// Why bytes of a packet did not get into memory.
pub(crate) enum Fault {
    /// The memory is to blame: `EAGAIN` if it is absent.
    Memory(Error),
    /// The bytes cannot be had at present. Whoever has given the packet knows why.
    PayloadSource,
}

/// The bytes of a packet at hand. Places in it are counted from the start of its BTH.
pub(crate) trait PayloadSource {
    /// Copies `len` bytes from place `from` on to `at` of `memory`.
    ///
    /// # Errors
    ///
    /// What is to blame; some may have been copied.
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), Fault>;

    /// Copies as many bytes as `to` holds from place `from` on.
    ///
    /// # Errors
    ///
    /// `EFAULT`: there are not so many, or they cannot be had.
    fn read(&self, from: u32, to: &mut [u8]) -> Result;
}

impl PayloadSource for CoalescedPackets<'_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), Fault> {
        // CAST: `u32` to `usize`, on 64 bits.
        self.copy_to_memory(from as usize, memory, at, len as usize)
            .map_err(Fault::Memory)
    }

    #[inline]
    fn read(&self, from: u32, to: &mut [u8]) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        self.first().copy(from as usize, to)
    }
}

/// What payload is appended to.
pub(crate) trait PayloadSink {
    /// Appends `len` bytes at `offset` of `memory`.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: a page is absent. Else there is no room, or the memory ends before.
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result;

    /// Appends bytes that stand in the kernel.
    ///
    /// # Errors
    ///
    /// There is no room.
    fn append_bytes(&mut self, bytes: &[u8]) -> Result;
}
