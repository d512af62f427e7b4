// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use crate::{
    errno::Errno,
    ffi::{
        cmd::{
            self,
            Address, //
        },
        memory::Owned,
        object::{
            Ah,
            Pd, //
        },
    },
};

/// What an address handle has behind its head.
pub(crate) struct AhBody {
    /// By which datagrams refer to it.
    pub(crate) number: u32,
}

/// Creates an address handle.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn create(pd: &Pd, address: Address) -> Result<Owned<Ah>, Errno> {
    let mut ah = Ah::allocate(AhBody { number: 0 })?;
    ah.body_mut().number = cmd::create_ah(pd, address, &mut ah)?.number;
    Ok(ah)
}
