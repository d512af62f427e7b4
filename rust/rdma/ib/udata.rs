// SPDX-License-Identifier: GPL-2.0

//! Private data of a verb that user space called (`struct ib_udata`).
//!
//! A driver uses it to respond, and to make rings available for mapping. The requests of the ABIs served here are
//! empty, which is checked before the driver is called, but for two verbs: `get_context` asks for an ABI, and
//! `modify_srq` passes the address of its response.
//! Process context, in the task that called the verb.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use crate::{
    bindings,
    compat::udata,
    errno::EOPNOTSUPP,
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
    prelude::*,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Checks that a verb has no request, and zeroes its response.
pub(crate) use crate::compat::udata::expect_none;

/// The request to open a device. Borrowed for the call.
pub struct OpenRequest(NonNull<bindings::ib_udata>);

impl OpenRequest {
    /// # Safety
    ///
    /// `udata` is that of a call, and outlives the result.
    pub(crate) unsafe fn from_raw(udata: *mut bindings::ib_udata) -> Result<Self> {
        NonNull::new(udata).map(Self).ok_or(EINVAL)
    }

    /// Returns the request. `None` if it is empty, or has zeroes only; the response is zeroed then.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is shorter than `T`; `EOPNOTSUPP` if it is longer, and not 0 there; `EFAULT`.
    pub fn read<T: FromBytes + IntoBytes>(&mut self) -> Result<Option<T>> {
        let udata = self.0.as_ptr();
        // SAFETY: By the invariant of `from_raw`, `udata` is that of a call.
        unsafe {
            if udata::expect_empty(udata).is_ok() {
                return expect_none(udata).map(|()| None);
            }
            let mut request = T::new_zeroed();
            udata::read(udata, request.as_mut_bytes())?;
            Ok(Some(request))
        }
    }

    /// Writes the response.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process's buffer is too small; `EFAULT` if it is not writable.
    pub fn respond(&mut self, response: &(impl IntoBytes + Immutable)) -> Result {
        // SAFETY: By the invariant of `from_raw`, `udata` is that of a call, which has not ended.
        unsafe { respond(self.0, response.as_bytes()) }
    }
}

/// Writes the response to a verb.
///
/// # Errors
///
/// As [`UserContext::respond`].
///
/// # Safety
///
/// `udata` is that of a call.
unsafe fn respond(udata: NonNull<bindings::ib_udata>, bytes: &[u8]) -> Result {
    // SAFETY: By the function's contract.
    unsafe {
        match udata.as_ref().outlen < bytes.len() {
            true => Err(EINVAL),
            false => udata::respond(udata.as_ptr(), bytes),
        }
    }
}

/// A verb that user space called: its user context, and the destination of the response. Borrowed for the call.
///
/// `U` is the driver's part of a user context.
pub struct UserContext<U> {
    udata: NonNull<bindings::ib_udata>,
    context: NonNull<bindings::ib_ucontext>,
    mappings: Mappings,
    /// Address of the response, if the request contained one.
    response_addr: Option<usize>,
    _ucontext: PhantomData<Arc<U>>,
}

impl<U> UserContext<U> {
    /// Checks that the request is empty. Returns `None` for a ULP, whose `udata` is null.
    ///
    /// # Safety
    ///
    /// `udata` is null, or that of a call with a user context whose driver part is a `U`. Both outlive the result.
    pub(crate) unsafe fn from_raw(udata: *mut bindings::ib_udata) -> Result<Option<Self>> {
        let Some(udata) = NonNull::new(udata) else {
            return Ok(None);
        };
        // SAFETY: The caller guarantees that `udata` is that of a call with a user context of a `U`, which is all
        // that the two functions need.
        unsafe {
            udata::expect_empty(udata.as_ptr())?;
            Self::new(udata).map(Some)
        }
    }

    /// As [`UserContext::from_raw`], for a verb that creates a queue. Queues are in kernel memory, which the
    /// process maps. `buffer_attrs` are the attributes (`ib_user_ioctl_cmds.h`) by which a process requests its own
    /// memory.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the call has one of these attributes.
    ///
    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    pub(crate) unsafe fn for_queue(
        udata: *mut bindings::ib_udata,
        buffer_attrs: &[u32],
    ) -> Result<Option<Self>> {
        // SAFETY: The caller guarantees what `from_raw` needs. The helper is called only if that returned a
        // context, so `udata` is not null and belongs to the attribute bundle of a call. A call by `write()` has no
        // attributes; the helper returns false for it.
        unsafe {
            let user = Self::from_raw(udata)?;
            let asks = |&id: &u32| bindings::ferroce_helper_udata_has_attr(udata, id);
            match user.is_some() && buffer_attrs.iter().any(asks) {
                true => Err(EOPNOTSUPP),
                false => Ok(user),
            }
        }
    }

    /// As [`UserContext::from_raw`], for the verb whose request is the address of its response (`struct
    /// rxe_modify_srq_cmd`).
    ///
    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    pub(crate) unsafe fn with_response_addr(
        udata: *mut bindings::ib_udata,
    ) -> Result<Option<Self>> {
        let Some(udata) = NonNull::new(udata) else {
            return Ok(None);
        };
        let mut request = [0u8; size_of::<u64>()];
        // SAFETY: The caller guarantees that `udata` is that of a call with a user context of a `U`.
        let user = unsafe {
            udata::read(udata.as_ptr(), &mut request)?;
            Self::new(udata)?
        };
        Ok(Some(Self {
            // CAST: A user-space address, on 64 bits. It is checked when it is used.
            response_addr: Some(u64::from_ne_bytes(request) as usize),
            ..user
        }))
    }

    /// # Safety
    ///
    /// As for [`UserContext::from_raw`].
    unsafe fn new(udata: NonNull<bindings::ib_udata>) -> Result<Self> {
        // SAFETY: The caller guarantees that `udata` is that of a call, so it is part of an attribute bundle.
        let context = unsafe { bindings::ferroce_helper_rdma_udata_to_ucontext(udata.as_ptr()) };
        Ok(Self {
            udata,
            context: NonNull::new(context).ok_or(EINVAL)?,
            mappings: Mappings::default(),
            response_addr: None,
            _ucontext: PhantomData,
        })
    }

    /// Returns the user context of the call.
    pub fn ucontext(&self) -> &Arc<U> {
        // SAFETY: `context` came from the udata of the call, whose user context has a `U` as its driver part
        // (`from_raw`) and outlives the call.
        unsafe { object::Ucontext::<U>::data(self.context.as_ptr()) }
    }

    /// Lets the process map `ring`, for as long as the object exists that the verb creates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` for a third ring of one object.
    pub fn map_ring(&mut self, ring: &Arc<Ring>) -> Result<MmapInfo> {
        // SAFETY: The context outlives the mapping: either `self` drops it, during the call, or an object of this
        // context does, and the core destroys a context after its objects.
        unsafe { self.mappings.add(self.context.as_ptr(), ring.clone()) }
    }

    /// Writes the response.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the process's buffer is too small; `EFAULT` if it is not writable.
    pub fn respond(&mut self, response: &(impl IntoBytes + Immutable)) -> Result {
        let bytes = response.as_bytes();
        if let Some(at) = self.response_addr {
            let to = UserSlice::new(UserPtr::from_addr(at), bytes.len());
            return to.writer().write_slice(bytes);
        }
        // SAFETY: `udata` is that of a call, which has not ended.
        unsafe { respond(self.udata, bytes) }
    }

    /// Takes the mappings made by this call. They exist for as long as the result.
    pub(crate) fn take_mappings(&mut self) -> Mappings {
        mem::take(&mut self.mappings)
    }
}
