// SPDX-License-Identifier: GPL-2.0

//! Protection domains. Objects hold a reference and compare domains by address.

/// A protection domain. Two objects may be used together only if they hold the same one.
pub(crate) struct Pd {
    /// Not zero-sized, so that each domain has its own address.
    _identity: u8,
}

impl Pd {
    /// Creates a protection domain.
    pub(crate) fn new() -> Self {
        Self { _identity: 0 }
    }
}
