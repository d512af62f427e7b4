// SPDX-License-Identifier: GPL-2.0

//! Shared code of the tests of the protocol crate. The tests are in `tests/`.
//!
//! [`host`], [`pair`] and [`net`] connect two RC QPs over a simulated network, [`scenario`] drives
//! them; [`adapter`] models the QP of an RDMA adapter as a peer; [`unreliable`] connects a UC sender
//! and receiver; [`bottleneck`] has several requesters share a queue. [`spec`] implements the wire
//! format a second time, [`vectors`] holds handwritten packets, [`crc`] a CRC-32, and [`fuzz`] the
//! bodies of the fuzz targets, which also run as tests.

pub mod adapter;
pub mod bottleneck;
pub mod crc;
pub mod fuzz;
pub mod hex;
pub mod host;
pub mod memory;
pub mod net;
pub mod pair;
pub mod pcap;
pub mod random;
pub mod scenario;
pub mod spec;
pub mod unreliable;
pub mod vectors;
