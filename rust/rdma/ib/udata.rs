// SPDX-License-Identifier: GPL-2.0

//! The private part of a verb that user space called.
//!
//! Owns what a driver may do with it: answer, and offer rings for mapping. Requests of the ABIs
//! served here are empty, which is checked before the driver is asked; but for one that says where
//! the answer goes.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use crate::{
    bindings,
    ib::{
        mmap::{
            Mappings,
            MmapInfo, //
        },
        object,
        ring::Ring, //
    }, //
};
use core::{
    marker::PhantomData,
    mem,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use zerocopy::{
    Immutable,
    IntoBytes, //
};

/// A verb that user space called: who called, and where the answer goes. Lent for the call.
///
/// `U` is the driver's part of a user context.
pub struct UserContext<U> {
    udata: NonNull<bindings::ib_udata>,
    context: NonNull<bindings::ib_ucontext>,
    mappings: Mappings,
    /// Where the answer goes, if not to where the core takes it.
    answer_at: Option<usize>,
    _ucontext: PhantomData<Arc<U>>,
}

impl<U> UserContext<U> {
    /// Checks that the request is empty. `None` for a caller in the kernel, whose `udata` is null.
    ///
    /// # Safety
    ///
    /// `udata` is null, or that of a call which has a user context whose driver part is a `U`; both
    /// outlive the result.
    pub(crate) unsafe fn from_raw(udata: *mut bindings::ib_udata) -> Result<Option<Self>> {
        let Some(udata) = NonNull::new(udata) else {
            return Ok(None);
        };
        // SAFETY: As the function requires.
        unsafe {
            expect_empty(udata.as_ptr())?;
            Self::new(udata).map(Some)
        }
    }

    /// As [`UserContext::from_raw`], for a verb that creates a queue. Queues lie in memory of the kernel, which the
    /// caller maps; `buffers` are the attributes (numbers of `ib_user_ioctl_cmds.h`) that ask for his own.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: he has given one of them.
    ///
    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    pub(crate) unsafe fn for_queue(
        udata: *mut bindings::ib_udata,
        buffers: &[u32],
    ) -> Result<Option<Self>> {
        // SAFETY: As the function requires. A call that came by `write()` has no attributes, which the core says.
        unsafe {
            let user = Self::from_raw(udata)?;
            let asks = |&id: &u32| bindings::ferroce_helper_udata_has_attr(udata, id);
            match user.is_some() && buffers.iter().any(asks) {
                true => Err(EOPNOTSUPP),
                false => Ok(user),
            }
        }
    }

    /// As [`UserContext::from_raw`], for the one verb whose request is not empty but the address where
    /// the answer goes (`struct rxe_modify_srq_cmd`).
    ///
    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    pub(crate) unsafe fn with_answer_at(udata: *mut bindings::ib_udata) -> Result<Option<Self>> {
        let Some(udata) = NonNull::new(udata) else {
            return Ok(None);
        };
        let mut request = [0u8; size_of::<u64>()];
        // SAFETY: As the function requires; the pointer and the length are those of a slice.
        let user = unsafe {
            to_result(bindings::_ib_copy_validate_udata_in(
                udata.as_ptr(),
                request.as_mut_ptr().cast(),
                request.len(),
                request.len(),
            ))?;
            Self::new(udata)?
        };
        Ok(Some(Self {
            // CAST: An address of user space, on 64 bits; checked when it is used.
            answer_at: Some(u64::from_ne_bytes(request) as usize),
            ..user
        }))
    }

    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    unsafe fn new(udata: NonNull<bindings::ib_udata>) -> Result<Self> {
        // SAFETY: As the function requires.
        let context = unsafe { bindings::ferroce_helper_rdma_udata_to_ucontext(udata.as_ptr()) };
        Ok(Self {
            udata,
            context: NonNull::new(context).ok_or(EINVAL)?,
            mappings: Mappings::default(),
            answer_at: None,
            _ucontext: PhantomData,
        })
    }

    /// The user context that the call belongs to.
    pub fn ucontext(&self) -> &Arc<U> {
        // SAFETY: The context is what `from_raw` wants, and outlives the call.
        unsafe { object::Ucontext::<U>::data(self.context.as_ptr()) }
    }

    /// Lets the caller map `ring` for as long as the object lives that is being created.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` for the third ring of an object.
    pub fn map_ring(&mut self, ring: &Arc<Ring>) -> Result<MmapInfo> {
        // SAFETY: The mapping goes to an object of this context, or with us; the core destroys a
        // context after its objects.
        unsafe { self.mappings.add(self.context.as_ptr(), ring.clone()) }
    }

    /// Answers.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the caller leaves too little room; `EFAULT`.
    pub fn respond(&mut self, response: &(impl IntoBytes + Immutable)) -> Result {
        let bytes = response.as_bytes();
        if let Some(at) = self.answer_at {
            let to = UserSlice::new(UserPtr::from_addr(at), bytes.len());
            return to.writer().write_slice(bytes);
        }
        // SAFETY: The structure outlives us.
        if unsafe { self.udata.as_ref() }.outlen < bytes.len() {
            return Err(EINVAL);
        }
        // SAFETY: As above; the pointer and the length are those of a slice.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.udata.as_ptr(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// The rings that were offered; they live as long as the result.
    pub(crate) fn take_mappings(&mut self) -> Mappings {
        mem::take(&mut self.mappings)
    }
}

/// Refuses a call that asks for something which this ABI does not know.
///
/// # Safety
///
/// `udata` is null or that of a call.
pub(crate) unsafe fn expect_empty(udata: *mut bindings::ib_udata) -> Result {
    // SAFETY: As the function requires.
    to_result(unsafe { bindings::ferroce_helper_ib_is_udata_in_empty(udata) })
}

/// Refuses a call as [`expect_empty`] does, and fills the answer with zeros.
///
/// # Safety
///
/// `udata` is null or that of a call.
pub(crate) unsafe fn expect_none(udata: *mut bindings::ib_udata) -> Result {
    // SAFETY: As the function requires.
    to_result(unsafe { bindings::ferroce_helper_ib_no_udata_io(udata) })
}
