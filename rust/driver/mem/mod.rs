// SPDX-License-Identifier: GPL-2.0

//! Memory regions and windows, the table of their keys, and access to the memory behind them.
//!
//! `key_table` finds an `Mr` (`mr`), `FastMr` (`fast_reg`) or `Mw` (`mw`) by its key, and checks the
//! `access_request` of a QP in the protection domain `pd`. `sg_access` copies between this memory and
//! `payload`. `page_fault` and `flush` defer the accesses that must sleep.
//! `sge` is the scatter/gather element.
//!
//! May use: `limits`.

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
pub(crate) mod sge;
