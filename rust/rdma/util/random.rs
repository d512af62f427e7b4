// SPDX-License-Identifier: GPL-2.0

//! Unpredictable random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::bindings;

/// Returns 32 random bits from the kernel's CSPRNG. For any context.
pub fn u32() -> u32 {
    // SAFETY: `get_random_u32` has no preconditions.
    unsafe { bindings::get_random_u32() }
}
