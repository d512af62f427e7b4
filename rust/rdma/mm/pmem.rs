// SPDX-License-Identifier: GPL-2.0

//! Detection of persistent memory.
//!
//! Called when a region with `IB_ACCESS_FLUSH_PERSISTENT` is registered, in process context.
//!
//! C header: [`include/linux/ioport.h`](srctree/include/linux/ioport.h)

use crate::bindings;
use kernel::prelude::*;

/// Resource descriptors that firmware or the kernel's command line give persistent memory.
const PMEM_DESCRIPTORS: [u32; 2] = [
    bindings::IORES_DESC_PERSISTENT_MEMORY,
    bindings::IORES_DESC_PERSISTENT_MEMORY_LEGACY,
];

/// Returns whether all of the `len` contiguous bytes at `address` are persistent memory. Not for softirq: the
/// lock of the kernel's resource list does not disable softirqs.
pub(super) fn is_persistent(address: *const u8, len: usize) -> bool {
    // SAFETY: The address is in the kernel's linear map, as that of every pinned page on 64 bits, so the
    // conversion is arithmetic.
    let start = unsafe { bindings::ferroce_helper_virt_to_phys(address.cast()) };
    // CAST: Flags and an enum, with the types that C uses.
    let (memory, all) = (
        bindings::IORESOURCE_MEM as usize,
        bindings::REGION_INTERSECTS as c_int,
    );
    PMEM_DESCRIPTORS.into_iter().any(|descriptor| {
        // SAFETY: `region_intersects` accepts any range. It reads the resource list under its own lock, which
        // this context may take.
        all == unsafe { bindings::region_intersects(start, len, memory, descriptor as usize) }
    })
}
