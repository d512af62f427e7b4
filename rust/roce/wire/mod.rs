// SPDX-License-Identifier: GPL-2.0

//! Packet formats of RoCEv2: bytes to values and back.
//!
//! [`packet::Packet::parse`] checks the form of a packet once and returns the packet or the reason
//! to drop it; the accessors cannot fail. The QP decides whether the packet is valid for it.
//! [`emit::Headers`] builds the headers of a packet; it cannot fail, and `parse` accepts its
//! output. [`bth`], [`aeth`] and [`ext`] hold the individual headers, [`header`] and [`opcode`] say
//! which headers a packet has, [`icrc`] and [`ip`] cover the ICRC.
//!
//! Wire formats are big endian. Value types are in host order, except immediate data, which stays
//! in wire order. RC, UC, UD, XRC and congestion notifications are supported; opcodes of RD are
//! unknown.
//!
//! May use: `num`, `psn`, `id` and `status`.

pub mod aeth;
pub mod bth;
pub mod emit;
pub mod ext;
pub mod header;
pub mod icrc;
pub mod ip;
pub mod opcode;
pub mod packet;
