// SPDX-License-Identifier: GPL-2.0

//! Allocation flags for memory whose size a user chooses.
//!
//! C header: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h)

use kernel::alloc::{
    flags::{
        GFP_KERNEL_ACCOUNT,
        __GFP_NOWARN, //
    },
    Flags, //
};

/// Returns flags for memory that user space causes the kernel to allocate.
///
/// The memory is charged to the user's memory cgroup. A failure is not logged, because a user can reach its
/// limit as often as it likes. The allocation may sleep.
#[inline]
pub fn gfp_user() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}
