// SPDX-License-Identifier: GPL-2.0

//! Address handles: destinations of datagrams.
//!
//! The verbs create and modify them, and the UD send engine reads them, in any context. A spinlock that disables
//! interrupts protects the attributes. The route is looked up when a datagram is sent.

use crate::mem::pd::Pd;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::qp_attr::AhAttr,
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    util::alloc::{
        gfp_user,
        Table, //
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

/// The AHs of datagrams that a kernel consumer has posted, by element of the ring. The consumer may destroy an AH in
/// atomic context, where nothing can wait until no engine uses it: so each datagram holds a reference.
#[pin_data]
pub(crate) struct PostedAhs {
    #[pin]
    ahs: SpinLockIrq<Table<Option<Arc<Ah>>>>,
}

impl PostedAhs {
    /// Creates a table for a ring of `elements`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(elements: u32) -> Result<Arc<Self>> {
        // CAST: `u32` to `usize`, on 64 bits.
        let mut ahs = Table::with_capacity(elements as usize, gfp_user())?;
        for _ in 0..elements {
            ahs.push(None, gfp_user())?;
        }
        Arc::pin_init(
            pin_init!(Self { ahs <- new_spinlock_irq!(ahs, "ferroce::PostedAhs") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Sets the AH of the datagram in the element at `index`. For any context.
    pub(crate) fn put(&self, index: u32, ah: Arc<Ah>) {
        let _old = self.replace(index, Some(ah));
    }

    /// Takes the AH of the datagram in the element at `index`. For any context.
    pub(crate) fn take(&self, index: u32) -> Option<Arc<Ah>> {
        self.replace(index, None)
    }

    /// Drops the AHs of all datagrams: the QP goes to RESET, which discards them. Process context.
    pub(crate) fn clear(&self) {
        // CAST: It was created for a `u32` of elements.
        let elements = self.ahs.lock().len() as u32;
        for index in 0..elements {
            drop(self.take(index));
        }
    }

    fn replace(&self, index: u32, ah: Option<Arc<Ah>>) -> Option<Arc<Ah>> {
        let mut ahs = self.ahs.lock();
        // CAST: `u32` to `usize`, on 64 bits.
        let slot = ahs.get_mut(index as usize)?;
        core::mem::replace(slot, ah)
    }
}
