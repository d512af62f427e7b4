// SPDX-License-Identifier: GPL-2.0

//! What launcher and machine say to each other.

pub mod job;
pub mod message;
pub mod stdin;
pub mod traffic;
