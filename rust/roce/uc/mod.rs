// SPDX-License-Identifier: GPL-2.0

//! The unreliable connection (UC) transport: the unacknowledged counterpart of [`rc`](crate::rc).
//!
//! [`sender::UcSender`] divides messages into packets; a request completes when its last packet is
//! planned. [`receiver::UcReceiver`] reassembles messages and delivers each completely or not at
//! all. They share no state.
//!
//! IBA: section 9.8, unreliable service. Imports only modules listed before `uc` in
//! `scripts/checks/layers`; in particular not `rc` or `qp`.

pub mod receiver;
pub mod sender;

#[cfg(test)]
mod testing;
