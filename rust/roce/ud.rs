// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams (UD): one message is one unacknowledged packet.
//!
//! Builds the headers of a datagram and checks received ones. Stateless: the caller counts the PSN,
//! which receivers ignore.

use crate::{
    id::{
        Pkey,
        Qkey,
        Qpn, //
    },
    psn::Psn,
    status::DropReason,
    wire::{
        emit::Headers,
        ext::{
            Deth,
            ImmDt, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::Packet, //
    },
    wr::Imm, //
};

/// Space before the payload in a receive buffer, in bytes: the GRH, or the IP header in its place.
pub const GRH_LEN: u32 = 40;

/// A send WR for a datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DatagramWr {
    /// Identifier from the consumer.
    pub wr_id: u64,
    /// Destination QP.
    pub remote_qpn: Qpn,
    /// Q_Key of the destination.
    pub remote_qkey: Qkey,
    /// Immediate data.
    pub imm: Option<Imm>,
    /// Payload length in bytes.
    pub length: u32,
    /// Whether success generates a completion.
    pub signaled: bool,
    /// Whether to request a completion event at the receiver.
    pub solicited: bool,
}

/// The source QP of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdSender {
    /// QP number.
    pub qpn: Qpn,
    /// Q_Key of the QP.
    pub qkey: Qkey,
    /// P_Key.
    pub pkey: Pkey,
}

/// Returns the headers of datagram `wr`. Never `None`: the opcodes exist.
///
/// A Q_Key in the WR with the highest bit set is replaced by the Q_Key of the sending QP.
#[must_use]
pub fn headers(wr: &DatagramWr, from: UdSender, psn: Psn) -> Option<Headers> {
    let imm = wr.imm.is_some();
    let opcode = Opcode::of(Service::Ud, Operation::Send, Position::Only, imm)?;
    let qkey = if wr.remote_qkey.is_privileged() {
        from.qkey
    } else {
        wr.remote_qkey
    };
    let headers = Headers::new(opcode, from.pkey, wr.remote_qpn, psn)
        .solicited(wr.solicited)
        .deth(Deth {
            qkey,
            src_qpn: from.qpn,
        });
    Some(match wr.imm {
        Some(Imm(bytes)) => headers.imm(ImmDt(bytes)),
        None => headers,
    })
}

/// Checks that a packet is a datagram with the Q_Key `qkey`. Returns the source QP.
///
/// # Errors
///
/// [`DropReason::WrongService`], or [`DropReason::BadQkey`].
pub fn check_qkey(packet: &Packet<'_>, qkey: Qkey) -> Result<Qpn, DropReason> {
    if packet.opcode().service() != Service::Ud {
        return Err(DropReason::WrongService);
    }
    let deth = packet.deth().ok_or(DropReason::WrongService)?;
    if deth.qkey != qkey {
        return Err(DropReason::BadQkey);
    }
    Ok(deth.src_qpn)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: UdSender = UdSender {
        qpn: Qpn::new(0x12),
        qkey: Qkey::new(0x8001_0000),
        pkey: Pkey::DEFAULT,
    };

    fn wr(qkey: u32, imm: Option<Imm>) -> DatagramWr {
        DatagramWr {
            wr_id: 1,
            remote_qpn: Qpn::new(0x345),
            remote_qkey: Qkey::new(qkey),
            imm,
            length: 5,
            signaled: true,
            solicited: true,
        }
    }

    /// A packet whose payload and ICRC are zeros, and its length.
    fn sent(wr: &DatagramWr) -> ([u8; 64], usize) {
        let headers = headers(wr, FROM, Psn::new(7)).unwrap().emit(5);
        let mut bytes = [0; 64];
        bytes[..headers.len()].copy_from_slice(headers.as_slice());
        (bytes, headers.len() + 5 + 3 + 4)
    }

    #[test]
    fn a_datagram_carries_its_source_qp_and_q_key() {
        let (bytes, len) = sent(&wr(0x1111, None));
        let packet = Packet::parse(&bytes, len).unwrap();
        assert_eq!(packet.payload_len(), 5);
        assert_eq!(packet.dest_qpn(), Qpn::new(0x345));
        assert!(packet.solicited() && packet.imm().is_none());
        assert_eq!(check_qkey(&packet, Qkey::new(0x1111)), Ok(FROM.qpn));
        assert_eq!(
            check_qkey(&packet, Qkey::new(0x1112)),
            Err(DropReason::BadQkey)
        );
    }

    #[test]
    fn a_privileged_qkey_is_replaced_by_that_of_the_sending_qp() {
        let (bytes, len) = sent(&wr(0x8fff_ffff, None));
        let packet = Packet::parse(&bytes, len).unwrap();
        assert_eq!(check_qkey(&packet, FROM.qkey), Ok(FROM.qpn));
    }

    #[test]
    fn immediate_data_is_sent() {
        let (bytes, len) = sent(&wr(1, Some(Imm([1, 2, 3, 4]))));
        let packet = Packet::parse(&bytes, len).unwrap();
        assert_eq!(packet.imm(), Some(ImmDt([1, 2, 3, 4])));
    }

    #[test]
    fn a_packet_of_another_service_is_dropped() {
        let headers = Headers::new(Opcode::RC_READ_REQUEST, FROM.pkey, FROM.qpn, Psn::new(0));
        let headers = headers.emit(0);
        let packet = Packet::parse(headers.as_slice(), headers.len() + 4).unwrap();
        assert_eq!(
            check_qkey(&packet, FROM.qkey),
            Err(DropReason::WrongService)
        );
    }
}
