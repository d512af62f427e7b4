// SPDX-License-Identifier: GPL-2.0

//! Address handles: where datagrams go.
//!
//! Owns who may use one. Does not know routes: a datagram looks for its way when it is sent.

pub(crate) mod handle;

use crate::mr::Pd;
use kernel::sync::Arc;
use rdma::attr::AhAttr;

/// An address handle.
pub(crate) struct Ah {
    pd: Arc<Pd>,
    attr: AhAttr,
}

impl Ah {
    /// A handle that holders of `pd` may use.
    pub(crate) fn new(pd: Arc<Pd>, attr: AhAttr) -> Self {
        Self { pd, attr }
    }

    /// Where datagrams go.
    pub(crate) fn attr(&self) -> &AhAttr {
        &self.attr
    }

    /// Whether a queue pair with this protection domain may use it.
    pub(crate) fn belongs_to(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }
}
