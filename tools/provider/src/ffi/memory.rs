// SPDX-License-Identifier: GPL-2.0

//! Memory: rings, which are shared with the kernel, and what is allocated.

use super::{
    libc,
    wr::UserBytes, //
};
use crate::{
    abi::direct::Mapping,
    errno::Errno,
    ring::Memory,
    sync::{
        AtomicU32,
        AtomicU64, //
    },
};
use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::{
        self,
        NonNull, //
    },
    slice, //
};

/// A mapped ring. A process that is forked shares it: there is no copy that could differ from the kernel's.
pub(crate) struct Map {
    words: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: The memory is not bound to a thread, and all of it is atomic.
unsafe impl Send for Map {}

impl Map {
    /// Maps a ring of the context that has this file.
    ///
    /// # Errors
    ///
    /// Those of `mmap`; `EINVAL` if there is no such ring.
    pub(crate) fn new(fd: i32, mapping: Mapping) -> Result<Self, Errno> {
        let bytes = usize::try_from(mapping.size).map_err(|_| Errno::INVAL)?;
        let offset = i64::try_from(mapping.offset).map_err(|_| Errno::INVAL)?;
        if bytes == 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: Without an address, the kernel chooses one that is free. Failure is told from an address below.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ_WRITE,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        let failed = mapped.addr() == usize::MAX;
        let words = NonNull::new(mapped.cast()).filter(|_| !failed);
        let words = words.ok_or_else(libc::errno)?;
        Ok(Self { words, bytes })
    }
}

impl Memory for Map {
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: The mapping has `bytes` bytes, is aligned to a page, and stays until `self` is dropped. Any bits
        // are an `AtomicU64`, and the kernel's stores are atomic.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.bytes / 8) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: The mapping was made in `new`, and no reference to it is left.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.bytes) };
    }
}

/// Returns the words of 32 bits that the words consist of. A word is to be accessed with one of both widths only.
#[inline]
pub(crate) fn halves(words: &[AtomicU64]) -> &[AtomicU32] {
    let (at, length) = (words.as_ptr().cast::<AtomicU32>(), words.len());
    // SAFETY: The memory of an `AtomicU64` is that of two `AtomicU32`, whose alignment is smaller, and both may be
    // written through a shared reference. There are no more than `isize::MAX` bytes, so twice the length is right.
    unsafe { slice::from_raw_parts(at, length.wrapping_mul(2)) }
}

/// Copies bytes of the program to the words, from this byte on. `None` if they do not fit.
#[inline]
pub(crate) fn copy_in(words: &[AtomicU64], at: usize, from: UserBytes<'_>) -> Option<()> {
    let end = at.checked_add(from.len())?;
    if end > words.len().wrapping_mul(8) {
        return None;
    }
    let to = words.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: `UserBytes` may be read, and the words may be written through a shared reference, at `at..end`, which
    // is inside. The kernel does not read an element before its index is published.
    unsafe { ptr::copy(from.as_ptr(), to.add(at), from.len()) };
    Some(())
}

/// Memory of libc's allocator: a `Box`.
pub(crate) struct Owned<T>(NonNull<T>);

impl<T> Owned<T> {
    /// Moves `value` to allocated memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(value: T) -> Result<Self, Errno> {
        const { assert!(align_of::<T>() <= 16) };
        // SAFETY: The function has no conditions. It returns null, or memory that is aligned for all basic types.
        let memory = unsafe { libc::malloc(size_of::<T>().max(1)) };
        let memory = NonNull::new(memory.cast::<T>()).ok_or(Errno::NOMEM)?;
        // SAFETY: `memory` was just allocated with this size, and the alignment was checked above.
        unsafe { memory.write(value) };
        Ok(Self(memory))
    }

    /// Gives the memory away, until [`from_raw`](Self::from_raw).
    pub(super) fn into_raw(self) -> *mut T {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// Takes back what was given away. `None` for null.
    ///
    /// # Safety
    ///
    /// `raw` is from [`into_raw`](Self::into_raw), and is not used any more.
    pub(super) unsafe fn from_raw(raw: *mut T) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The value is initialized, and lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As in `deref`, and `self` is not shared.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: The value is initialized, and was allocated with `malloc`. It is not used any more.
        unsafe {
            self.0.drop_in_place();
            libc::free(self.0.as_ptr().cast());
        }
    }
}
