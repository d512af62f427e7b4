// SPDX-License-Identifier: GPL-2.0

//! Packets written down for people: hexadecimal, with blanks wherever they help.

/// Reads hexadecimal digits, two per byte; blanks and line ends count for nothing.
///
/// # Panics
///
/// If there is anything else, or half a byte.
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

/// Returns the digits of `bytes`, as [`bytes`](self::bytes) reads them.
#[must_use]
pub fn digits(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("a nibble is a digit");
    let pair = |&byte: &u8| [digit(byte >> 4), digit(byte & 0xf)];
    bytes.iter().flat_map(pair).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn blanks_do_not_count() {
        assert_eq!(super::bytes(" 0a ff\n1 2 "), [0x0a, 0xff, 0x12]);
        assert_eq!(super::digits(&[0x0a, 0xff]), "0aff");
    }
}
