// SPDX-License-Identifier: GPL-2.0

//! Generated declarations of the C interfaces, for this crate only.
//!
//! Holds what the kernel's own bindings crate lacks; types that it knows whole are its own
//! (`rust/bindgen.mk`). Beware of the few that it knows only by name, `net_device` and `sock`
//! among them: a pointer to one that comes from the kernel crate must be cast.

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

// The kernel's bindgen parameters leave these to us.
type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(env!("FERROCE_BINDINGS"));
