// SPDX-License-Identifier: GPL-2.0

//! Builder of the headers of a packet to send. The opcode determines the headers. The caller
//! appends payload, pad bytes and ICRC.

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
        Reth,
        Xrceth, //
    },
    header::{
        BTH_LEN,
        MAX_HEADERS_LEN, //
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

/// Returns the number of pad bytes after a payload of `payload_len` bytes, 0 to 3.
#[inline]
#[must_use]
pub const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Returns [`pad_len`] in the type of the BTH field.
#[inline]
pub(crate) const fn pad_bits(payload_len: usize) -> u8 {
    low_u8(low_u32(usize_as_u64(pad_len(payload_len))))
}

/// Builder of the headers of one packet.
///
/// An extension header that the opcode requires and that is not set is all zeroes; one that the
/// opcode does not have is ignored. The result can therefore always be parsed.
///
/// For several packets of one message, build once and change the PSN with [`Headers::psn`].
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    opcode: Opcode,
    layout: HeaderLayout,
}

/// BTH, followed by space for the longest extension headers.
#[derive(Clone, Copy, Debug, Immutable, IntoBytes)]
#[repr(C)]
struct HeaderLayout {
    bth: Bth,
    extensions: [u8; MAX_HEADERS_LEN - BTH_LEN],
}

impl Headers {
    /// Starts with a BTH whose flags are clear except MigReq; in a congestion notification, except
    /// BECN.
    #[inline]
    #[must_use]
    pub fn new(opcode: Opcode, pkey: Pkey, dest_qpn: Qpn, psn: Psn) -> Self {
        let mut bth = Bth::new(opcode.to_byte(), pkey, dest_qpn, psn);
        if opcode == Opcode::CNP {
            // The BECN bit reports congestion. MigReq does not apply (annex 17).
            bth.set_becn(true);
            bth.set_migrated(false);
        }
        Self {
            opcode,
            layout: HeaderLayout {
                bth,
                extensions: [0; MAX_HEADERS_LEN - BTH_LEN],
            },
        }
    }

    /// Sets the PSN.
    #[inline]
    #[must_use]
    pub fn psn(mut self, psn: Psn) -> Self {
        self.layout.bth.set_psn(psn);
        self
    }

    /// Sets or clears the AckReq bit.
    #[inline]
    #[must_use]
    pub fn ack_request(mut self, on: bool) -> Self {
        self.layout.bth.set_ack_request(on);
        self
    }

    /// Sets or clears the solicited-event bit.
    #[inline]
    #[must_use]
    pub fn solicited(mut self, on: bool) -> Self {
        self.layout.bth.set_solicited(on);
        self
    }

    /// Sets the RETH.
    #[inline]
    #[must_use]
    pub fn reth(self, reth: Reth) -> Self {
        self.with(reth)
    }

    /// Sets the AETH.
    #[inline]
    #[must_use]
    pub fn aeth(self, aeth: Aeth) -> Self {
        self.with(aeth)
    }

    /// Sets the DETH.
    #[inline]
    #[must_use]
    pub fn deth(self, deth: Deth) -> Self {
        self.with(deth)
    }

    /// Sets the XRCETH.
    #[inline]
    #[must_use]
    pub fn xrceth(self, xrceth: Xrceth) -> Self {
        self.with(xrceth)
    }

    /// Sets the immediate data.
    #[inline]
    #[must_use]
    pub fn imm(self, imm: ImmDt) -> Self {
        self.with(imm)
    }

    /// Sets the IETH.
    #[inline]
    #[must_use]
    pub fn ieth(self, ieth: Ieth) -> Self {
        self.with(ieth)
    }

    /// Sets the AtomicETH.
    #[inline]
    #[must_use]
    pub fn atomic(self, atomic: AtomicEth) -> Self {
        self.with(atomic)
    }

    /// Sets the AtomicAckETH.
    #[inline]
    #[must_use]
    pub fn original(self, original: AtomicAckEth) -> Self {
        self.with(original)
    }

    /// Sets the FETH.
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

    /// Returns the headers of a shorter super-packet with the same first packet. Its opcode is `opcode`, and its
    /// extension headers are the first of these.
    #[inline]
    pub(crate) fn shortened(mut self, opcode: Opcode) -> Self {
        self.opcode = opcode;
        self.layout.bth.set_opcode(opcode.to_byte());
        self.ack_request(false).solicited(false)
    }

    /// Returns the length of the encoded headers in bytes.
    #[inline]
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        BTH_LEN.wrapping_add(self.opcode.headers().len())
    }

    /// Encodes the headers of a packet with `payload_len` bytes of payload. After the payload, the
    /// caller appends [`pad_len`] zero bytes and the ICRC.
    #[inline]
    #[must_use]
    pub fn emit(mut self, payload_len: usize) -> HeaderBuf {
        self.layout.bth.set_pad(pad_bits(payload_len));
        HeaderBuf {
            layout: self.layout,
            len: self.encoded_len(),
        }
    }

    /// Writes one extension header, if the opcode has it.
    #[inline]
    fn with<T: Extension>(mut self, extension: T) -> Self {
        if let Some(offset) = self.opcode.headers().offset(T::HEADER) {
            if let Some(room) = self.layout.extensions.get_mut(offset..) {
                // `extensions` is long enough for the headers of any opcode.
                let _ = extension.encode().write_to_prefix(room);
            }
        }
        self
    }
}

/// The encoded headers of one packet, starting with the BTH.
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

    /// Copies the headers of a received packet.
    #[inline]
    pub(crate) fn copy_of(bth: &Bth, extensions: &[u8]) -> Self {
        let mut copy = [0; MAX_HEADERS_LEN - BTH_LEN];
        for (to, from) in copy.iter_mut().zip(extensions) {
            *to = *from;
        }
        Self {
            layout: HeaderLayout {
                bth: *bth,
                extensions: copy,
            },
            len: BTH_LEN.wrapping_add(extensions.len()),
        }
    }

    /// Returns the BTH, and the extension headers that follow it.
    #[inline]
    pub(super) fn parts(&self) -> (&Bth, &[u8]) {
        let extensions = &self.layout.extensions;
        let used = extensions.get(..self.len.wrapping_sub(BTH_LEN));
        (&self.layout.bth, used.unwrap_or(extensions))
    }

    /// Returns the number of bytes, at most [`MAX_HEADERS_LEN`].
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns `false`: a BTH is always present.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Rewrites the headers for another packet of the same message, with `opcode`. Its extension
    /// headers are those found `skipped` bytes after the BTH, or after the XRCETH, which all packets have.
    #[inline]
    pub(crate) fn rewrite_for(&mut self, opcode: Opcode, skipped: usize) {
        let extensions = opcode.headers().len();
        let own = self
            .layout
            .extensions
            .get_mut(opcode.headers().common_len()..);
        if let (1.., 1.., Some((front, kept))) = (
            skipped,
            extensions,
            own.and_then(|own| own.split_at_mut_checked(skipped)),
        ) {
            for (to, from) in front.iter_mut().zip(kept) {
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
