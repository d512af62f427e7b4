// SPDX-License-Identifier: GPL-2.0

//! XRC domains, and what a target QP takes from one.
//!
//! A domain is compared by address. The core allocates and frees it in process context.

use crate::{
    mem::pd::Pd,
    queue::cq::Cq, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::event::CqHandle;

/// An XRC domain.
pub(crate) struct Xrcd {
    /// The protection domain of a target QP, which has no memory: each request is for that of an SRQ.
    pd: Arc<Pd>,
    /// The CQ of a target QP, which gets no completion, see [`pd`](Self::pd).
    cq: Arc<Cq>,
}

impl Xrcd {
    /// Creates a domain.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let xrcd = Self {
            pd: Arc::new(Pd::new(), GFP_KERNEL_ACCOUNT)?,
            cq: Cq::kernel(CqHandle::without_consumer()?, 1)?,
        };
        Ok(Arc::new(xrcd, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the protection domain of target QPs.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the CQ of target QPs.
    pub(crate) fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }
}
