// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

/// A protection domain: two objects may meet if they hold the same one.
pub(crate) struct Pd {
    /// Not empty, so that no two of them have one address.
    _identity: u8,
}

impl Pd {
    /// A domain without objects.
    pub(crate) fn new() -> Self {
        Self { _identity: 0 }
    }
}
