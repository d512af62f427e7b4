// SPDX-License-Identifier: GPL-2.0

//! Memory regions and windows, the table of their keys, and access to the bytes behind them.
//!
//! May use: `abi`, `limits`.

pub(crate) mod access_request;
pub(crate) mod fast_reg;
pub(crate) mod flush;
pub(crate) mod key_table;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod page_fault;
pub(crate) mod payload;
pub(crate) mod pd;
pub(crate) mod sg_access;
pub(crate) mod sg_copy;
