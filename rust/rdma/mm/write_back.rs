// SPDX-License-Identifier: GPL-2.0

//! Writing the processors' caches back to persistent memory.
//!
//! C header: [`include/linux/libnvdimm.h`](srctree/include/linux/libnvdimm.h)

use crate::{
    bindings,
    mm::memory::Memory, //
};
use kernel::prelude::*;

impl Memory {
    /// Writes the cached contents of `len` bytes at `offset` back to persistent memory. The data is
    /// persistent when this returns. For any context.
    ///
    /// # Errors
    ///
    /// - `EACCES`: the memory was not registered as persistent memory.
    /// - `EFAULT`: the range ends beyond the memory.
    pub fn write_back(&self, offset: u64, len: usize) -> Result {
        if !matches!(self, Self::User(umem) if umem.persistent) {
            return Err(EACCES);
        }
        self.for_each_piece(offset, len, false, |start, len| {
            // SAFETY: The piece is present until the closure returns, and in pages with a kernel address.
            // Writing a cache line back changes no byte.
            unsafe { bindings::ferroce_helper_arch_wb_cache_pmem(start.cast(), len) };
            Ok(())
        })?;
        // SAFETY: A barrier has no preconditions.
        unsafe { bindings::ferroce_helper_pmem_wmb() };
        Ok(())
    }
}
