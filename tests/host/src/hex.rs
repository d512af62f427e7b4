// SPDX-License-Identifier: GPL-2.0

//! Hexadecimal text with arbitrary white space.

/// Converts hexadecimal digits, two per byte, to bytes. White space is ignored.
///
/// # Panics
///
/// On any other character, or an odd number of digits.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit"))
        .collect();
    let pairs = digits.chunks_exact(2);
    assert!(pairs.remainder().is_empty(), "half a byte in {text:?}");
    pairs
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits make a byte"))
        .collect()
}

/// Converts `bytes` to hexadecimal digits, the inverse of [`bytes`].
#[must_use]
pub fn digits(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("a nibble is a digit");
    let pair = |&byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
    bytes.iter().flat_map(pair).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn white_space_is_ignored() {
        assert_eq!(super::bytes(" 0a ff\n1 2 "), [0x0a, 0xff, 0x12]);
        assert_eq!(super::digits(&[0x0a, 0xff]), "0aff");
    }
}
