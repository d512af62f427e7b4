// SPDX-License-Identifier: GPL-2.0

//! Parser of received packets. A [`Packet`] borrows the headers and holds offset and length of the
//! payload, which need not be contiguous and is not accessed.

use super::{
    aeth::Aeth,
    bth::Bth,
    emit::HeaderBuf,
    ext::{
        AtomicAckEth,
        AtomicEth,
        Deth,
        Extension,
        Feth,
        Ieth,
        ImmDt,
        Reth,
        Xrceth, //
    },
    header::BTH_LEN,
    icrc::ICRC_LEN,
    opcode::Opcode, //
};
use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    status::DropReason, //
};
use zerocopy::FromBytes as _;

pub use super::header::MAX_HEADERS_LEN;

/// Maximum length of a packet in bytes, from the BTH to the ICRC: that of the largest path MTU.
pub const MAX_PACKET_LEN: usize = MAX_HEADERS_LEN + 4096 + ICRC_LEN;

/// A well-formed packet, or a super-packet (see [`Packet::as_super_packet`]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    bth: &'a Bth,
    /// The extension headers of the opcode, no other bytes.
    extensions: &'a [u8],
    opcode: Opcode,
    payload_len: usize,
    packets: u32,
    ack_request: bool,
    solicited: bool,
}

impl<'a> Packet<'a> {
    /// Parses a packet.
    ///
    /// `bytes` starts at the BTH and holds at least the first [`MAX_HEADERS_LEN`] bytes of the UDP
    /// payload, or all of it if it is shorter; further bytes are ignored. `udp_payload_len` is the
    /// length from the BTH to the ICRC, inclusive.
    ///
    /// Pad and reserved bits are not checked for 0, and the length of the payload is not checked
    /// against the path MTU.
    ///
    /// # Errors
    ///
    /// - [`DropReason::TooShort`]: the packet is shorter than its headers and ICRC.
    /// - [`DropReason::UnknownOpcode`], [`DropReason::BadVersion`].
    /// - [`DropReason::BadPad`]: there are more pad bytes than payload bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8], udp_payload_len: usize) -> Result<Self, DropReason> {
        let bytes = bytes.get(..udp_payload_len).unwrap_or(bytes);
        let (bth, rest) = Bth::ref_from_prefix(bytes).map_err(|_| DropReason::TooShort)?;
        let opcode = Opcode::from_byte(bth.opcode()).ok_or(DropReason::UnknownOpcode)?;
        if bth.version() != 0 {
            return Err(DropReason::BadVersion);
        }
        let headers = opcode.headers().len();
        let extensions = rest.get(..headers).ok_or(DropReason::TooShort)?;
        let payload_len = udp_payload_len
            .checked_sub(BTH_LEN)
            .and_then(|len| len.checked_sub(headers))
            .and_then(|len| len.checked_sub(ICRC_LEN))
            .ok_or(DropReason::TooShort)?
            .checked_sub(usize::from(bth.pad()))
            .ok_or(DropReason::BadPad)?;
        Ok(Self::of_parts(bth, extensions, opcode, payload_len))
    }

    /// Returns the packet with these headers, which have `opcode`, and with `payload_len` bytes of payload.
    #[inline]
    pub(crate) fn with_headers(headers: &'a HeaderBuf, opcode: Opcode, payload_len: usize) -> Self {
        let (bth, extensions) = headers.parts();
        Self::of_parts(bth, extensions, opcode, payload_len)
    }

    #[inline]
    fn of_parts(bth: &'a Bth, extensions: &'a [u8], opcode: Opcode, payload_len: usize) -> Self {
        Self {
            bth,
            extensions,
            opcode,
            payload_len,
            packets: 1,
            ack_request: bth.ack_request(),
            solicited: bth.solicited(),
        }
    }

    /// Returns opcode and destination QP of a packet, from its first [`BTH_LEN`] bytes.
    ///
    /// # Errors
    ///
    /// [`DropReason::TooShort`], [`DropReason::UnknownOpcode`].
    #[inline]
    pub fn destination(bytes: &[u8]) -> Result<(Opcode, Qpn), DropReason> {
        let (bth, _) = Bth::ref_from_prefix(bytes).map_err(|_| DropReason::TooShort)?;
        let opcode = Opcode::from_byte(bth.opcode()).ok_or(DropReason::UnknownOpcode)?;
        Ok((opcode, bth.dest_qpn()))
    }

    /// Returns the packet as a super-packet of `packets` packets, at least one: see
    /// [`TxDesc`](crate::segmentation::tx_desc::TxDesc). Its PSN is that of the first packet.
    #[inline]
    #[must_use]
    pub const fn as_super_packet(self, packets: u32) -> Self {
        Self { packets, ..self }
    }

    /// Returns a copy of the headers.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> HeaderBuf {
        HeaderBuf::copy_of(self.bth, self.extensions)
    }

    /// Returns the number of packets, see [`gso`](crate::segmentation::gso).
    #[inline]
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Returns the opcode.
    #[inline]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Returns the PSN.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        self.bth.psn()
    }

    /// Returns the destination QP number.
    #[inline]
    #[must_use]
    pub fn dest_qpn(&self) -> Qpn {
        self.bth.dest_qpn()
    }

    /// Returns the partition key.
    #[inline]
    #[must_use]
    pub fn pkey(&self) -> Pkey {
        self.bth.pkey()
    }

    /// Returns the AckReq bit.
    #[inline]
    #[must_use]
    pub const fn ack_request(&self) -> bool {
        self.ack_request
    }

    /// Returns the solicited-event bit: the sender requests a completion event at the receiver.
    #[inline]
    #[must_use]
    pub const fn solicited(&self) -> bool {
        self.solicited
    }

    /// Returns the MigReq bit. It is ignored: rdma_rxe sends 0, adapters send 1.
    #[inline]
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.bth.migrated()
    }

    /// Returns the number of pad bytes between payload and ICRC, 0 to 3.
    #[inline]
    #[must_use]
    pub fn pad(&self) -> u8 {
        self.bth.pad()
    }

    /// Returns the BTH.
    #[inline]
    #[must_use]
    pub const fn bth(&self) -> &'a Bth {
        self.bth
    }

    /// Returns the RETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        self.extension()
    }

    /// Returns the AETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        self.extension()
    }

    /// Returns the DETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        self.extension()
    }

    /// Returns the XRCETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn xrceth(&self) -> Option<Xrceth> {
        self.extension()
    }

    /// Returns the immediate data, if the opcode has it.
    #[inline]
    #[must_use]
    pub fn imm(&self) -> Option<ImmDt> {
        self.extension()
    }

    /// Returns the IETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn ieth(&self) -> Option<Ieth> {
        self.extension()
    }

    /// Returns the AtomicETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.extension()
    }

    /// Returns the AtomicAckETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        self.extension()
    }

    /// Returns the FETH, if the opcode has one.
    #[inline]
    #[must_use]
    pub fn feth(&self) -> Option<Feth> {
        self.extension()
    }

    /// Returns the offset of the payload from the start of the BTH, in bytes. This is also the
    /// length of all headers, at most [`MAX_HEADERS_LEN`].
    #[inline]
    #[must_use]
    pub fn payload_offset(&self) -> usize {
        BTH_LEN.wrapping_add(self.extensions.len())
    }

    /// Returns the length of the payload in bytes, without pad bytes and ICRC.
    #[inline]
    #[must_use]
    pub const fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Returns the offset of the ICRC from the start of the BTH, in bytes.
    #[inline]
    #[must_use]
    pub fn icrc_offset(&self) -> usize {
        self.payload_offset()
            .wrapping_add(self.payload_len)
            .wrapping_add(usize::from(self.pad()))
    }

    /// Decodes an extension header.
    #[inline]
    fn extension<T: Extension>(&self) -> Option<T> {
        let offset = self.opcode.headers().offset(T::HEADER)?;
        let (layout, _) = T::Layout::read_from_prefix(self.extensions.get(offset..)?).ok()?;
        Some(T::decode(layout))
    }
}
