// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/ffi/mod.rs`. `program` stands for a program in C, with libibverbs below it.

#[path = "../../../../tools/provider/src/ffi/attr.rs"]
pub(crate) mod attr;
#[path = "../../../../tools/provider/src/ffi/c.rs"]
pub(crate) mod c;
pub(crate) mod cmd;
pub(crate) mod libc;
pub(crate) mod lock;
pub(crate) mod memory;
#[path = "../../../../tools/provider/src/ffi/object.rs"]
pub(crate) mod object;
pub(crate) mod program;
#[path = "../../../../tools/provider/src/ffi/lock.rs"]
pub(crate) mod spin_lock;
#[path = "../../../../tools/provider/src/ffi/wr.rs"]
pub(crate) mod wr;
