// SPDX-License-Identifier: GPL-2.0

//! The headers of a packet to be sent.
//!
//! Owns how they are put together; the opcode alone says which there are. Payload, pad bytes and
//! ICRC follow them on the wire and are for the caller to append.

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
    header::{
        BTH_LEN,
        MAX_HEADERS, //
    },
    opcode::Opcode, //
};
use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    num::{
        low_u32,
        low_u8,
        usize_as_u64, //
    },
    psn::Psn, //
};
use zerocopy::IntoBytes as _;
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Returns how many pad bytes follow a payload of `payload_len` bytes: 0 to 3.
#[inline]
#[must_use]
pub const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Returns [`pad_len`] as the BTH holds it.
#[inline]
pub(crate) const fn pad_bits(payload_len: usize) -> u8 {
    low_u8(low_u32(usize_as_u64(pad_len(payload_len))))
}

/// The headers of one packet, in the making.
///
/// An extension header that the opcode brings and that is not given is all zeroes; one that the
/// opcode does not bring is left out. So whatever is built can be parsed.
///
/// For the packets of a burst, build once and change the PSN with [`Headers::psn`].
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    opcode: Opcode,
    layout: HeaderLayout,
}

/// BTH and room for the longest extension headers.
#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
struct HeaderLayout {
    bth: Bth,
    extensions: [u8; MAX_HEADERS - BTH_LEN],
}

impl Headers {
    /// Starts with a BTH whose flags are 0 but MigReq, which is 1; in a congestion notification
    /// it is BECN that is 1.
    #[inline]
    #[must_use]
    pub fn new(opcode: Opcode, pkey: Pkey, dest_qpn: Qpn, psn: Psn) -> Self {
        let mut bth = Bth::new(opcode.to_byte(), pkey, dest_qpn, psn);
        if opcode == Opcode::CNP {
            // It tells of congestion by its BECN bit, and takes no part in migration (annex 17).
            bth.set_becn(true);
            bth.set_migrated(false);
        }
        Self {
            opcode,
            layout: HeaderLayout {
                bth,
                extensions: [0; MAX_HEADERS - BTH_LEN],
            },
        }
    }

    /// Builds an acknowledgement or a refusal: every packet that is an AETH and nothing else.
    #[inline]
    #[must_use]
    pub fn ack(pkey: Pkey, dest_qpn: Qpn, psn: Psn, aeth: Aeth) -> Self {
        Self::new(Opcode::RC_ACKNOWLEDGE, pkey, dest_qpn, psn).aeth(aeth)
    }

    /// Builds the answer to an atomic operation.
    #[inline]
    #[must_use]
    pub fn atomic_ack(
        pkey: Pkey,
        dest_qpn: Qpn,
        psn: Psn,
        aeth: Aeth,
        original: AtomicAckEth,
    ) -> Self {
        Self::new(Opcode::RC_ATOMIC_ACKNOWLEDGE, pkey, dest_qpn, psn)
            .aeth(aeth)
            .original(original)
    }

    /// Sets the packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(mut self, psn: Psn) -> Self {
        self.layout.bth.set_psn(psn);
        self
    }

    /// Says whether an acknowledgement is asked for.
    #[inline]
    #[must_use]
    pub fn ack_request(mut self, on: bool) -> Self {
        self.layout.bth.set_ack_request(on);
        self
    }

    /// Says whether a completion event is asked for.
    #[inline]
    #[must_use]
    pub fn solicited(mut self, on: bool) -> Self {
        self.layout.bth.set_solicited(on);
        self
    }

    /// Gives the RETH.
    #[inline]
    #[must_use]
    pub fn reth(self, reth: Reth) -> Self {
        self.with(reth)
    }

    /// Gives the AETH.
    #[inline]
    #[must_use]
    pub fn aeth(self, aeth: Aeth) -> Self {
        self.with(aeth)
    }

    /// Gives the DETH.
    #[inline]
    #[must_use]
    pub fn deth(self, deth: Deth) -> Self {
        self.with(deth)
    }

    /// Gives the immediate data.
    #[inline]
    #[must_use]
    pub fn imm(self, imm: ImmDt) -> Self {
        self.with(imm)
    }

    /// Gives the IETH.
    #[inline]
    #[must_use]
    pub fn ieth(self, ieth: Ieth) -> Self {
        self.with(ieth)
    }

    /// Gives the AtomicETH.
    #[inline]
    #[must_use]
    pub fn atomic(self, atomic: AtomicEth) -> Self {
        self.with(atomic)
    }

    /// Gives the AtomicAckETH.
    #[inline]
    #[must_use]
    pub fn original(self, original: AtomicAckEth) -> Self {
        self.with(original)
    }

    /// Gives the FETH.
    #[inline]
    #[must_use]
    pub fn feth(self, feth: Feth) -> Self {
        self.with(feth)
    }

    /// Returns the opcode.
    #[inline]
    #[must_use]
    pub(crate) const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Writes the headers of a packet with `payload_len` bytes of payload. Behind the payload the
    /// caller appends [`pad_len`] bytes of 0 and the ICRC.
    #[inline]
    #[must_use]
    pub fn emit(mut self, payload_len: usize) -> HeaderBuf {
        self.layout.bth.set_pad(pad_bits(payload_len));
        HeaderBuf {
            layout: self.layout,
            len: BTH_LEN.wrapping_add(self.opcode.headers().len()),
        }
    }

    /// Writes one extension header where the opcode wants it.
    #[inline]
    fn with<T: Extension>(mut self, extension: T) -> Self {
        if let Some(offset) = self.opcode.headers().offset(T::HEADER) {
            if let Some(room) = self.layout.extensions.get_mut(offset..) {
                // There is room for every header that a packet can have.
                let _ = extension.encode().write_to_prefix(room);
            }
        }
        self
    }
}

/// The headers of one packet, from the BTH on, as they go on the wire.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBuf {
    layout: HeaderLayout,
    len: usize,
}

impl HeaderBuf {
    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        let bytes = self.layout.as_bytes();
        bytes.get(..self.len).unwrap_or(bytes)
    }

    /// Returns how many bytes there are, at most [`MAX_HEADERS`].
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns `false`: there is always a BTH.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Makes them the headers of another packet of the same message. It brings those of its extension headers
    /// that stand `skipped` bytes after the BTH.
    #[inline]
    pub(crate) fn become_packet(&mut self, opcode: Opcode, skipped: usize) {
        let extensions = opcode.headers().len();
        if let (1.., 1.., Some((front, behind))) = (
            skipped,
            extensions,
            self.layout.extensions.split_at_mut_checked(skipped),
        ) {
            for (to, from) in front.iter_mut().zip(behind) {
                *to = *from;
            }
        }
        self.layout.bth.set_opcode(opcode.to_byte());
        self.len = BTH_LEN.wrapping_add(extensions);
    }

    /// Returns the BTH.
    #[inline]
    pub(crate) const fn bth_mut(&mut self) -> &mut Bth {
        &mut self.layout.bth
    }
}
