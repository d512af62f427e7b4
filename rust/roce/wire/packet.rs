// SPDX-License-Identifier: GPL-2.0

//! A received packet, taken apart.
//!
//! Owns the checks of form. A [`Packet`] borrows the headers and describes the payload by place
//! and length; the payload itself may be anywhere and is never touched.

use super::{
    aeth::Aeth,
    bth::Bth,
    ext::{
        AtomicAckEth,
        AtomicEth,
        Deth,
        Extension,
        Feth,
        Ieth,
        ImmDt,
        Reth, //
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

pub use super::header::MAX_HEADERS;

/// Longest packet in bytes, from the BTH to the ICRC: that of the largest path MTU.
pub const MAX_LEN: usize = MAX_HEADERS + 4096 + ICRC_LEN;

/// A packet whose form is right. What its accessors return needs no further check of form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    bth: &'a Bth,
    /// The extension headers, exactly as many bytes as the opcode asks for.
    extensions: &'a [u8],
    opcode: Opcode,
    payload_len: usize,
    packets: u32,
    ack_request: bool,
    solicited: bool,
}

impl<'a> Packet<'a> {
    /// Takes a packet apart.
    ///
    /// `bytes` starts at the BTH and holds at least the first [`MAX_HEADERS`] bytes of the UDP
    /// payload, or all of it if it is shorter; what comes after is not looked at.
    /// `udp_payload_len` counts everything from the BTH to the ICRC.
    ///
    /// # Errors
    ///
    /// - [`DropReason::TooShort`]: it ends before its headers and the ICRC do.
    /// - [`DropReason::UnknownOpcode`], [`DropReason::BadVersion`].
    /// - [`DropReason::BadPad`]: there are more pad bytes than bytes to pad.
    ///
    /// It is not checked that pad bytes are 0, that reserved bits are 0, nor that the payload has
    /// the length that a QP would expect.
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
        Ok(Self {
            bth,
            extensions,
            opcode,
            payload_len,
            packets: 1,
            ack_request: bth.ack_request(),
            solicited: bth.solicited(),
        })
    }

    /// Returns what a packet is for, from its first [`BTH_LEN`] bytes: an opcode and the number of a QP.
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

    /// Says that it stands for a run of `packets` packets, at least one: see
    /// [`TxDesc`](crate::segmentation::tx_desc::Segment). Its PSN is that of the first.
    #[inline]
    #[must_use]
    pub const fn standing_for(self, packets: u32) -> Self {
        Self { packets, ..self }
    }

    /// Returns the run of these packets, this one the first, and `next`; `opcode` says what they are together.
    #[inline]
    pub(crate) const fn followed_by(self, next: &Packet<'_>, opcode: Opcode) -> Self {
        Self {
            opcode,
            payload_len: self.payload_len.wrapping_add(next.payload_len),
            packets: self.packets.wrapping_add(next.packets),
            // Both are said of a message with its last packet.
            ack_request: next.ack_request,
            solicited: next.solicited,
            ..self
        }
    }

    /// Returns how many packets it stands for; see [`run`](crate::segmentation::gso).
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

    /// Returns the packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        self.bth.psn()
    }

    /// Returns the number of the QP the packet is for.
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

    /// Returns whether the sender asks for an acknowledgement.
    #[inline]
    #[must_use]
    pub const fn ack_request(&self) -> bool {
        self.ack_request
    }

    /// Returns whether the sender asks for a completion event at the receiver.
    #[inline]
    #[must_use]
    pub const fn solicited(&self) -> bool {
        self.solicited
    }

    /// Returns the MigReq bit. Nothing depends on it: rdma_rxe sends 0, adapters send 1.
    #[inline]
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.bth.migrated()
    }

    /// Returns the number of pad bytes between payload and ICRC: 0 to 3.
    #[inline]
    #[must_use]
    pub fn pad(&self) -> u8 {
        self.bth.pad()
    }

    /// Returns the whole BTH.
    #[inline]
    #[must_use]
    pub const fn bth(&self) -> &'a Bth {
        self.bth
    }

    /// Returns the RETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn reth(&self) -> Option<Reth> {
        self.extension()
    }

    /// Returns the AETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn aeth(&self) -> Option<Aeth> {
        self.extension()
    }

    /// Returns the DETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn deth(&self) -> Option<Deth> {
        self.extension()
    }

    /// Returns the immediate data, if the opcode brings some.
    #[inline]
    #[must_use]
    pub fn imm(&self) -> Option<ImmDt> {
        self.extension()
    }

    /// Returns the IETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn ieth(&self) -> Option<Ieth> {
        self.extension()
    }

    /// Returns the AtomicETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn atomic(&self) -> Option<AtomicEth> {
        self.extension()
    }

    /// Returns the AtomicAckETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        self.extension()
    }

    /// Returns the FETH, if the opcode brings one.
    #[inline]
    #[must_use]
    pub fn feth(&self) -> Option<Feth> {
        self.extension()
    }

    /// Returns where the payload starts, in bytes from the start of the BTH. This is also the
    /// length of all headers, at most [`MAX_HEADERS`].
    #[inline]
    #[must_use]
    pub fn payload_offset(&self) -> usize {
        BTH_LEN.wrapping_add(self.extensions.len())
    }

    /// Returns the length of the payload in bytes, without pad and ICRC.
    #[inline]
    #[must_use]
    pub const fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Returns where the ICRC starts, in bytes from the start of the BTH.
    #[inline]
    #[must_use]
    pub fn icrc_offset(&self) -> usize {
        self.payload_offset()
            .wrapping_add(self.payload_len)
            .wrapping_add(usize::from(self.pad()))
    }

    /// Reads one extension header.
    #[inline]
    fn extension<T: Extension>(&self) -> Option<T> {
        let offset = self.opcode.headers().offset(T::HEADER)?;
        let (layout, _) = T::Layout::read_from_prefix(self.extensions.get(offset..)?).ok()?;
        Some(T::decode(layout))
    }
}
