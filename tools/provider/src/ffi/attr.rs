// SPDX-License-Identifier: GPL-2.0

//! Attributes with which a program creates objects.
//!
//! They are read field by field: the structure of a program that was built with older headers is shorter, and its mask
//! tells which fields there are.

use super::{
    c,
    lock::Locking,
    object::{
        CqRef,
        Object,
        Pd,
        Td,
        Use, //
    },
};
use core::marker::PhantomData;

/// `struct ibv_qp_init_attr`.
#[derive(Clone, Copy)]
pub(crate) struct QpAttr<'a> {
    raw: *mut c::QpInitAttr,
    _lives: PhantomData<&'a c::QpInitAttr>,
}

impl QpAttr<'_> {
    /// Returns the attributes that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// They are valid while the result is used, and are not shared.
    pub(super) unsafe fn from_c(raw: *mut c::QpInitAttr) -> Self {
        Self {
            raw,
            _lives: PhantomData,
        }
    }

    /// Returns the pointer for C.
    pub(super) fn raw(self) -> *mut c::QpInitAttr {
        self.raw
    }

    /// Returns the sizes: the wished ones, or those of the QP that was created.
    pub(crate) fn cap(self) -> c::QpCap {
        // SAFETY: `from_c` demands that the attributes are valid.
        unsafe { (*self.raw).cap }
    }

    /// Returns the service type.
    pub(crate) fn kind(self) -> u32 {
        // SAFETY: `from_c` demands that the attributes are valid.
        unsafe { (*self.raw).qp_type }
    }

    /// Whether the QP has a shared receive queue.
    pub(crate) fn has_srq(self) -> bool {
        // SAFETY: `from_c` demands that the attributes are valid.
        !unsafe { (*self.raw).srq }.is_null()
    }

    /// Returns the completion queue of receives.
    pub(crate) fn recv_cq(self) -> Option<CqRef> {
        // SAFETY: As in `send_cq`.
        unsafe { CqRef::from_c((*self.raw).recv_cq) }
    }

    /// Returns the completion queue of sends.
    pub(crate) fn send_cq(self) -> Option<CqRef> {
        // SAFETY: `from_c` demands that the attributes are valid, so the queue is null or one of the context. The
        // kernel keeps it as long as the QP.
        unsafe { CqRef::from_c((*self.raw).send_cq) }
    }
}

/// `struct ibv_qp_init_attr_ex`.
#[derive(Clone, Copy)]
pub(crate) struct QpAttrEx<'a> {
    raw: *mut c::QpInitAttrEx,
    _lives: PhantomData<&'a c::QpInitAttr>,
}

impl<'a> QpAttrEx<'a> {
    /// Bits of `enum ibv_qp_init_attr_mask`.
    pub(crate) const PD: u32 = 1 << 0;
    pub(crate) const XRCD: u32 = 1 << 1;
    pub(crate) const CREATE_FLAGS: u32 = 1 << 2;
    pub(crate) const SEND_OPS_FLAGS: u32 = 1 << 6;

    /// Returns the attributes that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// They are valid while the result is used, with the fields that their mask has, and are not shared.
    pub(super) unsafe fn from_c(raw: *mut c::QpInitAttrEx) -> Self {
        Self {
            raw,
            _lives: PhantomData,
        }
    }

    /// Returns the pointer for C.
    pub(super) fn raw(self) -> *mut c::QpInitAttrEx {
        self.raw
    }

    /// Returns the part that is common to both.
    pub(crate) fn base(self) -> QpAttr<'a> {
        // SAFETY: The first field is that part, and `from_c` demands the same of it.
        unsafe { QpAttr::from_c(self.raw.cast()) }
    }

    /// Returns the mask.
    pub(crate) fn comp_mask(self) -> u32 {
        // SAFETY: `from_c` demands that the attributes are valid. Every program has this field.
        unsafe { (*self.raw).comp_mask }
    }

    /// Returns the protection domain, if there is one.
    pub(crate) fn pd(self) -> Option<&'a Pd> {
        if self.comp_mask() & Self::PD == 0 {
            return None;
        }
        // SAFETY: The mask says that the field is there, and the domain is null or one of the context.
        unsafe {
            let pd = (*self.raw).pd;
            (!pd.is_null()).then(|| Object::from_c(pd))
        }
    }

    /// Returns the flags of creation.
    pub(crate) fn create_flags(self) -> u32 {
        if self.comp_mask() & Self::CREATE_FLAGS == 0 {
            return 0;
        }
        // SAFETY: The mask says that the field is there.
        unsafe { (*self.raw).create_flags }
    }

    /// Returns the operations that the program wants to build, if it wants any.
    pub(crate) fn send_ops(self) -> Option<u64> {
        if self.comp_mask() & Self::SEND_OPS_FLAGS == 0 {
            return None;
        }
        // SAFETY: The mask says that the field is there.
        Some(unsafe { (*self.raw).send_ops_flags })
    }
}

/// `struct ibv_srq_init_attr_ex`.
#[derive(Clone, Copy)]
pub(crate) struct SrqAttrEx<'a> {
    raw: *mut c::SrqInitAttrEx,
    _lives: PhantomData<&'a c::SrqInitAttrEx>,
}

impl SrqAttrEx<'_> {
    const TYPE: u32 = 1 << 0;

    /// Returns the attributes that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// They are valid while the result is used, with the fields that their mask has, and are not shared.
    pub(super) unsafe fn from_c(raw: *mut c::SrqInitAttrEx) -> Self {
        Self {
            raw,
            _lives: PhantomData,
        }
    }

    /// Returns the pointer for C.
    pub(crate) fn raw(self) -> *mut c::SrqInitAttrEx {
        self.raw
    }

    /// Returns the type; that without a type is the basic one.
    pub(crate) fn kind(self) -> u32 {
        // SAFETY: `from_c` demands that the attributes are valid, with a type if the mask has one.
        unsafe {
            if (*self.raw).comp_mask & Self::TYPE == 0 {
                return 0;
            }
            (*self.raw).srq_type
        }
    }

    /// Returns the number of entries of a list: the wished one, or that of the queue that was created.
    pub(crate) fn max_sge(self) -> u32 {
        // SAFETY: `from_c` demands that the attributes are valid.
        unsafe { (*self.raw).max_sge }
    }
}

/// `struct ibv_cq_init_attr_ex`.
#[derive(Clone, Copy)]
pub(crate) struct CqAttrEx<'a> {
    raw: *mut c::CqInitAttrEx,
    _lives: PhantomData<&'a c::CqInitAttrEx>,
}

impl CqAttrEx<'_> {
    /// Bits of `enum ibv_cq_init_attr_mask`.
    pub(crate) const FLAGS: u32 = 1 << 0;
    pub(crate) const PARENT_DOMAIN: u32 = 1 << 1;

    /// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`
    const SINGLE_THREADED: u32 = 1 << 0;

    /// Returns the attributes that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// They are valid while the result is used, with the fields that their mask has, and are not shared.
    pub(super) unsafe fn from_c(raw: *mut c::CqInitAttrEx) -> Self {
        Self {
            raw,
            _lives: PhantomData,
        }
    }

    /// Returns the pointer for C.
    pub(super) fn raw(self) -> *mut c::CqInitAttrEx {
        self.raw
    }

    /// Returns the mask.
    pub(crate) fn comp_mask(self) -> u32 {
        // SAFETY: `from_c` demands that the attributes are valid.
        unsafe { (*self.raw).comp_mask }
    }

    /// Returns the fields of a completion that the program wants.
    pub(crate) fn wc_flags(self) -> u64 {
        // SAFETY: `from_c` demands that the attributes are valid.
        unsafe { (*self.raw).wc_flags }
    }

    /// Returns the flags.
    pub(crate) fn flags(self) -> u32 {
        if self.comp_mask() & Self::FLAGS == 0 {
            return 0;
        }
        // SAFETY: The mask says that the field is there.
        unsafe { (*self.raw).flags }
    }

    /// Whether the queue needs locks.
    pub(crate) fn locking(self) -> Locking {
        if self.flags() & Self::SINGLE_THREADED != 0 {
            // SAFETY: With this flag the program promises that one thread at a time uses the queue.
            return unsafe { Locking::omitted() };
        }
        if self.comp_mask() & Self::PARENT_DOMAIN == 0 {
            return Locking::NEEDED;
        }
        // SAFETY: The mask says that the field is there, and the domain is null or one of the context.
        let pd: Option<&Pd> = unsafe {
            let pd = (*self.raw).parent_domain;
            (!pd.is_null()).then(|| Object::from_c(pd))
        };
        pd.map_or(Locking::NEEDED, Pd::locking)
    }
}

/// `struct ibv_parent_domain_init_attr`.
#[derive(Clone, Copy)]
pub(crate) struct ParentAttr<'a>(&'a c::ParentDomainInitAttr);

impl<'a> ParentAttr<'a> {
    /// Returns the attributes that C knows by this pointer.
    ///
    /// # Safety
    ///
    /// They are valid while the result is used. The domains are null, or of the context.
    pub(super) unsafe fn from_c(raw: *const c::ParentDomainInitAttr) -> Self {
        // SAFETY: The caller guarantees that the attributes are valid. Every program has these fields.
        Self(unsafe { &*raw })
    }

    /// Returns the mask.
    pub(crate) fn comp_mask(self) -> u32 {
        self.0.comp_mask
    }

    /// Returns the protection domain, which is used from now on. `None` if there is none.
    pub(crate) fn pd(self) -> Option<(&'a Pd, Use)> {
        if self.0.pd.is_null() {
            return None;
        }
        // SAFETY: `from_c` demands that the domain is one of the context. Such a domain is freed only if there are no
        // users, see `pd::deallocate`.
        unsafe {
            let pd: &Pd = Object::from_c(self.0.pd);
            Some((pd, Use::new(pd.body().users())))
        }
    }

    /// Returns a use of the thread domain, if there is one.
    pub(crate) fn td(self) -> Option<Use> {
        if self.0.td.is_null() {
            return None;
        }
        // SAFETY: As in `pd`; see `dealloc_td`.
        unsafe {
            let td: &Td = Object::from_c(self.0.td);
            Some(Use::new(td.body()))
        }
    }
}
