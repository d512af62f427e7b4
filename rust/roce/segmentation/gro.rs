// SPDX-License-Identifier: GPL-2.0

//! Which received packets the kernel's GRO may join to one buffer. They stay packets, each with its own headers and
//! ICRC; only the stack handles them together.
//!
//! The requests and the responses that a QP receives are two streams: packets of one never wait for the other.

use crate::{
    id::Qpn,
    psn::Psn,
    wire::{
        bth::{
            Bth,
            BTH_LEN, //
        },
        opcode::{
            Opcode,
            Operation,
            Service, //
        }, //
    }, //
};
use zerocopy::FromBytes;

/// What the BTH of a received packet says about joining it. The ICRC is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct GroHeader {
    opcode: Opcode,
    qpn: Qpn,
    psn: Psn,
    ack_request: bool,
}

impl GroHeader {
    /// Reads a BTH. `None` if the packet belongs to no stream.
    #[inline]
    #[must_use]
    pub fn parse(bth: &[u8; BTH_LEN]) -> Option<Self> {
        let bth = Bth::ref_from_bytes(bth).ok()?;
        let opcode = Opcode::from_byte(bth.opcode())?;
        let connected = !matches!(opcode.service(), Service::Ud | Service::Cnp);
        connected.then(|| Self {
            opcode,
            qpn: bth.dest_qpn(),
            psn: bth.psn(),
            ack_request: bth.ack_request(),
        })
    }

    /// Returns whether both packets are of one stream, whose order must be kept.
    #[inline]
    #[must_use]
    pub fn is_same_stream(&self, other: &Self) -> bool {
        self.qpn == other.qpn && self.opcode.is_request() == other.opcode.is_request()
    }

    /// Returns whether the packet may be joined to others: it has one PSN, and a message or a response may need more
    /// of its kind.
    #[inline]
    #[must_use]
    pub fn can_join(&self) -> bool {
        matches!(
            self.opcode.operation(),
            Operation::Send
                | Operation::SendInvalidate
                | Operation::RdmaWrite
                | Operation::ReadResponse
        )
    }

    /// Returns whether the packet may be joined behind `last`.
    #[inline]
    #[must_use]
    pub fn follows(&self, last: &Self) -> bool {
        self.can_join()
            && last.can_join()
            && self.is_same_stream(last)
            && self.opcode.service() == last.opcode.service()
            && self.psn == last.psn.next()
    }

    /// Returns whether the peer waits for the answer to this packet, so that the packet must not wait for others.
    #[inline]
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.ack_request
    }
}

#[cfg(test)]
mod tests;
