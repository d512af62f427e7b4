// SPDX-License-Identifier: GPL-2.0

//! The full memory barrier: since 7.3, its kind is an argument.

/// Orders all earlier memory accesses before all later ones (`smp_mb()`).
#[inline]
pub(crate) fn smp_mb() {
    #[cfg(has_typed_barrier)]
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Full);
    #[cfg(not(has_typed_barrier))]
    kernel::sync::barrier::smp_mb();
}
