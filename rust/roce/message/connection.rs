// SPDX-License-Identifier: GPL-2.0

//! What all packets that a QP sends to its peer share.

use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    wire::{
        aeth::Aeth,
        emit::Headers,
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        }, //
    }, //
};

/// The connection of a QP.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The service.
    pub service: Service,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Partition key to send.
    pub pkey: Pkey,
}

impl Connection {
    /// Returns a connection with the default partition key.
    #[must_use]
    pub const fn new(service: Service, dest_qpn: Qpn) -> Self {
        Self {
            service,
            dest_qpn,
            pkey: Pkey::DEFAULT,
        }
    }

    /// Starts the headers of a packet, see [`Opcode::of`].
    #[inline]
    pub(crate) fn headers(
        &self,
        operation: Operation,
        position: Position,
        imm: bool,
        psn: Psn,
    ) -> Option<Headers> {
        let opcode = Opcode::of(self.service, operation, position, imm)?;
        Some(Headers::new(opcode, self.pkey, self.dest_qpn, psn))
    }

    /// Returns the headers of an ACK, NAK or RNR NAK.
    #[inline]
    #[must_use]
    pub fn ack(&self, psn: Psn, aeth: Aeth) -> Headers {
        let opcode = Opcode::acknowledge(self.service);
        Headers::new(opcode, self.pkey, self.dest_qpn, psn).aeth(aeth)
    }
}
