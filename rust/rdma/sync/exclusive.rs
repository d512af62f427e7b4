// SPDX-License-Identifier: GPL-2.0

//! A value with one owner at a time, for work that any context may add without waiting.
//!
//! System calls, softirqs and timers add work for the value. A context that adds work tries to become the
//! owner. If there is an owner already, it returns at once; the owner finds the work before it leaves. The
//! work itself is stored elsewhere. The protocol, independent of the kernel, is in `protocol` and is
//! model-checked.

mod protocol;

use crate::compat::barrier::smp_mb;
pub use protocol::{
    More,
    Pending, //
};

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full, //
            },
            AtomicFlag, //
        },
        SpinLock, //
    }, //
};

impl More {
    /// Combines the results of two kinds of work: [`More::Yes`] if either has work left.
    #[inline]
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            Self::No => other,
        }
    }
}

/// The lock that the owner holds. Softirqs only try it, so process context may hold it with softirqs enabled.
///
/// With PREEMPT_RT an owner may be preempted. Work that another context adds meanwhile waits, whatever the priority of
/// that context; only a context that waits in `enter` raises the owner's priority to its own.
type Lock<T> = SpinLock<T>;

/// Set while there is work that no owner has processed.
struct Flag(AtomicFlag);

impl Flag {
    fn new() -> Self {
        Self(AtomicFlag::new(false))
    }

    /// Sets the flag. Orders all earlier accesses before it and all later ones after it.
    #[inline]
    fn set(&self) {
        self.0.xchg(true, Full);
    }

    /// Clears the flag. The earlier accesses of every context that set it happen before; all later accesses
    /// of the caller come after.
    #[inline]
    fn clear(&self) {
        self.0.xchg(false, Acquire);
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.0.load(Acquire)
    }
}

#[cfg(not(any(CONFIG_SMP, CONFIG_PREEMPT_RT)))]
compile_error!(
    "without SMP a spinlock does not exclude a softirq that tries it: two owners at a time"
);

/// Calls of the closure by one owner, at most. It leaves further work to another context.
const MAX_ROUNDS: u32 = 4;

/// A value that one context at a time owns.
///
/// - [`Exclusive::run`] never waits. It guarantees that the work is processed after the call began, by this
///   context or by another.
/// - [`Exclusive::try_enter`] never waits. It fails if there is an owner.
/// - [`Exclusive::enter`] waits for the owner. It is for state changes, not for work.
#[pin_data]
pub struct Exclusive<T> {
    #[pin]
    state: Lock<T>,
    pending: Flag,
}

impl<T: Unpin> Exclusive<T> {
    /// Creates a value without an owner and without work. It comes in a box, because each function that passes an
    /// initialiser on may copy what it contains to its stack.
    pub fn new(state: KBox<T>) -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(KBox::into_inner(state), "rdma::Exclusive"),
            pending: Flag::new(),
        })
    }

    /// Announces work, and processes it with `f` unless there is an owner, which will process it. For any
    /// context except hard interrupts.
    ///
    /// `f` processes all work present, up to its budget, and returns whether work is left. It is called again
    /// while work is left, a bounded number of times. If the result is [`Pending::Work`], the caller must
    /// arrange for [`Exclusive::run`] to be called again, from another context.
    #[inline]
    pub fn run(&self, f: impl FnMut(&mut T) -> More) -> Pending {
        protocol::run(&self.pending, &self.state, MAX_ROUNDS, f)
    }

    /// Becomes the owner and calls `f`, unless there is an owner. For any context except hard interrupts;
    /// also from within `f` of another `Exclusive`.
    ///
    /// If the second result is [`Pending::Work`], work arrived meanwhile, and the caller must arrange for
    /// [`Exclusive::run`] to be called.
    #[inline]
    pub fn try_enter<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<(R, Pending)> {
        protocol::try_enter(&self.pending, &self.state, f)
    }

    /// Waits for the current owner, becomes the owner and calls `f`. For process context; must not be called
    /// from within the `f` of any `Exclusive`.
    ///
    /// If the second result is [`Pending::Work`], work arrived meanwhile, and the caller must arrange for
    /// [`Exclusive::run`] to be called.
    pub fn enter<R>(&self, f: impl FnOnce(&mut T) -> R) -> (R, Pending) {
        protocol::enter(&self.pending, &self.state, f)
    }
}
