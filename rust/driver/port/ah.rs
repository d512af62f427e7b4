// SPDX-License-Identifier: GPL-2.0

//! Address handles: destinations of datagrams.
//!
//! The verbs create and modify them, and the UD send engine reads them, in any context. A spinlock that disables
//! interrupts protects the attributes. The route is looked up when a datagram is sent.

use crate::mem::pd::Pd;
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    }, //
};
use rdma::{
    ib::qp_attr::AhAttr,
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};
use roce::qp::field;

/// Returns an address vector with the low bits of those values that are wider than their fields.
pub(crate) fn within_fields(attr: AhAttr) -> AhAttr {
    AhAttr {
        flow_label: field::flow_label(attr.flow_label),
        sl: field::service_level(attr.sl),
        ..attr
    }
}

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    pd: Arc<Pd>,
    #[pin]
    attr: SpinLockIrq<AhAttr>,
}

impl Ah {
    /// Creates an AH in `pd`.
    pub(crate) fn new(pd: Arc<Pd>, attr: AhAttr) -> impl PinInit<Self> {
        pin_init!(Self {
            pd,
            attr <- new_spinlock_irq!(within_fields(attr), "ferroce::Ah"),
        })
    }

    /// Returns the address vector.
    pub(crate) fn attr(&self) -> AhAttr {
        *self.attr.lock()
    }

    /// Replaces the address vector, for datagrams that are sent from now on.
    pub(crate) fn set_attr(&self, attr: AhAttr) {
        *self.attr.lock() = within_fields(attr);
    }

    /// Returns whether QPs in `pd` may use the AH.
    pub(crate) fn belongs_to(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }
}
