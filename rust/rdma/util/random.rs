// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::bindings;

/// 32 bits that nobody can guess. For any context.
pub fn u32() -> u32 {
    // SAFETY: No precondition.
    unsafe { bindings::get_random_u32() }
}
