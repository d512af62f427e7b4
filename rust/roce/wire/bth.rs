// SPDX-License-Identifier: GPL-2.0

//! Base Transport Header (BTH): the first 12 bytes of every packet.

use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn, //
};
use zerocopy::byteorder::network_endian::{
    U16,
    U32, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

pub use super::header::BTH_LEN;

/// Offset of the byte of the BTH that routers may change, and that the ICRC therefore takes as all
/// ones: FECN, BECN and six reserved bits.
pub const VARIANT_BYTE: usize = 4;

/// The solicited-event bit, in the second byte.
const SOLICITED: u8 = 0x80;

/// The migration bit, in the second byte.
const MIGRATED: u8 = 0x40;

/// Shift of the pad count in the second byte; it has two bits.
const PAD_SHIFT: u32 = 4;

/// The transport header version, in the second byte.
const VERSION: u8 = 0x0f;

/// The FECN bit, in the word of the QP number.
const FECN: u32 = 1 << 31;

/// The BECN bit, in the word of the QP number.
const BECN: u32 = 1 << 30;

/// The AckReq bit, in the word of the PSN.
const ACK_REQUEST: u32 = 1 << 31;

/// Wire format of the Base Transport Header.
///
/// IBA: Base Transport Header, section 9.2.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(C)]
pub struct Bth {
    opcode: u8,
    flags: u8,
    pkey: U16,
    qpn: U32,
    psn: U32,
}

const _: () = assert!(size_of::<Bth>() == BTH_LEN);

impl Bth {
    /// Builds a header of version 0. All flags are clear except MigReq: RoCE has only the MIGRATED
    /// state of path migration.
    #[inline]
    #[must_use]
    pub fn new(opcode: u8, pkey: Pkey, dest_qpn: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            flags: MIGRATED,
            pkey: U16::new(pkey.get()),
            qpn: U32::new(dest_qpn.get()),
            psn: U32::new(psn.get()),
        }
    }

    /// Sets the opcode byte.
    #[inline]
    pub fn set_opcode(&mut self, opcode: u8) {
        self.opcode = opcode;
    }

    /// Sets or clears the solicited-event bit.
    #[inline]
    pub fn set_solicited(&mut self, on: bool) {
        self.flags = (self.flags & !SOLICITED) | if on { SOLICITED } else { 0 };
    }

    /// Sets or clears the MigReq bit.
    #[inline]
    pub fn set_migrated(&mut self, on: bool) {
        self.flags = (self.flags & !MIGRATED) | if on { MIGRATED } else { 0 };
    }

    /// Sets or clears the AckReq bit.
    #[inline]
    pub fn set_ack_request(&mut self, on: bool) {
        self.psn = U32::new(self.psn().get() | if on { ACK_REQUEST } else { 0 });
    }

    /// Sets or clears the BECN bit, which marks a congestion notification.
    #[inline]
    pub fn set_becn(&mut self, on: bool) {
        self.qpn = U32::new((self.qpn.get() & !BECN) | if on { BECN } else { 0 });
    }

    /// Sets the number of pad bytes. Only the low two bits of `pad` are used.
    #[inline]
    pub fn set_pad(&mut self, pad: u8) {
        self.flags = (self.flags & !(3 << PAD_SHIFT)) | ((pad & 3) << PAD_SHIFT);
    }

    /// Sets the PSN. The AckReq bit is unchanged.
    #[inline]
    pub fn set_psn(&mut self, psn: Psn) {
        self.psn = U32::new((self.psn.get() & ACK_REQUEST) | psn.get());
    }

    /// Returns the opcode byte.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.opcode
    }

    /// Returns the transport header version. Only version 0 is defined.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        self.flags & VERSION
    }

    /// Returns the number of pad bytes between payload and ICRC, 0 to 3.
    #[inline]
    #[must_use]
    pub fn pad(&self) -> u8 {
        (self.flags >> PAD_SHIFT) & 3
    }

    /// Returns the solicited-event bit: the sender requests a completion event at the receiver.
    #[inline]
    #[must_use]
    pub fn solicited(&self) -> bool {
        self.flags & SOLICITED != 0
    }

    /// Returns the MigReq bit.
    #[inline]
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.flags & MIGRATED != 0
    }

    /// Returns the partition key.
    #[inline]
    #[must_use]
    pub fn pkey(&self) -> Pkey {
        Pkey::new(self.pkey.get())
    }

    /// Returns the FECN bit: the packet experienced congestion.
    #[inline]
    #[must_use]
    pub fn fecn(&self) -> bool {
        self.qpn.get() & FECN != 0
    }

    /// Returns the BECN bit: a packet in the opposite direction experienced congestion.
    #[inline]
    #[must_use]
    pub fn becn(&self) -> bool {
        self.qpn.get() & BECN != 0
    }

    /// Returns the destination QP number.
    #[inline]
    #[must_use]
    pub fn dest_qpn(&self) -> Qpn {
        Qpn::new(self.qpn.get())
    }

    /// Returns the AckReq bit.
    #[inline]
    #[must_use]
    pub fn ack_request(&self) -> bool {
        self.psn.get() & ACK_REQUEST != 0
    }

    /// Returns the PSN.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        Psn::new(self.psn.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{
        FromZeros as _,
        IntoBytes as _, //
    };

    /// Checks that the flag is exactly bit `bit` of byte `byte`.
    fn is_one_bit(set: fn(&mut Bth, bool), get: fn(&Bth) -> bool, byte: usize, bit: u8) {
        for background in [0x00, 0xff] {
            let mut bth = Bth::new_zeroed();
            bth.as_mut_bytes().fill(background);
            for on in [true, false, true] {
                set(&mut bth, on);
                assert_eq!(get(&bth), on);
                let mut expected = [background; BTH_LEN];
                expected[byte] = if on {
                    background | bit
                } else {
                    background & !bit
                };
                assert_eq!(bth.as_bytes(), expected);
            }
        }
    }

    #[test]
    fn flags_are_single_bits() {
        is_one_bit(Bth::set_solicited, Bth::solicited, 1, 0x80);
        is_one_bit(Bth::set_migrated, Bth::migrated, 1, 0x40);
        is_one_bit(Bth::set_becn, Bth::becn, 4, 0x40);
    }

    #[test]
    fn set_ack_request_clears_the_reserved_bits() {
        let mut bth = Bth::new(0, Pkey::DEFAULT, Qpn::new(1), Psn::new(0xff_ffff));
        bth.set_ack_request(true);
        assert!(bth.ack_request());
        assert_eq!(bth.as_bytes()[8..], [0x80, 0xff, 0xff, 0xff]);
        bth.set_ack_request(false);
        assert!(!bth.ack_request());
        assert_eq!(bth.as_bytes()[8..], [0x00, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn pad_can_be_set_again() {
        let mut bth = Bth::new(0, Pkey::DEFAULT, Qpn::new(1), Psn::new(0));
        for pad in [3, 0, 2, 1] {
            bth.set_pad(pad);
            assert_eq!(bth.pad(), pad);
            assert!(bth.migrated() && bth.version() == 0);
        }
    }
}
