// SPDX-License-Identifier: GPL-2.0

//! The kernel's atomic, for models: it promises no more than the kernel does.

use loom::sync::atomic::{
    fence,
    AtomicU32,
    Ordering::{
        self,
        AcqRel,
        SeqCst, //
    }, //
};

/// The kernel's full ordering.
pub(crate) struct Full;

/// No ordering.
#[allow(dead_code, reason = "not every model looks without order")]
pub(crate) struct Relaxed;

/// `Atomic<u32>`.
pub(crate) struct Atomic(AtomicU32);

impl Atomic {
    pub(crate) fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    #[allow(dead_code, reason = "as above")]
    pub(crate) fn load(&self, _: Relaxed) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn xchg(&self, value: u32, _: Full) -> u32 {
        fence(SeqCst);
        let old = self.0.swap(value, AcqRel);
        fence(SeqCst);
        old
    }

    /// Orders nothing when it fails.
    pub(crate) fn cmpxchg(&self, old: u32, new: u32, _: Full) -> Result<u32, u32> {
        fence(SeqCst);
        let result = self.0.compare_exchange(old, new, AcqRel, Ordering::Relaxed);
        if result.is_ok() {
            fence(SeqCst);
        }
        result
    }
}
