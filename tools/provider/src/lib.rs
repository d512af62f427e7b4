// SPDX-License-Identifier: GPL-2.0

//! ferroce's own provider of libibverbs: it speaks the ABI of `include/uapi/rdma/ferroce-abi.h`.
//!
//! One library serves all releases of libibverbs whose private interface it knows: it is linked with none of them,
//! and finds their functions when it is loaded. `abi` holds layouts, `ffi` all that C sees or that calls C, and the
//! only `unsafe`. The other modules are plain Rust, which the host's tests compile, too.

#![cfg_attr(not(test), no_std)]
// The host's tests have no libibverbs that would call most of this.
#![cfg_attr(test, allow(dead_code))]
#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod abi;
mod ah;
mod comp_cntr;
mod context;
mod cq;
mod cqe;
mod device;
mod doorbell;
mod errno;
#[allow(unsafe_code)]
mod ffi;
mod mr;
mod pd;
mod post;
mod qp;
mod ring;
mod srq;
mod sync;
mod wqe;
mod xrcd;
