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
    /// Writes what caches hold of `len` bytes at `offset` back to memory that is persistent. It is safe when
    /// this returns. For any context.
    ///
    /// # Errors
    ///
    /// `EACCES`: it was not registered as such memory; `EFAULT`: it ends before.
    pub fn write_back(&self, offset: u64, len: usize) -> Result {
        if !matches!(self, Self::User(umem) if umem.persistent) {
            return Err(EACCES);
        }
        self.each(offset, len, false, |start, len| {
            // SAFETY: The piece is there. No byte of it changes.
            unsafe { bindings::ferroce_helper_arch_wb_cache_pmem(start.cast(), len) };
            Ok(())
        })?;
        // SAFETY: A barrier.
        unsafe { bindings::ferroce_helper_pmem_wmb() };
        Ok(())
    }
}
