// SPDX-License-Identifier: GPL-2.0

//! One owner at a time, and nobody waits for it.
//!
//! Owns a value that several contexts have work for: system calls, softirqs, timers. Whoever brings
//! work tries to become the owner. One who finds it owned leaves at once; the owner sees that there
//! is more to do before it leaves. Does not know what the work is, nor where it waits. The protocol
//! itself, without the kernel, is in `protocol`, where it is also checked in a model.

mod protocol;

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
        barrier::smp_mb,
        SpinLock, //
    }, //
};

impl More {
    /// Of two kinds of work, whether there is more to do of either.
    #[inline]
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Yes => Self::Yes,
            Self::No => other,
        }
    }
}

/// The lock that makes an owner. Softirqs only try it, so process context may hold it with
/// softirqs on.
type Lock<T> = SpinLock<T>;

/// Whether there is work that no owner has looked at.
struct Flag(AtomicFlag);

impl Flag {
    fn new() -> Self {
        Self(AtomicFlag::new(false))
    }

    /// Sets the flag, after everything that was done before, and before everything that is done
    /// after.
    #[inline]
    fn set(&self) {
        self.0.xchg(true, Full);
    }

    /// Clears the flag, after everything that those did who have set it, and before everything
    /// that is done after.
    #[inline]
    fn clear(&self) {
        self.0.xchg(false, Acquire);
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.0.load(Acquire)
    }
}

#[cfg(not(CONFIG_SMP))]
compile_error!(
    "without SMP a spinlock does not keep out a softirq that tries it: two owners at a time"
);

#[cfg(CONFIG_PREEMPT_RT)]
compile_error!(
    "nobody has looked whether `Gate` and `Turn` do what they promise where softirqs are threads"
);

/// Orders everything before against everything after, on all CPUs.
#[inline]
fn full_barrier() {
    smp_mb(kernel::sync::barrier::Full);
}

/// Most times that one owner looks at the work before it leaves the rest to another context.
const MAX_ROUNDS: u32 = 4;

/// A value that is worked on by one context at a time.
///
/// There are three ways in. [`Exclusive::run`] never waits, and makes sure that work is looked at after it
/// was called, here or elsewhere. [`Exclusive::try_enter`] never waits either, and is for what can be done
/// otherwise if there is an owner. [`Exclusive::enter`] waits, for changes that are no work.
#[pin_data]
pub struct Exclusive<T> {
    #[pin]
    state: Lock<T>,
    pending: Flag,
}

impl<T: Unpin> Exclusive<T> {
    /// Nobody's turn, and no work.
    pub fn new(state: T) -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_spinlock!(state, "rdma::Exclusive"),
            pending: Flag::new(),
        })
    }

    /// Says that there is work, and does it with `f` unless there is an owner, who will. For any
    /// context but hard interrupts.
    ///
    /// `f` looks at all work there is, as far as its budget goes, and says whether some is left. It
    /// is called until nothing is left, but not for ever: if the result is [`Pending::Work`], the
    /// caller has to see to it that [`Exclusive::run`] is called again, from another context.
    #[inline]
    pub fn run(&self, f: impl FnMut(&mut T) -> More) -> Pending {
        protocol::run(&self.pending, &self.state, MAX_ROUNDS, f)
    }

    /// Becomes the owner and calls `f`, unless there is an owner. For any context but hard interrupts,
    /// also from within `f` of another value.
    ///
    /// If work has come in meanwhile, the second result is [`Pending::Work`], and the caller has
    /// to see to it that [`Exclusive::run`] is called.
    #[inline]
    pub fn try_enter<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<(R, Pending)> {
        protocol::try_enter(&self.pending, &self.state, f)
    }

    /// Becomes the owner, waiting for the present one, and calls `f`. For process context, and not
    /// from within `f` of either kind.
    ///
    /// If work has come in meanwhile, the second result is [`Pending::Work`], and the caller has
    /// to see to it that [`Exclusive::run`] is called.
    pub fn enter<R>(&self, f: impl FnOnce(&mut T) -> R) -> (R, Pending) {
        protocol::enter(&self.pending, &self.state, f)
    }
}
