// SPDX-License-Identifier: GPL-2.0

//! Module parameters: `value()` returns a reference before 7.3, and a copy since.

/// What `value()` of a parameter returns.
pub trait Value: Sized {
    /// The type of the parameter.
    type Number: PartialEq + Default;

    /// Returns the number.
    fn get(self) -> Self::Number;

    /// Returns whether the parameter is not 0.
    fn into_bool(self) -> bool {
        self.get() != Self::Number::default()
    }
}

macro_rules! impl_value {
    ($($number:ty),+) => {
        $(
            impl Value for $number {
                type Number = Self;

                fn get(self) -> Self {
                    self
                }
            }

            impl Value for &$number {
                type Number = $number;

                fn get(self) -> $number {
                    *self
                }
            }
        )+
    };
}

impl_value!(u8, u32);
