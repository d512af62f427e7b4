// SPDX-License-Identifier: GPL-2.0

//! Verb objects: a C structure of the core, followed by the driver's part.
//!
//! The core allocates an object with the size in `ib_device_ops`, fills in the C structure, calls create, and frees
//! the memory after destroy returned 0. So create writes the Rust part and destroy takes it out; in between it does
//! not move.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    compat::comp_cntr::ib_comp_cntr,
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

/// The C structure `C` and the Rust part `D`.
#[repr(C)]
pub(crate) struct Object<C, D> {
    raw: Opaque<C>,
    data: ManuallyDrop<D>,
}

/// A user context.
pub(crate) type Ucontext<D> = Object<bindings::ib_ucontext, Arc<D>>;
/// A PD.
pub(crate) type Pd<D> = Object<bindings::ib_pd, Arc<D>>;
/// An AH.
pub(crate) type Ah<D> = Object<bindings::ib_ah, Arc<D>>;
/// A CQ.
pub(crate) type Cq<D> = Object<bindings::ib_cq, CqData<D>>;
/// A QP.
pub(crate) type Qp<D> = Object<bindings::ib_qp, QpData<D>>;
/// An SRQ.
pub(crate) type Srq<D> = Object<bindings::ib_srq, SrqData<D>>;
/// An XRC domain.
pub(crate) type Xrcd<D> = Object<bindings::ib_xrcd, Arc<D>>;
/// A completion counter.
pub(crate) type CompCntr<D> = Object<ib_comp_cntr, Arc<D>>;
/// An MR.
pub(crate) type Mr<D> = Object<bindings::ib_mr, Arc<D>>;
/// An MW.
pub(crate) type Mw<D> = Object<bindings::ib_mw, Arc<D>>;

/// Rust part of a CQ.
pub(crate) struct CqData<D> {
    pub(crate) cq: Arc<D>,
    pub(crate) handle: CqHandle,
    /// Mappings of the current ring. The mutex serializes resizes.
    pub(crate) mappings: Pin<KBox<Mutex<Mappings>>>,
}

/// Rust part of a QP.
pub(crate) struct QpData<D> {
    pub(crate) qp: Arc<D>,
    pub(crate) handle: QpHandle,
    /// Serializes modifications: the check of a transition and the transition are one step.
    pub(crate) modify: Pin<KBox<Mutex<()>>>,
    pub(crate) _mappings: Mappings,
}

/// Rust part of an SRQ.
pub(crate) struct SrqData<D> {
    pub(crate) srq: Arc<D>,
    pub(crate) handle: SrqHandle,
    /// Mappings of the current ring. The mutex serializes modifications.
    pub(crate) mappings: Pin<KBox<Mutex<Mappings>>>,
}

impl<C, D> Object<C, D> {
    /// Size of the object, for `ib_device_ops`.
    pub(crate) const SIZE: usize = {
        // The core uses kmalloc, which guarantees no greater alignment for all sizes.
        assert!(align_of::<Self>() <= align_of::<u64>());
        size_of::<Self>()
    };

    /// Writes the Rust part.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type that has no Rust part and is not shared yet.
    pub(crate) unsafe fn init(raw: *mut C, data: D) {
        let this: *mut Self = raw.cast();
        // SAFETY: The caller guarantees that `raw` is the first field of an object of this type, not shared, whose
        // data is not initialised: it may be written.
        unsafe { (&raw mut (*this).data).write(ManuallyDrop::new(data)) };
    }

    /// Returns the Rust part.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type that has a Rust part for all of `'a`.
    #[inline]
    pub(crate) unsafe fn data<'a>(raw: *const C) -> &'a D {
        let this: *const Self = raw.cast();
        // SAFETY: The caller guarantees that the object and its Rust part are valid for `'a`. No mutable reference
        // to the data is created meanwhile: only `take` creates one.
        unsafe { &(*this).data }
    }

    /// Takes the Rust part out.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of an object of this type that has a Rust part. No other code uses the Rust part, now or
    /// later.
    pub(crate) unsafe fn take(raw: *mut C) -> D {
        let this: *mut Self = raw.cast();
        // SAFETY: The caller guarantees that the object has a Rust part, that no reference to it exists, and that
        // it is not used again.
        unsafe { ManuallyDrop::take(&mut (*this).data) }
    }
}

impl<C, D> Object<C, D> {
    /// Allocates an object that the core leaves to the driver to allocate (an MR). It is zeroed except for the Rust
    /// part.
    pub(crate) fn new_boxed(data: D) -> Result<KBox<Self>> {
        let mut object = KBox::<MaybeUninit<Self>>::zeroed(GFP_KERNEL_ACCOUNT)?;
        let at = object.as_mut_ptr();
        // SAFETY: `at` points into the box, so the field may be written. Then all of the object is initialised: any
        // bytes, also zeros, are a valid `Opaque`.
        unsafe {
            (&raw mut (*at).data).write(ManuallyDrop::new(data));
            Ok(object.assume_init())
        }
    }
}
