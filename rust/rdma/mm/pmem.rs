// SPDX-License-Identifier: GPL-2.0

//! Memory that keeps its bytes when power is lost.
//!
//! Owns which pages are such memory, and writing the processors' caches back to them. Does not know who
//! wants it, nor which bytes are worth it.
//!
//! C headers: [`include/linux/ioport.h`](srctree/include/linux/ioport.h),
//! [`include/linux/libnvdimm.h`](srctree/include/linux/libnvdimm.h)

use crate::bindings;
use kernel::prelude::*;

/// What the firmware, or the command line of the kernel, calls persistent.
const KINDS: [u32; 2] = [
    bindings::IORES_DESC_PERSISTENT_MEMORY,
    bindings::IORES_DESC_PERSISTENT_MEMORY_LEGACY,
];

/// Whether all of `len` bytes at `address`, which are in one run of memory, are persistent. Not in
/// softirq: the lock of the kernel's list of memory does not keep it away.
pub(super) fn is_persistent(address: *const u8, len: usize) -> bool {
    // SAFETY: Arithmetic on an address of the kernel's map of all memory, which every page has.
    let start = unsafe { bindings::ferroce_helper_virt_to_phys(address.cast()) };
    // CAST: Flags and an enum, as C has them.
    let (memory, whole) = (
        bindings::IORESOURCE_MEM as usize,
        bindings::REGION_INTERSECTS as c_int,
    );
    KINDS.into_iter().any(|kind| {
        // SAFETY: A look at a list, for any range. It has its own lock.
        whole == unsafe { bindings::region_intersects(start, len, memory, kind as usize) }
    })
}
