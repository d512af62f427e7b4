// SPDX-License-Identifier: GPL-2.0

//! Verb objects: the C structure with the driver's part behind it.
//!
//! The core allocates objects of the size that `ib_device_ops` tells it, fills in the C structure,
//! calls the driver's create, and frees the memory after destroy has returned 0. So the Rust part
//! is put in its place by create and taken out by destroy; in between it does not change.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::{
        event::{
            CqHandle,
            QpHandle,
            SrqHandle, //
        },
        mmap::Mappings, //
    }, //
};
use core::mem::{
    ManuallyDrop,
    MaybeUninit, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    types::Opaque, //
};

/// The C structure `C`, and the driver's part `D`.
#[repr(C)]
pub(crate) struct Object<C, D> {
    raw: Opaque<C>,
    data: ManuallyDrop<D>,
}

/// A user context.
pub(crate) type Ucontext<D> = Object<bindings::ib_ucontext, Arc<D>>;
/// A protection domain.
pub(crate) type Pd<D> = Object<bindings::ib_pd, Arc<D>>;
/// An address handle.
pub(crate) type Ah<D> = Object<bindings::ib_ah, Arc<D>>;
/// A completion queue.
pub(crate) type Cq<D> = Object<bindings::ib_cq, CqData<D>>;
/// A queue pair.
pub(crate) type Qp<D> = Object<bindings::ib_qp, QpData<D>>;
/// A shared receive queue.
pub(crate) type Srq<D> = Object<bindings::ib_srq, SrqData<D>>;
/// A memory region.
pub(crate) type Mr<D> = Object<bindings::ib_mr, Arc<D>>;
/// A memory window.
pub(crate) type Mw<D> = Object<bindings::ib_mw, Arc<D>>;

/// The Rust part of a completion queue.
pub(crate) struct CqData<D> {
    pub(crate) cq: Arc<D>,
    pub(crate) handle: CqHandle,
    /// One resize at a time. A new ring takes the place of the old.
    pub(crate) mappings: Pin<KBox<Mutex<Mappings>>>,
}

/// The Rust part of a queue pair.
pub(crate) struct QpData<D> {
    pub(crate) qp: Arc<D>,
    pub(crate) handle: QpHandle,
    /// One modification at a time: the check of a transition and the transition are one step.
    pub(crate) modify: Pin<KBox<Mutex<()>>>,
    pub(crate) _mappings: Mappings,
}

/// The Rust part of a shared receive queue.
pub(crate) struct SrqData<D> {
    pub(crate) srq: Arc<D>,
    pub(crate) handle: SrqHandle,
    /// One modification at a time. A new ring takes the place of the old.
    pub(crate) mappings: Pin<KBox<Mutex<Mappings>>>,
}

impl<C, D> Object<C, D> {
    /// Size for `ib_device_ops`.
    pub(crate) const SIZE: usize = {
        // The core allocates with kmalloc, which promises no more for all sizes.
        assert!(align_of::<Self>() <= align_of::<u64>());
        size_of::<Self>()
    };

    /// Puts the Rust part in its place.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type that has no Rust part, and is not shared yet.
    pub(crate) unsafe fn init(raw: *mut C, data: D) {
        let this: *mut Self = raw.cast();
        // SAFETY: As the function requires.
        unsafe { (&raw mut (*this).data).write(ManuallyDrop::new(data)) };
    }

    /// The Rust part.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type, which has a Rust part for all of `'a`.
    #[inline]
    pub(crate) unsafe fn data<'a>(raw: *const C) -> &'a D {
        let this: *const Self = raw.cast();
        // SAFETY: As the function requires.
        unsafe { &(*this).data }
    }

    /// Takes the Rust part out.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type, which has a Rust part; nobody uses it now or
    /// later.
    pub(crate) unsafe fn take(raw: *mut C) -> D {
        let this: *mut Self = raw.cast();
        // SAFETY: As the function requires.
        unsafe { ManuallyDrop::take(&mut (*this).data) }
    }
}

impl<C, D> Object<C, D> {
    /// An object that the core leaves to the driver to allocate, zeroed but for its Rust part.
    pub(crate) fn new_boxed(data: D) -> Result<KBox<Self>> {
        let mut object = KBox::<MaybeUninit<Self>>::zeroed(GFP_KERNEL_ACCOUNT)?;
        let at = object.as_mut_ptr();
        // SAFETY: Inside the box. Any bytes, zeros too, are an `Opaque`.
        unsafe {
            (&raw mut (*at).data).write(ManuallyDrop::new(data));
            Ok(object.assume_init())
        }
    }
}
