// SPDX-License-Identifier: GPL-2.0

//! Objects by number.
//!
//! Owns references to the objects. Looking one up touches no reference count and takes no lock;
//! taking one out waits until nobody uses it by its number any more. Does not know what the objects
//! are.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use crate::{
    bindings,
    sync::quiesce::synchronize_rcu_expedited,
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
        rcu,
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
/// - Every entry comes from `Arc::<T>::into_foreign` and owns a reference, which is given back no
///   sooner than a grace period after the entry was erased.
/// - `next` is accessed under the lock of `entries` alone.
#[pin_data(PinnedDrop)]
pub struct RcuTable<T: 'static> {
    #[pin]
    entries: Opaque<bindings::xarray>,
    next: UnsafeCell<u32>,
    _owns: PhantomData<Arc<T>>,
}

// SAFETY: The table has its own lock; objects are handed out to many tasks, and may be dropped by
// any.
unsafe impl<T: Send + Sync> Send for RcuTable<T> {}
// SAFETY: See `Send`.
unsafe impl<T: Send + Sync> Sync for RcuTable<T> {}

impl<T: 'static> RcuTable<T> {
    /// An empty table.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises all of it, in place.
            entries <- Opaque::ffi_init(|xa| unsafe {
                let flags = bindings::XA_FLAGS_ALLOC | bindings::FERROCE_XA_FLAGS_ACCOUNT;
                bindings::xa_init_flags(xa, flags);
            }),
            next: UnsafeCell::new(0),
            _owns: PhantomData,
        })
    }

    /// Puts `object` under a number of `range` that is free, taking the numbers in turn, so that
    /// one that was just given back is not given out at once. Returns the number. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every number is taken.
    pub fn alloc_cyclic(&self, range: Range<u32>, object: Arc<T>) -> Result<u32> {
        self.alloc(range, object, |next| next)
    }

    /// Puts `object` under a number of `range` that is free, one that nobody can guess. Returns the
    /// number. Sleeps.
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

    /// Puts `object` under the first number of `range` that is free, from the one on that `first` makes
    /// of the number after the last, and around.
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
            // SAFETY: The table is locked, so `next` is ours.
            unsafe {
                let (next, gfp) = (self.next.get(), bindings::GFP_KERNEL_ACCOUNT);
                *next = first(*next);
                bindings::__xa_alloc_cyclic(xa, &mut id, entry, limit, next, gfp)
            }
        })
        .map_err(|_| ENOMEM)?;
        Ok(id)
    }

    /// Puts `object` under number `id`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is taken; `ENOMEM`.
    pub fn insert_at(&self, id: u32, object: Arc<T>) -> Result {
        self.insert(object, |xa, entry| {
            // SAFETY: The table is locked.
            unsafe { bindings::__xa_insert(xa, id as usize, entry, bindings::GFP_KERNEL_ACCOUNT) }
        })
    }

    /// Has `store`, with the table locked, store a reference to `object`.
    fn insert(
        &self,
        object: Arc<T>,
        store: impl FnOnce(*mut bindings::xarray, *mut c_void) -> c_int,
    ) -> Result {
        // C keeps flags in the low bits.
        const { assert!(<Arc<T> as ForeignOwnable>::FOREIGN_ALIGN >= 4) };
        let entry = object.into_foreign();
        let xa = self.entries.get();
        // SAFETY: The table is initialised.
        let stored = unsafe {
            bindings::xa_lock(xa);
            let stored = store(xa, entry.cast());
            bindings::xa_unlock(xa);
            stored
        };
        to_result(stored).inspect_err(|_| {
            // SAFETY: The reference is still ours.
            drop(unsafe { Arc::<T>::from_foreign(entry) });
        })
    }

    /// The object under number `id`. For any context.
    #[inline]
    pub fn get<'g>(&'g self, id: u32, guard: &'g rcu::Guard) -> Option<&'g T> {
        let entry = self.load(id, guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: The entry owns a reference, which is given back no sooner than RCU is unlocked,
        // so the object lives for `'g`. The borrow ends here, but not the object.
        Some(unsafe { &*ptr::from_ref::<T>(&Arc::<T>::borrow(entry)) })
    }

    /// All objects, in the order of their numbers. For any context. Those that come or go meanwhile may
    /// or may not be among them.
    pub fn each<'g>(&'g self, guard: &'g rcu::Guard) -> impl Iterator<Item = &'g T> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let entry = self.find(&mut at, guard);
            at = at.wrapping_add(1);
            // SAFETY: See `get`.
            (!entry.is_null()).then(|| unsafe { &*ptr::from_ref::<T>(&Arc::<T>::borrow(entry)) })
        })
    }

    /// The first entry whose number is not below `at`, which becomes the number; or null.
    fn find(&self, at: &mut usize, _guard: &rcu::Guard) -> *mut c_void {
        let xa = self.entries.get();
        // SAFETY: The table is initialised.
        unsafe { bindings::xa_find(xa, at, u32::MAX as usize, bindings::XA_PRESENT) }
    }

    /// As [`RcuTable::get`], for those who want to keep the object.
    #[inline]
    pub fn borrow<'g>(&'g self, id: u32, guard: &'g rcu::Guard) -> Option<ArcBorrow<'g, T>> {
        let entry = self.load(id, guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: See `get`. As long as the entry's reference is there, others can be taken.
        Some(unsafe { Arc::<T>::borrow(entry) })
    }

    #[inline]
    fn load(&self, id: u32, _guard: &rcu::Guard) -> *mut c_void {
        // SAFETY: The table is initialised.
        unsafe { bindings::xa_load(self.entries.get(), id as usize) }
    }

    /// Takes the object under number `id` out. When it returns, nobody uses the object by its
    /// number any more, and the number may be given out again.
    ///
    /// Sleeps; not to be called under RCU.
    pub fn remove(&self, id: u32) -> Option<Arc<T>> {
        // SAFETY: The table is initialised.
        let entry = unsafe { bindings::xa_erase(self.entries.get(), id as usize) };
        if entry.is_null() {
            return None;
        }
        synchronize_rcu_expedited();
        // SAFETY: The entry was erased by us, so its reference is ours; the grace period is over.
        Some(unsafe { Arc::from_foreign(entry) })
    }

    /// Puts `object` in the place of the one under number `id`. When it returns, nobody uses the old
    /// one by its number any more.
    ///
    /// Sleeps; not to be called under RCU. Nobody else takes the object out meanwhile.
    ///
    /// # Errors
    ///
    /// `ENOENT`: there is none.
    pub fn replace(&self, id: u32, object: Arc<T>) -> Result<Arc<T>> {
        let xa = self.entries.get();
        let entry = object.into_foreign();
        // SAFETY: The table is initialised, and locked for the two steps. An entry that is there
        // has its place, so nothing is allocated.
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
            // SAFETY: The reference is still ours.
            drop(unsafe { Arc::<T>::from_foreign(entry) });
            return Err(ENOENT);
        }
        synchronize_rcu_expedited();
        // SAFETY: The entry was replaced by us, so its reference is ours; the grace period is over.
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

    /// The first object whose number is not below `at`, which becomes the number.
    fn at_or_after(&self, at: &mut usize) -> Option<Arc<T>> {
        let guard = rcu::read_lock();
        let entry = self.find(at, &guard);
        if entry.is_null() {
            return None;
        }
        // SAFETY: See `get`; RCU is locked.
        Some(unsafe { Arc::<T>::borrow(entry) }.into())
    }
}

#[pinned_drop]
impl<T: 'static> PinnedDrop for RcuTable<T> {
    fn drop(self: Pin<&mut Self>) {
        let xa = self.entries.get();
        let mut at = 0;
        loop {
            // SAFETY: Initialised. Nobody else has the table, so nobody uses an object by its
            // number.
            unsafe {
                let entry = bindings::xa_find(xa, &mut at, usize::MAX, bindings::XA_PRESENT);
                if entry.is_null() {
                    break;
                }
                bindings::xa_erase(xa, at);
                drop(Arc::<T>::from_foreign(entry));
            }
        }
        // SAFETY: Empty, and not used any more.
        unsafe { bindings::xa_destroy(xa) };
    }
}
