// SPDX-License-Identifier: GPL-2.0

//! The opcode table: service, operation, position in the message and headers of each opcode.
//!
//! IBA: opcode table of the Base Transport Header. C: `rdma/ib_pack.h`.

use super::header::{
    Header,
    HeaderSet, //
};
use crate::num::u8_as_usize;

/// The transport service of an opcode: its upper three bits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection (annex A14).
    Xrc,
    /// Congestion notification. It belongs to no transport service.
    Cnp,
}

impl Service {
    /// Returns the upper three bits of the opcodes of this service, at their position in the byte.
    const fn bits(self) -> u8 {
        match self {
            Self::Rc => 0x00,
            Self::Uc => 0x20,
            Self::Ud => 0x60,
            Self::Xrc => 0xa0,
            Self::Cnp => 0x80,
        }
    }
}

/// The operation that a packet belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// A message to a receive that the peer has posted.
    Send,
    /// A SEND that also invalidates a key of the receiver. Shown only by the last packet.
    SendInvalidate,
    /// A message to memory that the sender specifies.
    RdmaWrite,
    /// A request to read memory.
    ReadRequest,
    /// The requested memory; also the response to [`Operation::Flush`] and
    /// [`Operation::AtomicWrite`].
    ReadResponse,
    /// An ACK, NAK or RNR NAK.
    Acknowledge,
    /// The response to [`Operation::CompareSwap`] and [`Operation::FetchAdd`].
    AtomicAcknowledge,
    /// A 64-bit compare and swap.
    CompareSwap,
    /// A 64-bit addition.
    FetchAdd,
    /// A request to make earlier writes globally visible or persistent.
    Flush,
    /// An atomic 64-bit write.
    AtomicWrite,
    /// A congestion notification.
    Cnp,
    /// A reserved opcode of a service that answers all its requests. It names a request that the responder cannot
    /// execute. No message contains it.
    Reserved,
}

/// The position of a packet in its message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Returns the position of packets that include the first or last packet of a message.
    #[inline]
    #[must_use]
    pub const fn of(starts: bool, ends: bool) -> Self {
        match (starts, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, false) => Self::Middle,
            (false, true) => Self::Last,
        }
    }
}

/// Returns an opcode from the table; an unknown byte does not compile. A function would put the
/// panic into the module.
macro_rules! known_opcode {
    ($byte:literal) => {
        match describe($byte) {
            Some(opcode) => opcode,
            None => panic!("unknown opcode"),
        }
    };
}

/// An opcode of a supported service, and its properties.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Opcode {
    byte: u8,
    service: Service,
    operation: Operation,
    position: Position,
    headers: HeaderSet,
    payload: bool,
}

impl Opcode {
    /// RC acknowledgement.
    pub const RC_ACKNOWLEDGE: Self = known_opcode!(0x11);

    /// RC atomic acknowledgement.
    pub const RC_ATOMIC_ACKNOWLEDGE: Self = known_opcode!(0x12);

    /// RC read response of one packet.
    pub const RC_READ_RESPONSE_ONLY: Self = known_opcode!(0x10);

    /// RC read request.
    pub const RC_READ_REQUEST: Self = known_opcode!(0x0c);

    /// Congestion notification.
    pub const CNP: Self = known_opcode!(0x81);

    /// Returns the opcode of an acknowledgement of a reliable service.
    #[inline]
    #[must_use]
    pub(crate) const fn acknowledge(service: Service) -> Self {
        Self {
            byte: service.bits() | Self::RC_ACKNOWLEDGE.byte,
            service,
            ..Self::RC_ACKNOWLEDGE
        }
    }

    /// Returns the opcode of a received byte; `None` if the byte belongs to an unsupported service, or is reserved in
    /// an unreliable one. A reserved byte of RC or XRC is the opcode of [`Operation::Reserved`], without extension
    /// headers.
    #[inline]
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        TABLE.get(usize::from(byte)).copied().flatten()
    }

    /// Returns the opcode of one packet of a message; `None` if the service or operation has no
    /// such packet.
    ///
    /// `operation` and `imm` describe the message. Only its last packet shows whether it has
    /// immediate data or invalidates a key; the opcodes of the other packets are the same.
    #[must_use]
    pub fn of(
        service: Service,
        operation: Operation,
        position: Position,
        imm: bool,
    ) -> Option<Self> {
        let low = match (operation, position, imm) {
            (Operation::SendInvalidate, _, true) => return None,
            (Operation::Send | Operation::SendInvalidate, Position::First, _) => 0x00,
            (Operation::Send | Operation::SendInvalidate, Position::Middle, _) => 0x01,
            (Operation::Send, Position::Last, false) => 0x02,
            (Operation::Send, Position::Last, true) => 0x03,
            (Operation::Send, Position::Only, false) => 0x04,
            (Operation::Send, Position::Only, true) => 0x05,
            (Operation::RdmaWrite, Position::First, _) => 0x06,
            (Operation::RdmaWrite, Position::Middle, _) => 0x07,
            (Operation::RdmaWrite, Position::Last, false) => 0x08,
            (Operation::RdmaWrite, Position::Last, true) => 0x09,
            (Operation::RdmaWrite, Position::Only, false) => 0x0a,
            (Operation::RdmaWrite, Position::Only, true) => 0x0b,
            (Operation::ReadRequest, Position::Only, false) => 0x0c,
            (Operation::ReadResponse, Position::First, false) => 0x0d,
            (Operation::ReadResponse, Position::Middle, false) => 0x0e,
            (Operation::ReadResponse, Position::Last, false) => 0x0f,
            (Operation::ReadResponse, Position::Only, false) => 0x10,
            (Operation::Acknowledge, Position::Only, false) => 0x11,
            (Operation::AtomicAcknowledge, Position::Only, false) => 0x12,
            (Operation::CompareSwap, Position::Only, false) => 0x13,
            (Operation::FetchAdd, Position::Only, false) => 0x14,
            (Operation::SendInvalidate, Position::Last, false) => 0x16,
            (Operation::SendInvalidate, Position::Only, false) => 0x17,
            (Operation::Flush, Position::Only, false) => 0x1c,
            (Operation::AtomicWrite, Position::Only, false) => 0x1d,
            (Operation::Cnp, Position::Only, false) => 0x01,
            _ => return None,
        };
        // A congestion notification has the same low bits as another operation.
        if (operation == Operation::Cnp) != (service == Service::Cnp) {
            return None;
        }
        Self::from_byte(service.bits() | low)
    }

    /// Returns the opcode byte.
    #[inline]
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.byte
    }

    /// Returns the service.
    #[inline]
    #[must_use]
    pub const fn service(self) -> Service {
        self.service
    }

    /// Returns the operation as far as this packet shows it, see [`Opcode::of`].
    #[inline]
    #[must_use]
    pub const fn operation(self) -> Operation {
        self.operation
    }

    /// Returns the position of the packet in its message.
    #[inline]
    #[must_use]
    pub const fn position(self) -> Position {
        self.position
    }

    /// Returns whether the packet is the first or only one of its message.
    #[inline]
    #[must_use]
    pub const fn starts_message(self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// Returns whether the packet is the last or only one of its message.
    #[inline]
    #[must_use]
    pub const fn ends_message(self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// Returns the extension headers between BTH and payload.
    #[inline]
    #[must_use]
    pub const fn headers(self) -> HeaderSet {
        self.headers
    }

    /// Returns whether the packet carries immediate data.
    #[inline]
    #[must_use]
    pub const fn has_imm(self) -> bool {
        self.headers.contains(Header::ImmDt)
    }

    /// Returns whether the packet may carry payload. The parser accepts unexpected payload; the QP
    /// decides how to handle it.
    #[inline]
    #[must_use]
    pub const fn has_payload(self) -> bool {
        self.payload
    }

    /// Returns whether the packet is for a responder.
    #[inline]
    #[must_use]
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self.operation, Operation::Cnp)
    }

    /// Returns whether the sender can send fewer of these packets: requests and payload. Not so acknowledgements, which
    /// answer what others send, and congestion notifications.
    #[inline]
    #[must_use]
    pub const fn is_paced(self) -> bool {
        self.is_request() || self.payload
    }

    /// Returns whether the packet is for a requester.
    #[inline]
    #[must_use]
    pub const fn is_response(self) -> bool {
        is_response(self.operation)
    }
}

#[inline]
const fn is_response(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
    )
}

/// The properties of every opcode byte.
static TABLE: [Option<Opcode>; 256] = table();

/// Builds [`TABLE`].
#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "evaluated at compile time only"
)]
const fn table() -> [Option<Opcode>; 256] {
    let mut table = [None; 256];
    let mut byte = 0;
    loop {
        table[u8_as_usize(byte)] = describe(byte);
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

/// Returns the properties of an opcode byte.
#[inline]
const fn describe(byte: u8) -> Option<Opcode> {
    let low = byte & 0x1f;
    let service = match byte & 0xe0 {
        0x00 => Service::Rc,
        0x20 if low <= 0x0b => Service::Uc,
        0x60 if low == 0x04 || low == 0x05 => Service::Ud,
        0x80 if low == 0x01 => return Some(CNP),
        0xa0 => Service::Xrc,
        _ => return None,
    };
    let (operation, position, headers, payload) = match (describe_low_bits(low), service) {
        (Some(described), _) => described,
        (None, Service::Rc | Service::Xrc) => return Some(reserved(byte, service)),
        (None, _) => return None,
    };
    let headers = match service {
        Service::Ud => headers.with(Header::Deth),
        // All requests have an XRCETH, also those that use no receive: its SRQ has the PD of the access. Responses have
        // none. So it is in annex A14, in the hardware model of open-rdma, and in the XRC patches for rdma_rxe of 2022.
        Service::Xrc if !is_response(operation) => headers.with(Header::Xrceth),
        _ => headers,
    };
    Some(Opcode {
        byte,
        service,
        operation,
        position,
        headers,
        payload,
    })
}

/// Returns a reserved opcode.
const fn reserved(byte: u8, service: Service) -> Opcode {
    Opcode {
        byte,
        service,
        operation: Operation::Reserved,
        position: Position::Only,
        headers: HeaderSet::EMPTY,
        payload: true,
    }
}

/// The only opcode of congestion notifications.
const CNP: Opcode = Opcode {
    byte: 0x81,
    service: Service::Cnp,
    operation: Operation::Cnp,
    position: Position::Only,
    headers: HeaderSet::EMPTY.with(Header::CnpReserved),
    payload: false,
};

/// Returns operation, position, headers and whether payload is allowed for the low five bits of an
/// opcode. They mean the same in every service that has them.
#[inline]
const fn describe_low_bits(low: u8) -> Option<(Operation, Position, HeaderSet, bool)> {
    use Header::*;
    use Operation::*;
    use Position::*;

    const NONE: HeaderSet = HeaderSet::EMPTY;
    const RETH: HeaderSet = NONE.with(Reth);
    const AETH: HeaderSet = NONE.with(Aeth);

    Some(match low {
        0x00 => (Send, First, NONE, true),
        0x01 => (Send, Middle, NONE, true),
        0x02 => (Send, Last, NONE, true),
        0x03 => (Send, Last, NONE.with(ImmDt), true),
        0x04 => (Send, Only, NONE, true),
        0x05 => (Send, Only, NONE.with(ImmDt), true),
        0x06 => (RdmaWrite, First, RETH, true),
        0x07 => (RdmaWrite, Middle, NONE, true),
        0x08 => (RdmaWrite, Last, NONE, true),
        0x09 => (RdmaWrite, Last, NONE.with(ImmDt), true),
        0x0a => (RdmaWrite, Only, RETH, true),
        0x0b => (RdmaWrite, Only, RETH.with(ImmDt), true),
        0x0c => (ReadRequest, Only, RETH, false),
        0x0d => (ReadResponse, First, AETH, true),
        0x0e => (ReadResponse, Middle, NONE, true),
        0x0f => (ReadResponse, Last, AETH, true),
        0x10 => (ReadResponse, Only, AETH, true),
        0x11 => (Acknowledge, Only, AETH, false),
        0x12 => (AtomicAcknowledge, Only, AETH.with(AtomicAckEth), false),
        0x13 => (CompareSwap, Only, NONE.with(AtomicEth), false),
        0x14 => (FetchAdd, Only, NONE.with(AtomicEth), false),
        0x16 => (SendInvalidate, Last, NONE.with(Ieth), true),
        0x17 => (SendInvalidate, Only, NONE.with(Ieth), true),
        0x1c => (Flush, Only, RETH.with(Feth), false),
        0x1d => (AtomicWrite, Only, RETH, true),
        _ => return None,
    })
}
