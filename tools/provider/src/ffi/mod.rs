// SPDX-License-Identifier: GPL-2.0

//! All that C sees, and that calls C: the only place with `unsafe`.
//!
//! `c` has the types of libibverbs, `symbols` its functions and `cmd` safe wrappers of them, `libc` the same of libc.
//! `memory`, `lock` and `object` are what the other modules build on. `entry` registers the library; `ops`, `builder`
//! and `polling` are the functions that it hands out. They turn the pointers of C into references, under the contract
//! of libibverbs, which every caller of a verb keeps: objects are valid until they are destroyed, and are
//! not used while they are destroyed.

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64"
)))]
compile_error!("the layouts in `c` are those of x86-64 and arm64");

pub(crate) mod attr;
mod builder;
pub(crate) mod c;
pub(crate) mod cmd;
mod comp_cntr_ops;
mod entry;
mod layouts;
pub(crate) mod libc;
pub(crate) mod lock;
pub(crate) mod memory;
mod memory_ops;
pub(crate) mod object;
mod ops;
mod polling;
mod symbols;
pub(crate) mod wr;
