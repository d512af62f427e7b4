// SPDX-License-Identifier: GPL-2.0

//! A table of reference-counted objects, indexed by number (an xarray).
//!
//! A lookup runs in any context, in a [`ReadSection`], without a lock or a reference count. Removal waits until no
//! reader uses the object any more, and sleeps. RCU protects the nodes of the table itself.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use crate::{
    bindings,
    sync::read_section::{
        self,
        ReadSection, //
    },
    util::random, //
};
use core::{
    cell::UnsafeCell,
    ffi::c_void,
    marker::PhantomData,
    ops::Range,
    ptr, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    types::{
        ForeignOwnable,
        Opaque, //
    }, //
};

/// A table of numbered objects.
///
/// # Invariants
///
/// - Every entry comes from `Arc::<T>::into_foreign` and owns a reference, which is released when all sections
///   have ended that were open when the entry was erased.
/// - `next` is accessed only under the lock of `entries`.
#[pin_data(PinnedDrop)]
pub struct RcuTable<T: 'static> {
    #[pin]
    entries: Opaque<bindings::xarray>,
    next: UnsafeCell<u32>,
    _owns: PhantomData<Arc<T>>,
}

// SAFETY: The xarray does its own locking. Many tasks get references to objects, and any of them may drop
// one.
unsafe impl<T: Send + Sync> Send for RcuTable<T> {}
// SAFETY: As for `Send`; `next` is protected by the lock.
unsafe impl<T: Send + Sync> Sync for RcuTable<T> {}

impl<T: 'static> RcuTable<T> {
    /// Creates an empty table.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole xarray in place.
            entries <- Opaque::ffi_init(|xa| unsafe {
                let flags = bindings::XA_FLAGS_ALLOC | bindings::FERROCE_XA_FLAGS_ACCOUNT;
                bindings::xa_init_flags(xa, flags);
            }),
            next: UnsafeCell::new(0),
            _owns: PhantomData,
        })
    }

    /// Stores `object` under a free number of `range`, and returns the number. Numbers are assigned
    /// cyclically, so a released number is not reused at once. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if no number is free.
    pub fn alloc_cyclic(&self, range: Range<u32>, object: Arc<T>) -> Result<u32> {
        self.alloc(range, object, |next| next)
    }

    /// Stores `object` under a free number of `range` that cannot be guessed, and returns the number. Sleeps.
    ///
    /// # Errors
    ///
    /// As [`RcuTable::alloc_cyclic`].
    pub fn alloc_random(&self, range: Range<u32>, object: Arc<T>) -> Result<u32> {
        let count = range.end.wrapping_sub(range.start);
        let distance = random::u32().checked_rem(count).ok_or(ENOMEM)?;
        let first = range.start.wrapping_add(distance);
        self.alloc(range, object, |_| first)
    }

    /// Stores `object` under the first free number of `range`. The search begins at the number that `first`
    /// computes from the one after the last assigned, and wraps around.
    fn alloc(
        &self,
        range: Range<u32>,
        object: Arc<T>,
        first: impl FnOnce(u32) -> u32,
    ) -> Result<u32> {
        let limit = bindings::xa_limit {
            min: range.start,
            max: range.end.checked_sub(1).ok_or(ENOMEM)?,
        };
        let mut id = 0;
        self.insert(object, |xa, entry| {
            // SAFETY: `insert` calls this with the lock held, as `__xa_alloc_cyclic` requires, and by the
            // type invariant the lock protects `next`. With `GFP_KERNEL` C may drop and retake the lock to
            // allocate memory. Another caller may then change `next`, which is harmless: C reads it before
            // and writes it after the search, always under the lock; its value is a hint where to begin, and
            // C assigns free numbers only.
            unsafe {
                let (next, gfp) = (self.next.get(), bindings::GFP_KERNEL_ACCOUNT);
                *next = first(*next);
                bindings::__xa_alloc_cyclic(xa, &mut id, entry, limit, next, gfp)
            }
        })
        .map_err(|_| ENOMEM)?;
        Ok(id)
    }

    /// Stores `object` under number `id`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is taken; `ENOMEM`.
    pub fn insert_at(&self, id: impl Into<u64>, object: Arc<T>) -> Result {
        let id = index(id);
        self.insert(object, |xa, entry| {
            // SAFETY: `insert` calls this with the lock held, as `__xa_insert` requires, and in a context
            // that may sleep.
            unsafe { bindings::__xa_insert(xa, id, entry, bindings::GFP_KERNEL_ACCOUNT) }
        })
    }

    /// Calls `store` with the table locked, to store a reference to `object`.
    fn insert(
        &self,
        object: Arc<T>,
        store: impl FnOnce(*mut bindings::xarray, *mut c_void) -> c_int,
    ) -> Result {
        // The xarray uses the two low bits of an entry.
        const { assert!(<Arc<T> as ForeignOwnable>::FOREIGN_ALIGN >= 4) };
        let entry = object.into_foreign();
        let xa = self.entries.get();
        // SAFETY: The xarray is initialised and not locked by this context, so it can be locked here and
        // unlocked after `store`, which returns with the lock held.
        let stored = unsafe {
            bindings::xa_lock(xa);
            let stored = store(xa, entry.cast());
            bindings::xa_unlock(xa);
            stored
        };
        to_result(stored).inspect_err(|_| {
            // SAFETY: Nothing was stored, so the reference from `into_foreign` is still ours.
            drop(unsafe { Arc::<T>::from_foreign(entry) });
        })
    }

    /// Returns the object under number `id`. For any context.
    #[inline]
    pub fn get<'g>(&'g self, id: impl Into<u64>, guard: &'g ReadSection) -> Option<&'g T> {
        let entry = self.load(id, guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: The entry owns a reference, which by the type invariant is released only after the
        // sections that are open, and `guard` is one for `'g`. So the object outlives the `ArcBorrow`, whose own
        // lifetime ends here.
        Some(unsafe { &*ptr::from_ref::<T>(&Arc::<T>::borrow(entry)) })
    }

    /// Returns an iterator over all objects, in the order of their numbers. For any context. An object that
    /// is added or removed meanwhile may be missed.
    pub fn iter<'g>(&'g self, guard: &'g ReadSection) -> impl Iterator<Item = &'g T> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let entry = self.find(&mut at, guard);
            at = at.wrapping_add(1);
            // SAFETY: As in `get`: the entry's reference keeps the object while `guard` is held.
            (!entry.is_null()).then(|| unsafe { &*ptr::from_ref::<T>(&Arc::<T>::borrow(entry)) })
        })
    }

    /// Returns the first entry whose number is not below `at`, or null, and sets `at` to its number.
    fn find(&self, at: &mut usize, _guard: &ReadSection) -> *mut c_void {
        let xa = self.entries.get();
        // SAFETY: The xarray is initialised; `xa_find` locks RCU itself.
        unsafe { bindings::xa_find(xa, at, u32::MAX as usize, bindings::XA_PRESENT) }
    }

    /// As [`RcuTable::get`], but allows the caller to take a reference.
    #[inline]
    pub fn borrow<'g>(
        &'g self,
        id: impl Into<u64>,
        guard: &'g ReadSection,
    ) -> Option<ArcBorrow<'g, T>> {
        let entry = self.load(id, guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: As in `get`: the entry's reference keeps the object, at a count above 0, while `guard` is
        // held.
        Some(unsafe { Arc::<T>::borrow(entry) })
    }

    #[inline]
    fn load(&self, id: impl Into<u64>, _guard: &ReadSection) -> *mut c_void {
        // SAFETY: The xarray is initialised; `xa_load` locks RCU itself.
        unsafe { bindings::xa_load(self.entries.get(), index(id)) }
    }

    /// Removes the object under number `id`, and waits until no reader uses it. The number can then be
    /// reused.
    ///
    /// Sleeps; must not be called within a section.
    pub fn remove(&self, id: impl Into<u64>) -> Option<Arc<T>> {
        // SAFETY: The xarray is initialised; `xa_erase` takes the lock itself.
        let entry = unsafe { bindings::xa_erase(self.entries.get(), index(id)) };
        if entry.is_null() {
            return None;
        }
        read_section::synchronize();
        // SAFETY: We erased the entry, so its reference is ours, and the readers have left.
        Some(unsafe { Arc::from_foreign(entry) })
    }

    /// Replaces the object under number `id`, and waits until no reader uses the old one.
    ///
    /// Sleeps; must not be called within a section. The caller ensures that the number is not removed meanwhile.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the number has no object.
    pub fn replace(&self, id: u32, object: Arc<T>) -> Result<Arc<T>> {
        let xa = self.entries.get();
        let entry = object.into_foreign();
        // SAFETY: The xarray is initialised, and locked for both steps, as `__xa_store` requires. The entry
        // is present, so its slot exists, and nothing is allocated.
        let old = unsafe {
            bindings::xa_lock(xa);
            let mut old = bindings::xa_load(xa, id as usize);
            if !old.is_null() {
                old = bindings::__xa_store(xa, id as usize, entry.cast(), 0);
            }
            bindings::xa_unlock(xa);
            old
        };
        if old.is_null() {
            // SAFETY: Nothing was stored, so the reference from `into_foreign` is still ours.
            drop(unsafe { Arc::<T>::from_foreign(entry) });
            return Err(ENOENT);
        }
        read_section::synchronize();
        // SAFETY: We replaced the entry, so its reference is ours, and the readers have left.
        Ok(unsafe { Arc::from_foreign(old) })
    }

    /// Calls `f` with each object and its number, in the order of the numbers. `f` may sleep.
    pub fn for_each(&self, mut f: impl FnMut(u32, Arc<T>)) {
        let mut at = 0;
        while let Some(object) = self.at_or_after(&mut at) {
            // CAST: Every number is a `u32`.
            f(at as u32, object);
            at = at.wrapping_add(1);
        }
    }

    /// Returns the first object whose number is not below `at`, and sets `at` to its number.
    fn at_or_after(&self, at: &mut usize) -> Option<Arc<T>> {
        let guard = ReadSection::enter();
        let entry = self.find(at, &guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: As in `get`: the section lasts until the new reference is taken.
        Some(unsafe { Arc::<T>::borrow(entry) }.into())
    }
}

#[pinned_drop]
impl<T: 'static> PinnedDrop for RcuTable<T> {
    fn drop(self: Pin<&mut Self>) {
        let xa = self.entries.get();
        let mut at = 0;
        loop {
            // SAFETY: The xarray is initialised. Access is exclusive, so no reader uses an object by its
            // number, and each entry's reference is ours once it is erased.
            unsafe {
                let entry = bindings::xa_find(xa, &mut at, usize::MAX, bindings::XA_PRESENT);
                if entry.is_null() {
                    break;
                }
                bindings::xa_erase(xa, at);
                drop(Arc::<T>::from_foreign(entry));
            }
        }
        // SAFETY: The xarray is empty, and not used after this.
        unsafe { bindings::xa_destroy(xa) };
    }
}

/// Returns a number as an index of the xarray.
#[inline]
fn index(id: impl Into<u64>) -> usize {
    // CAST: `u64` to `usize`, which has 64 bits.
    id.into() as usize
}
