// SPDX-License-Identifier: GPL-2.0

//! Pages that a consumer in the kernel lists, for fast registration.
//!
//! Owns the list, but not the pages: they belong to the consumer, who keeps them until the
//! registration is invalidated. Does not know keys. The addresses that such a consumer passes are
//! those of the kernel, because the device has no DMA of its own.
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

/// A list of pages of the kernel, as if they stood one behind the other.
///
/// # Invariants
///
/// `extents` begin at 0, rise, and together with `len` describe bytes of a consumer in the kernel
/// that are there for as long as it has them registered.
pub struct FastRegPages {
    pub(super) extents: KVVec<Extent>,
    pub(super) len: u64,
    /// Pages that were listed; neighbours share an extent.
    listed: u32,
    limit: u32,
}

impl FastRegPages {
    /// An empty list with room for `limit` pages.
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

    /// Bytes that are listed.
    pub fn length(&self) -> u64 {
        self.len
    }

    /// Adds the `size` bytes of the page at `address`. For any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the list is full.
    fn add(&mut self, address: *mut u8, size: u32) -> Result {
        if self.listed >= self.limit {
            return Err(ENOMEM);
        }
        let contiguous = self.extents.last().is_some_and(|last| {
            // CAST: `u64` to `usize`, on 64 bits.
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

    /// Takes `skip` bytes, of the first page, off the front, and off the end what exceeds `len`.
    fn cut(&mut self, skip: u64, len: u64) {
        for (place, extent) in self.extents.iter_mut().enumerate() {
            if place == 0 {
                // CAST: `u64` to `usize`, on 64 bits.
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

/// The scatter list that a consumer in the kernel wants to register: what `ib_map_mr_sg()` is
/// called with.
pub struct ScatterList<'a> {
    mr: NonNull<bindings::ib_mr>,
    list: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
    _call: PhantomData<&'a ()>,
}

/// What `ib_sg_to_pages()` takes for the region.
#[repr(C)]
struct Builder<'a> {
    mr: bindings::ib_mr,
    pages: &'a mut FastRegPages,
}

impl ScatterList<'_> {
    /// # Safety
    ///
    /// The arguments are those of a call of `map_mr_sg`, and stay valid while the result is used.
    /// The consumer keeps the bytes of the list for as long as it has them registered.
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

    /// Makes `pages` the list of as many elements as fit, and returns their number. Tells the
    /// consumer under which address it finds them. For any context.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the size of a page is no power of two, or there is nothing to list; `ENOMEM`: not
    /// even the first element fits.
    pub fn fill(self, pages: &mut FastRegPages) -> Result<u32> {
        pages.clear();
        // SAFETY: Valid, by the contract of `from_raw`, and ours for the time of the call.
        let size = unsafe { self.mr.as_ref() }.page_size;
        if !size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut builder = Builder {
            // SAFETY: Zeros are a region of no kind: null pointers and numbers.
            mr: unsafe { core::mem::zeroed() },
            pages: &mut *pages,
        };
        builder.mr.page_size = size;
        let builder = &raw mut builder;
        // SAFETY: The list is valid. `add_page` gets the region that is passed here, the first field
        // of a builder, and nothing else of a region is asked for.
        let count = unsafe {
            bindings::ib_sg_to_pages(
                builder.cast(),
                self.list,
                self.count,
                self.offset,
                Some(add_page),
            )
        };
        // SAFETY: Not shared.
        let (iova, length) = unsafe { ((*builder).mr.iova, (*builder).mr.length) };
        let listed = to_result(count).and_then(|()| Ok(u32::try_from(count)?));
        match listed {
            Ok(_) => {
                pages.cut(iova & u64::from(size.wrapping_sub(1)), length);
                // SAFETY: As above.
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
/// `mr` is the first field of a [`Builder`].
unsafe extern "C" fn add_page(mr: *mut bindings::ib_mr, address: u64) -> c_int {
    // SAFETY: As the function requires.
    let builder = unsafe { &mut *mr.cast::<Builder<'_>>() };
    // CAST: On 64 bits. Its device has no DMA, so the consumer's addresses are the kernel's.
    let address = ptr::with_exposed_provenance_mut(address as usize);
    match builder.pages.add(address, builder.mr.page_size) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
