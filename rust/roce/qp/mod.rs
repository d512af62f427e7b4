// SPDX-License-Identifier: GPL-2.0

//! The queue pair as a whole: what holds its two halves together.
//!
//! The halves themselves are owned apart (see [`rc`](crate::rc)); what is common to them is the
//! table of [`state`]s.

pub mod state;
