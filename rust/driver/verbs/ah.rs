// SPDX-License-Identifier: GPL-2.0

//! Address handles as their consumers hold them.
//!
//! Owns the number by which a process names one in its datagrams. Does not know what it stands for.

use crate::{
    device::ferroce::Ferroce,
    mem::pd::Pd,
    port::{
        ah::Ah,
        state::Port, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::driver::AhInit;
use zerocopy_derive::{
    Immutable,
    IntoBytes, //
};

/// Answer to `create_ah` (`struct rxe_create_ah_resp`).
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct CreatedAh {
    number: u32,
    reserved: u32,
}

/// What a consumer holds: the handle, and its number if it is a process.
pub(crate) struct AhHandle {
    ah: Arc<Ah>,
    numbered: Option<(u32, Arc<Port>)>,
}

impl AhHandle {
    /// Makes an address handle that holders of `pd` may use.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL`, `EFAULT`: a process cannot be told the number.
    pub(crate) fn create(
        port: &Arc<Port>,
        pd: &Arc<Pd>,
        init: AhInit<'_, Ferroce>,
    ) -> Result<Arc<Self>> {
        let flags = if init.may_sleep {
            GFP_KERNEL_ACCOUNT
        } else {
            GFP_ATOMIC
        };
        let ah = Arc::pin_init(Ah::new(pd.clone(), init.attr), flags)?;
        let Some(user) = init.user else {
            let numbered = None;
            return Ok(Arc::new(Self { ah, numbered }, flags)?);
        };
        let (handle, number) = Self::numbered(ah, port.clone())?;
        user.respond(&CreatedAh {
            number,
            reserved: 0,
        })?;
        Ok(Arc::new(handle, flags)?)
    }

    /// A handle for a process, which finds it by its number.
    fn numbered(ah: Arc<Ah>, port: Arc<Port>) -> Result<(Self, u32)> {
        let number = port.ahs().alloc_cyclic(1..u32::MAX, ah.clone())?;
        let numbered = Some((number, port));
        Ok((Self { ah, numbered }, number))
    }

    /// The address handle.
    pub(crate) fn ah(&self) -> &Arc<Ah> {
        &self.ah
    }
}

impl AsRef<Arc<Ah>> for AhHandle {
    fn as_ref(&self) -> &Arc<Ah> {
        &self.ah
    }
}

impl Drop for AhHandle {
    fn drop(&mut self) {
        // Only processes have numbers, and they may sleep.
        if let Some((number, port)) = &self.numbered {
            drop(port.ahs().remove(*number));
        }
    }
}
