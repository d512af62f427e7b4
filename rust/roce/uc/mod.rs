// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections (UC): messages of any length to one peer, which answers nothing.
//!
//! Two machines that share nothing: [`sender::UcSender`] cuts messages into packets, and is done with
//! each when its last packet was planned; [`receiver::UcReceiver`] puts them together, and delivers a
//! message whole or not at all.
//!
//! IBA: section 9.8, unreliable service.

pub mod receiver;
pub mod sender;

#[cfg(test)]
mod testing;
