// SPDX-License-Identifier: GPL-2.0

//! Module parameters: `value()` returns a reference before 7.3, and a copy since.

/// What `value()` of a parameter of type `u8` returns.
pub trait Value {
    /// Returns whether the parameter is not 0.
    fn into_bool(self) -> bool;
}

impl Value for u8 {
    fn into_bool(self) -> bool {
        self != 0
    }
}

impl Value for &u8 {
    fn into_bool(self) -> bool {
        *self != 0
    }
}
