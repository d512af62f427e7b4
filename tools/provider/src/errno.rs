// SPDX-License-Identifier: GPL-2.0

//! Error numbers.

/// A number of `errno.h`, positive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    /// No such thing; of polling: no completion.
    pub(crate) const NOENT: Self = Self(2);
    /// Input or output error.
    pub(crate) const IO: Self = Self(5);
    /// No memory; of posting: the queue is full.
    pub(crate) const NOMEM: Self = Self(12);
    /// Not permitted.
    pub(crate) const ACCES: Self = Self(13);
    /// The object is in use.
    pub(crate) const BUSY: Self = Self(16);
    /// Invalid argument.
    pub(crate) const INVAL: Self = Self(22);
    /// Not supported by this device or library.
    pub(crate) const OPNOTSUPP: Self = Self(95);
    /// The kernel speaks another protocol.
    pub(crate) const PROTONOSUPPORT: Self = Self(93);

    /// Returns the error of a verb whose method the kernel may lack: to a program, that is no matter of protocols.
    pub(crate) fn of_missing_method(self) -> Self {
        match self {
            Self::PROTONOSUPPORT => Self::OPNOTSUPP,
            other => other,
        }
    }

    /// Converts the return value of an `ibv_cmd_` function.
    pub(crate) fn check(returned: i32) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            // No function should return a negative number. If one does, errno might be 0, and that is no error.
            error if error < 0 => Err(Self(error.wrapping_neg())),
            error => Err(Self(error)),
        }
    }
}
