// SPDX-License-Identifier: GPL-2.0

//! What the protocols between threads, and with the kernel, are made of. The models of `tests/loom` have a file of
//! their own in the place of this one.

pub(crate) use core::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{
        fence,
        AtomicBool,
        AtomicU32,
        AtomicU64,
        Ordering, //
    },
};
