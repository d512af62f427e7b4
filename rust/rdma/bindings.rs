// SPDX-License-Identifier: GPL-2.0

//! Generated declarations of C interfaces that the kernel's own bindings crate lacks, for this crate only.
//!
//! Types that the kernel's bindings define completely are re-used from there (`rust/bindgen.mk`). The kernel's bindings
//! declare some types without fields, for example `net_device` and `sock`, and this crate defines these itself: cast a
//! pointer to one that comes from the kernel crate.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ptr_cast_constness,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports,
    reason = "generated code"
)]

use kernel::ffi;
use pin_init::MaybeZeroable;

// The kernel's bindgen parameters block these types.
type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(env!("FERROCE_BINDINGS"));
