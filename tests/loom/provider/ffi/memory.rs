// SPDX-License-Identifier: GPL-2.0

//! Replaces `tools/provider/src/ffi/memory.rs`: rings are memory of the model, and the allocator is Rust's.

use super::wr::UserBytes;
use crate::{
    abi::direct::Mapping,
    errno::Errno,
    kernel::{
        current,
        RingMemory, //
    },
    ring::Memory,
    sync::{
        AtomicU32,
        AtomicU64, //
    },
};
use std::{
    ops::{
        Deref,
        DerefMut, //
    },
    slice,
};

pub(crate) struct Map(RingMemory);

impl Map {
    pub(crate) fn new(_fd: i32, mapping: Mapping) -> Result<Self, Errno> {
        Ok(Self(current().memory(mapping)))
    }
}

impl Memory for Map {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

pub(crate) fn halves(words: &[AtomicU64]) -> &[AtomicU32] {
    // SAFETY: An `AtomicU64` of the model is an array of two `AtomicU32`.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), 2 * words.len()) }
}

/// No model posts inline data.
pub(crate) fn copy_in(_words: &[AtomicU64], _at: usize, _from: UserBytes<'_>) -> Option<()> {
    None
}

pub(crate) struct Owned<T>(Box<T>);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Result<Self, Errno> {
        Ok(Self(Box::new(value)))
    }

    pub(super) fn into_raw(self) -> *mut T {
        Box::into_raw(self.0)
    }

    /// # Safety
    ///
    /// As of the real one.
    pub(super) unsafe fn from_raw(raw: *mut T) -> Option<Self> {
        // SAFETY: The caller guarantees that it is from `into_raw`.
        (!raw.is_null()).then(|| Self(unsafe { Box::from_raw(raw) }))
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
