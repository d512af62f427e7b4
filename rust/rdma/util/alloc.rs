// SPDX-License-Identifier: GPL-2.0

//! How memory is allocated whose size a user chooses.
//!
//! C header: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h)

use kernel::alloc::{
    flags::{
        GFP_KERNEL_ACCOUNT,
        __GFP_NOWARN, //
    },
    Flags, //
};

/// Flags for memory that a user causes the kernel to use: charged to that user, and without a trace in the
/// log when there is none, as a user may exhaust what is granted to it as often as it likes. May sleep.
#[inline]
pub fn gfp_user() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}
