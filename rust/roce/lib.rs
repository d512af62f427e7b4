// SPDX-License-Identifier: GPL-2.0

//! The RoCEv2 transport as a sans-IO library: no I/O, no allocation, no clock.
//!
//! Time is an argument. Memory is described and never touched: where bytes must move, the caller passes a context whose
//! methods this crate calls ([`recv_context`], [`rc::requester::ResponseContext`]). Nothing here prints or locks.
//! Kbuild compiles these files into the module, and Cargo compiles them for the tests on the host.
//!
//! Modules, bottom up; each uses only those before it:
//!
//! - values: [`num`], [`psn`], [`id`], [`time`], [`status`];
//! - [`wire`]: parsing and building packets, ICRC;
//! - [`access`], [`wr`], [`bind`]: access rights, work requests, memory windows; [`pma`]: port counters by MAD;
//! - [`segmentation`]: messages to packets and back; [`ud`]: datagrams;
//! - [`recv_context`], [`congestion`]: the callbacks of a receiver, and how much may be in flight; [`impair`]: faults
//!   for tests;
//! - [`rc`], [`uc`]: the reliable and the unreliable connection;
//! - [`qp`]: the states of a queue pair.
//!
//! No path in this crate may panic: a remote peer chooses the bytes, and a panic in the kernel stops the machine. The
//! lints below reject the operations that could.

#![crate_name = "roce"]
#![cfg_attr(not(MODULE), no_std)] // Kbuild already passes it.
#![forbid(unsafe_code)]
#![deny(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        reason = "a test that panics has done its duty"
    )
)]

pub mod access;
pub mod bind;
pub mod congestion;
pub mod id;
pub mod impair;
pub mod message;
pub mod num;
pub mod pma;
pub mod psn;
pub mod qp;
pub mod rc;
pub mod recv_context;
pub mod segmentation;
pub mod status;
pub mod time;
pub mod uc;
pub mod ud;
pub mod wake;
pub mod wire;
pub mod wr;
