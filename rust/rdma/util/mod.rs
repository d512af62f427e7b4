// SPDX-License-Identifier: GPL-2.0

//! Small wrappers that the `kernel` crate lacks: allocation flags ([`alloc`]), CRC-32 ([`crc32`]), the exclusion of
//! another module ([`exclusion`]), random numbers ([`random`]).
//!
//! Used by every other folder of this crate and by the driver. May use nothing else of this crate.

pub mod alloc;
pub mod crc32;
pub mod exclusion;
pub mod random;
