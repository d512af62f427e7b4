// SPDX-License-Identifier: GPL-2.0

//! Memory whose size a user chooses: flags, and an allocator.
//!
//! C header: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h)

use core::{
    alloc::Layout,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        allocator::{
            KVmalloc,
            Vmalloc, //
        },
        flags::{
            GFP_KERNEL_ACCOUNT,
            __GFP_NOWARN, //
        },
        AllocError,
        Allocator,
        Flags,
        NumaNode, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};

/// Returns flags for memory that user space causes the kernel to allocate.
///
/// The memory is charged to the user's memory cgroup. A failure is not logged, because a user can reach its
/// limit as often as it likes. The allocation may sleep.
#[inline]
pub fn gfp_user() -> Flags {
    GFP_KERNEL_ACCOUNT | __GFP_NOWARN
}

/// Allocator of tables whose length a user chooses. Unlike [`KVmalloc`], it takes whole pages where `kmalloc()` would
/// round up by one page or more: a table of 18 KiB takes 20 KiB instead of 32.
pub struct TableAllocator;

/// A table; see [`TableAllocator`].
pub type Table<T> = kernel::alloc::Vec<T, TableAllocator>;

/// Returns a table of `len` times `value`. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub fn table<T: Copy>(value: T, len: usize) -> Result<Table<T>> {
    let mut table = Table::with_capacity(len, gfp_user())?;
    // Not `from_elem`, in which the compiler does not see that an index is below the capacity.
    for _ in 0..len {
        table.push(value, gfp_user())?;
    }
    Ok(table)
}

/// Returns whether `kmalloc()` wastes a page or more of a table of `size` bytes. It rounds up to a power of two.
const fn wastes_a_page(size: usize) -> bool {
    match (
        size.checked_next_power_of_two(),
        size.checked_next_multiple_of(PAGE_SIZE),
    ) {
        (Some(rounded), Some(pages)) => rounded.saturating_sub(pages) >= PAGE_SIZE,
        _ => false,
    }
}

// SAFETY: All memory is of `KVmalloc` or of `Vmalloc`. `KVmalloc` reallocates and frees that of `Vmalloc`, too, as
// `kvrealloc()` does: it asks for the kind of the memory. Both align at least to `KVmalloc::MIN_ALIGN`.
unsafe impl Allocator for TableAllocator {
    const MIN_ALIGN: usize = KVmalloc::MIN_ALIGN;

    #[inline]
    unsafe fn realloc(
        ptr: Option<NonNull<u8>>,
        layout: Layout,
        old_layout: Layout,
        flags: Flags,
        nid: NumaNode,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let is_new = ptr.is_none() || old_layout.size() == 0;
        match is_new && wastes_a_page(layout.size()) {
            true => Vmalloc::alloc(layout, flags, nid),
            // SAFETY: By the function's contract; see above.
            false => unsafe { KVmalloc::realloc(ptr, layout, old_layout, flags, nid) },
        }
    }
}
