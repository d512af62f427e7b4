// SPDX-License-Identifier: GPL-2.0

//! Address handles: where datagrams go.
//!
//! Owns who may use one. Does not know routes: a datagram looks for its way when it is sent.

use crate::mem::pd::Pd;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::ib::qp_attr::AhAttr;

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    pd: Arc<Pd>,
    #[pin]
    attr: SpinLockIrq<AhAttr>,
}

impl Ah {
    /// A handle that holders of `pd` may use.
    pub(crate) fn new(pd: Arc<Pd>, attr: AhAttr) -> impl PinInit<Self> {
        pin_init!(Self {
            pd,
            attr <- new_spinlock_irq!(attr, "ferroce::Ah"),
        })
    }

    /// Where datagrams go.
    pub(crate) fn attr(&self) -> AhAttr {
        *self.attr.lock()
    }

    /// Has datagrams go elsewhere from now on.
    pub(crate) fn set_attr(&self, attr: AhAttr) {
        *self.attr.lock() = attr;
    }

    /// Whether a queue pair with this protection domain may use it.
    pub(crate) fn belongs_to(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }
}
