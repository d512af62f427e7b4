// SPDX-License-Identifier: GPL-2.0

//! Packet formats: bytes to values and back.
//!
//! The contract: [`packet::Packet::parse`] looks at the bytes once and either gives a packet or
//! the reason to drop it. What it gave, its accessors read without being able to fail. It judges
//! form only; whether a packet makes sense to a QP is for the QP to say.
//!
//! The other way, [`emit::Headers`] writes the headers of one packet; it cannot fail either, and
//! whatever it writes, `parse` takes.
//!
//! Everything on the wire is big endian; everything in the value types is in host order, except
//! immediate data, which nobody here interprets.
//!
//! Known are the services RC, UC and UD and the congestion notification. RD and XRC are left out,
//! as no QP of these types can exist here: their opcodes are unknown ones.

pub mod aeth;
pub mod bth;
pub mod emit;
pub mod ext;
pub mod header;
pub mod icrc;
pub mod ip;
pub mod opcode;
pub mod packet;
