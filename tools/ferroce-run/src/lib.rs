// SPDX-License-Identifier: GPL-2.0

//! The sandbox: a user-mode kernel with ferroce, on the caller's own file system.
//!
//! [`host`] is `ferroce-run`, which starts one such machine or several and stands between them and its caller.
//! [`guest`] is the first process of a machine. They talk over [`channel`].

#![forbid(unsafe_code)]

pub mod channel;
pub mod guest;
pub mod host;
mod threads;
