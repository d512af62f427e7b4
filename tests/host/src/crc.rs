// SPDX-License-Identifier: GPL-2.0

//! CRC-32 on the host, in place of the kernel's `crc32_le()`.

use roce::wire::icrc::Crc32;

/// A fast implementation.
#[derive(Clone, Copy, Debug)]
pub struct Fast;

impl Crc32 for Fast {
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        // The crate inverts at start and end, the kernel does not.
        let mut hasher = crc32fast::Hasher::new_with_initial(!crc);
        hasher.update(bytes);
        !hasher.finalize()
    }
}

/// A bitwise implementation, the reference.
#[derive(Clone, Copy, Debug)]
pub struct Bitwise;

impl Crc32 for Bitwise {
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(crc, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_give_the_check_value_of_crc_32() {
        let digits = b"123456789";
        assert_eq!(!Bitwise::update(!0, digits), 0xcbf4_3926);
        assert_eq!(!Fast::update(!0, digits), 0xcbf4_3926);
    }

    #[test]
    fn both_can_be_continued() {
        let bytes: Vec<u8> = (0..=255).collect();
        for split in [0, 1, 100, 256] {
            let (a, b) = bytes.split_at(split);
            let whole = Bitwise::update(7, &bytes);
            assert_eq!(Bitwise::update(Bitwise::update(7, a), b), whole);
            assert_eq!(Fast::update(Fast::update(7, a), b), whole);
        }
    }
}
