// SPDX-License-Identifier: GPL-2.0

//! Requests and responses of a verb: since 7.2 the core has functions that check the first and pad the second.
//!
//! A request may be longer than the driver knows, if the rest is 0; a response may be shorter than the process expects,
//! and the rest is set to 0.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use crate::bindings;
use kernel::prelude::*;

#[cfg(has_checked_udata)]
mod core_functions {
    use super::*;
    use kernel::error::to_result;

    /// Reads a request that has at least the length of `request`.
    ///
    /// # Safety
    ///
    /// `udata` is that of a call.
    pub(crate) unsafe fn read(udata: *mut bindings::ib_udata, request: &mut [u8]) -> Result {
        // SAFETY: By the function's contract. The core writes `request.len()` bytes, to `request`.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                udata,
                request.as_mut_ptr().cast(),
                request.len(),
                request.len(),
            )
        })
    }

    /// Writes a response.
    ///
    /// # Safety
    ///
    /// `udata` is that of a call.
    pub(crate) unsafe fn respond(udata: *mut bindings::ib_udata, response: &[u8]) -> Result {
        // SAFETY: By the function's contract. The pointer and the length are those of a slice.
        to_result(unsafe {
            bindings::_ib_respond_udata(udata, response.as_ptr().cast(), response.len())
        })
    }
}

#[cfg(not(has_checked_udata))]
mod core_functions {
    use super::*;
    use crate::errno::EOPNOTSUPP;
    use kernel::uaccess::{
        UserPtr,
        UserSlice, //
    };

    /// Reads a request that has at least the length of `request`.
    ///
    /// # Safety
    ///
    /// `udata` is that of a call.
    pub(crate) unsafe fn read(udata: *mut bindings::ib_udata, request: &mut [u8]) -> Result {
        // SAFETY: By the function's contract.
        let (address, length) = unsafe { ((*udata).inbuf, (*udata).inlen) };
        if length < request.len() {
            return Err(EINVAL);
        }
        let mut reader = UserSlice::new(UserPtr::from_ptr(address.cast_mut()), length).reader();
        reader.read_slice(request)?;
        while !reader.is_empty() {
            let mut rest = [0; 64];
            let rest = rest.get_mut(..reader.len().min(64)).ok_or(EINVAL)?;
            reader.read_slice(rest)?;
            if rest.iter().any(|byte| *byte != 0) {
                return Err(EOPNOTSUPP);
            }
        }
        Ok(())
    }

    /// Writes a response.
    ///
    /// # Safety
    ///
    /// `udata` is that of a call.
    pub(crate) unsafe fn respond(udata: *mut bindings::ib_udata, response: &[u8]) -> Result {
        // SAFETY: By the function's contract.
        let (address, length) = unsafe { ((*udata).outbuf, (*udata).outlen) };
        let mut writer = UserSlice::new(UserPtr::from_ptr(address), length).writer();
        writer.write_slice(response.get(..length).unwrap_or(response))?;
        while !writer.is_empty() {
            writer.write_slice([0; 64].get(..writer.len().min(64)).ok_or(EINVAL)?)?;
        }
        Ok(())
    }
}

pub(crate) use core_functions::{
    read,
    respond, //
};

/// Returns an error unless the request is empty: it may need a feature of a newer ABI.
///
/// # Safety
///
/// `udata` is null or that of a call.
pub(crate) unsafe fn expect_empty(udata: *mut bindings::ib_udata) -> Result {
    // SAFETY: By the function's contract.
    match udata.is_null() || unsafe { (*udata).inlen } == 0 {
        true => Ok(()),
        // SAFETY: By the function's contract.
        false => unsafe { read(udata, &mut []) },
    }
}

/// As [`expect_empty`], and zeroes the response, for a verb without private data.
///
/// # Safety
///
/// `udata` is null or that of a call.
pub(crate) unsafe fn expect_none(udata: *mut bindings::ib_udata) -> Result {
    // SAFETY: By the function's contract.
    unsafe {
        expect_empty(udata)?;
        match udata.is_null() || (*udata).outlen == 0 {
            true => Ok(()),
            false => respond(udata, &[]),
        }
    }
}
