// SPDX-License-Identifier: GPL-2.0

//! Page lists of kernel consumers (ULPs), for fast registration.
//!
//! The list does not own the pages: the ULP keeps them until it invalidates the registration. The device has
//! no DMA of its own, so the DMA addresses that a ULP passes are kernel addresses.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::mm::extents::Extent;
use crate::{
    bindings,
    util::alloc::gfp_user, //
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Pages of a kernel consumer, addressed as one contiguous range.
///
/// # Invariants
///
/// `extents` begin at offset 0 and ascend. Together with `len` they describe bytes that the ULP keeps valid
/// while they are registered.
pub struct FastRegPages {
    pub(super) extents: KVVec<Extent>,
    pub(super) len: u64,
    /// Number of listed pages. Adjacent pages share an extent.
    listed: u32,
    limit: u32,
}

impl FastRegPages {
    /// Creates an empty list with room for `limit` pages. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(limit: u32) -> Result<Self> {
        Ok(Self {
            extents: KVVec::with_capacity(limit as usize, gfp_user())?,
            len: 0,
            listed: 0,
            limit,
        })
    }

    /// Returns the length of the listed memory in bytes.
    pub fn length(&self) -> u64 {
        self.len
    }

    /// Appends a page of `size` bytes at `address`. For any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the list is full.
    fn add(&mut self, address: *mut u8, size: u32) -> Result {
        if self.listed >= self.limit {
            return Err(ENOMEM);
        }
        let contiguous = self.extents.last().is_some_and(|last| {
            // CAST: `u64` to `usize`, which has 64 bits.
            let inside = self.len.wrapping_sub(last.offset) as usize;
            last.address.wrapping_add(inside) == address
        });
        if !contiguous {
            let offset = self.len;
            self.extents
                .push_within_capacity(Extent { offset, address })
                .map_err(|_| ENOMEM)?;
        }
        self.listed = self.listed.wrapping_add(1);
        self.len = self.len.wrapping_add(u64::from(size));
        Ok(())
    }

    /// Removes the first `skip` bytes, which are in the first page, and shortens the rest to `len` bytes.
    fn trim(&mut self, skip: u64, len: u64) {
        for (index, extent) in self.extents.iter_mut().enumerate() {
            if index == 0 {
                // CAST: `u64` to `usize`, which has 64 bits.
                extent.address = extent.address.wrapping_add(skip as usize);
            } else {
                extent.offset = extent.offset.saturating_sub(skip);
            }
        }
        self.len = self.len.saturating_sub(skip).min(len);
    }

    fn clear(&mut self) {
        self.extents.clear();
        self.len = 0;
        self.listed = 0;
    }
}

/// The scatterlist that a kernel consumer registers: the arguments of `ib_map_mr_sg()`.
pub struct ScatterList<'a> {
    mr: NonNull<bindings::ib_mr>,
    list: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
    _call: PhantomData<&'a ()>,
}

/// The region that `ib_sg_to_pages()` fills, and the list that [`add_page`] appends to.
#[repr(C)]
struct Builder<'a> {
    mr: bindings::ib_mr,
    pages: &'a mut FastRegPages,
}

impl ScatterList<'_> {
    /// # Safety
    ///
    /// The arguments must be those of a call of `map_mr_sg`, and stay valid while the result is used. The
    /// consumer must keep the bytes of the list valid while they are registered.
    pub(crate) unsafe fn from_raw(
        mr: NonNull<bindings::ib_mr>,
        list: *mut bindings::scatterlist,
        count: c_int,
        offset: *mut c_uint,
    ) -> Self {
        Self {
            mr,
            list,
            count,
            offset,
            _call: PhantomData,
        }
    }

    /// Replaces the contents of `pages` by as many elements of the scatterlist as fit, and returns their
    /// number. Sets address and length of the consumer's region. For any context.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the page size is no power of two, or the scatterlist is empty.
    /// - `ENOMEM`: not even the first element fits.
    pub fn fill(self, pages: &mut FastRegPages) -> Result<u32> {
        pages.clear();
        // SAFETY: The region is valid by the contract of `from_raw`. The consumer does not change it during
        // the call.
        let size = unsafe { self.mr.as_ref() }.page_size;
        if !size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut builder = Builder {
            // SAFETY: `ib_mr` consists of integers, nullable pointers and C structures of such, so all zeroes
            // are a valid value.
            mr: unsafe { core::mem::zeroed() },
            pages: &mut *pages,
        };
        builder.mr.page_size = size;
        let builder = &raw mut builder;
        // SAFETY: List, count and offset are valid by the contract of `from_raw`. The region passed is the
        // first field of a `Builder`, as `add_page` requires; C reads only its `page_size`, and writes `iova`
        // and `length`.
        let count = unsafe {
            bindings::ib_sg_to_pages(
                builder.cast(),
                self.list,
                self.count,
                self.offset,
                Some(add_page),
            )
        };
        // SAFETY: `builder` points to the local value, which C no longer uses.
        let (iova, length) = unsafe { ((*builder).mr.iova, (*builder).mr.length) };
        let listed = to_result(count).and_then(|()| Ok(u32::try_from(count)?));
        match listed {
            Ok(_) => {
                pages.trim(iova & u64::from(size.wrapping_sub(1)), length);
                // SAFETY: The region is valid by the contract of `from_raw`, and in this call only the driver
                // writes to it.
                unsafe {
                    (*self.mr.as_ptr()).iova = iova;
                    (*self.mr.as_ptr()).length = length;
                }
            }
            Err(_) => pages.clear(),
        }
        listed
    }
}

/// # Safety
///
/// `mr` must be the first field of a [`Builder`] that nothing else accesses during the call.
unsafe extern "C" fn add_page(mr: *mut bindings::ib_mr, address: u64) -> c_int {
    // SAFETY: By the function's contract `mr` is the first field of a `Builder`, which is `repr(C)`, so their
    // addresses are equal. Access is exclusive.
    let builder = unsafe { &mut *mr.cast::<Builder<'_>>() };
    // CAST: `u64` to `usize`, which has 64 bits. The device has no DMA of its own, so the address is a kernel
    // address.
    let address = ptr::with_exposed_provenance_mut(address as usize);
    match builder.pages.add(address, builder.mr.page_size) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
