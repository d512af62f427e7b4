// SPDX-License-Identifier: GPL-2.0

//! The RoCEv2 transport, without I/O, without allocation and without a clock.
//!
//! Values in, values out. Time is an argument; memory is described and never touched; nothing
//! here prints, locks or calls back. The same files are compiled by Kbuild into the module and
//! by Cargo for the tests on the host.
//!
//! Layers, each of which knows only those above it in this list:
//!
//! - values: [`num`], [`psn`], [`id`], [`time`], [`status`];
//! - packets: [`wire`], which parses and emits headers and computes the ICRC;
//! - requests: [`wr`], what is asked for; [`access`] and [`bind`], which memory is whose;
//!   [`segment`], how a message is cut into packets;
//! - transports: [`rc`], the reliable connection;
//! - queue pairs: [`qp`];
//! - management: [`pma`], the counters of a port.
//!
//! No path in this crate may panic: a remote peer chooses the bytes, and a panic in the kernel
//! is a crash of the machine. The lints below keep out what could.

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
pub mod wire;
pub mod wr;
