// SPDX-License-Identifier: GPL-2.0

//! Small things that the kernel crate lacks: allocation flags, CRC-32, random numbers.
//!
//! May use: nothing else of this crate.

pub mod alloc;
pub mod crc32;
pub mod random;
