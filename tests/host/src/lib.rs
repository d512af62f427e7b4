// SPDX-License-Identifier: GPL-2.0

//! What the tests of the protocol crate share. The tests themselves are in `tests/`.
//!
//! Independent opinions about the wire ([`oracle`]), packets written by hand ([`vectors`]), a CRC
//! for the host ([`crc`]), and the bodies of the fuzz targets ([`fuzz`]), which run for a bounded
//! time as tests too.

pub mod crc;
pub mod end;
pub mod fuzz;
pub mod hex;
pub mod memory;
pub mod net;
pub mod oracle;
pub mod pair;
pub mod pcap;
pub mod random;
pub mod scenario;
pub mod unreliable;
pub mod vectors;
