// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/sync.rs`.

use loom::cell;
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{
        fence,
        AtomicBool,
        Ordering, //
    },
};
use std::sync::atomic;

/// A word of 32 bits.
#[derive(Debug)]
pub(crate) enum AtomicU32 {
    /// A word that orders others.
    Ordering(loom::sync::atomic::AtomicU32),
    /// A part of an element. The model panics if an access is not ordered after all conflicting ones.
    Data(cell::UnsafeCell<u32>),
    /// A word that is written before there are threads.
    Constant(atomic::AtomicU32),
}

// SAFETY: The model panics if two threads use the cell at once.
unsafe impl Sync for AtomicU32 {}

impl AtomicU32 {
    pub(crate) fn new(value: u32) -> Self {
        Self::Ordering(loom::sync::atomic::AtomicU32::new(value))
    }

    pub(crate) fn data() -> Self {
        Self::Data(cell::UnsafeCell::new(0))
    }

    pub(crate) fn constant(value: u32) -> Self {
        Self::Constant(atomic::AtomicU32::new(value))
    }

    fn ordering(&self) -> &loom::sync::atomic::AtomicU32 {
        match self {
            Self::Ordering(word) => word,
            _ => panic!("such a word is only loaded and stored"),
        }
    }

    pub(crate) fn load(&self, order: Ordering) -> u32 {
        match self {
            Self::Ordering(word) => word.load(order),
            // SAFETY: The model panics if another thread writes it at the same time.
            Self::Data(word) => word.with(|value| unsafe { *value }),
            Self::Constant(word) => word.load(order),
        }
    }

    pub(crate) fn store(&self, value: u32, order: Ordering) {
        match self {
            Self::Ordering(word) => word.store(value, order),
            // SAFETY: The model panics if another thread uses it at the same time.
            Self::Data(word) => word.with_mut(|to| unsafe { *to = value }),
            Self::Constant(word) => word.store(value, order),
        }
    }

    pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.ordering().fetch_add(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.ordering().fetch_sub(value, order)
    }
}

/// A word of 64 bits. Its halves are accessed one by one, which is less than the hardware promises.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct AtomicU64([AtomicU32; 2]);

impl AtomicU64 {
    pub(crate) fn of(halves: [AtomicU32; 2]) -> Self {
        Self(halves)
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let [a, b] = self.0.each_ref().map(|half| half.load(order).to_ne_bytes());
        u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
        let halves = [[a, b, c, d], [e, f, g, h]];
        for (half, bytes) in self.0.iter().zip(halves) {
            half.store(u32::from_ne_bytes(bytes), order);
        }
    }
}

/// A value that one thread at a time uses. The model panics if a use is not ordered after all earlier ones.
pub(crate) struct UnsafeCell<T> {
    value: std::cell::UnsafeCell<T>,
    order: loom::cell::UnsafeCell<()>,
}

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: std::cell::UnsafeCell::new(value),
            order: loom::cell::UnsafeCell::new(()),
        }
    }

    pub(crate) fn get(&self) -> *mut T {
        self.order.with_mut(|_| ());
        self.value.get()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}
