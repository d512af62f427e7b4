// SPDX-License-Identifier: GPL-2.0

//! The QP state machine, and the widths of attributes.
//!
//! [`state`] holds the states and the legal transitions. The engines of a QP are separate state
//! machines, see [`rc`](crate::rc) and [`uc`](crate::uc); a transition lists the action of each.
//! The caller applies them.

pub mod field;
pub mod state;
