// SPDX-License-Identifier: GPL-2.0

//! Address handles of consumers.
//!
//! A process names an AH in its datagram WQEs by a number, which [`AhHandle`] allocates and frees. ULPs use the AH
//! directly, and may create and destroy it in atomic context.

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

/// An AH of a consumer.
pub(crate) struct AhHandle {
    ah: Arc<Ah>,
    /// Number of the AH in its port, for a process.
    number: Option<(u32, Arc<Port>)>,
}

impl AhHandle {
    /// Creates an AH in `pd`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` or `EFAULT` if the response cannot be written.
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
            let number = None;
            return Ok(Arc::new(Self { ah, number }, flags)?);
        };
        let (handle, number) = Self::with_number(ah, port.clone())?;
        let abi = **user.ucontext();
        abi.respond_ah(user, number)?;
        Ok(Arc::new(handle, flags)?)
    }

    /// Allocates a number for the AH of a process. Returns it as well.
    fn with_number(ah: Arc<Ah>, port: Arc<Port>) -> Result<(Self, u32)> {
        let index = port.ahs().alloc_cyclic(1..u32::MAX, ah.clone())?;
        let number = Some((index, port));
        Ok((Self { ah, number }, index))
    }

    /// Returns the AH.
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
        // Waits for the readers of the table. Only AHs of processes have a number, and these are destroyed in process
        // context.
        if let Some((number, port)) = &self.number {
            drop(port.ahs().remove(*number));
        }
    }
}
