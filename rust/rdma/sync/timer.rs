// SPDX-License-Identifier: GPL-2.0

//! One-shot timers that are part of what they wake.
//!
//! Owns the timer and, while it runs, a reference to its owner: so an owner that is woken is there.
//! Does not know what is to be done. Time is in nanoseconds of `CLOCK_MONOTONIC`.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use crate::bindings;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        ArcBorrow,
        SpinLockIrq, //
    },
    types::Opaque, //
};

/// The present time, in nanoseconds of `CLOCK_MONOTONIC`. For any context.
#[inline]
pub fn now() -> u64 {
    // CAST: Counts up from 0 at boot.
    // SAFETY: No precondition.
    unsafe { bindings::ktime_get() as u64 }
}

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

/// Woken by a timer.
pub trait TimerOwner: HasTimer {
    /// The time has come. Called in softirq, under no lock.
    fn expired(self: ArcBorrow<'_, Self>);
}

/// Has a timer as a part. Implemented by [`impl_has_timer!`](crate::impl_has_timer).
///
/// # Safety
///
/// [`HasTimer::timer`] returns a field of `self`, by value, always the same.
pub unsafe trait HasTimer: Sized + Send + Sync + 'static {
    /// The timer.
    fn timer(&self) -> &Timer<Self>;
}

/// Says which field of a type is its timer:
/// `impl_has_timer! { impl HasTimer for Owner { self.timer } }`, with generics in braces as in
/// `impl_has_work!`.
#[macro_export]
macro_rules! impl_has_timer {
    (impl$({$($generics:tt)*})? HasTimer for $owner:ty { self.$field:ident }) => {
        // SAFETY: The pointer has the type of the field, so it is no pointer to something else.
        #[allow(unsafe_code)]
        unsafe impl$(<$($generics)*>)? $crate::sync::timer::HasTimer for $owner {
            #[inline]
            fn timer(&self) -> &$crate::sync::timer::Timer<Self> {
                let timer: *const $crate::sync::timer::Timer<Self> = &raw const self.$field;
                // SAFETY: A field of `self`.
                unsafe { &*timer }
            }
        }
    };
}

/// A timer in an object that an [`Arc`] holds.
///
/// # Invariants
///
/// When the timer is queued, `owner` holds a reference to the object that the timer is part of. It
/// is queued under the lock of `owner` alone.
#[pin_data]
pub struct Timer<O> {
    #[pin]
    raw: Opaque<bindings::hrtimer>,
    /// When the timer expires, as far as known; [`NEVER`] if it is not queued. Written under the
    /// lock of `owner`.
    deadline: Atomic<u64>,
    #[pin]
    owner: SpinLockIrq<Option<Arc<O>>>,
}

// SAFETY: The timer is locked by C, the rest by itself.
unsafe impl<O: Send + Sync> Send for Timer<O> {}
// SAFETY: See `Send`.
unsafe impl<O: Send + Sync> Sync for Timer<O> {}

impl<O: TimerOwner> Timer<O> {
    /// A timer that does not run.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises all of it, in place.
            raw <- Opaque::ffi_init(|raw| unsafe {
                let clock = bindings::CLOCK_MONOTONIC as bindings::clockid_t;
                let mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;
                bindings::hrtimer_setup(raw, Some(expired::<O>), clock, mode);
            }),
            deadline: Atomic::new(NEVER),
            owner <- new_spinlock_irq!(None, "rdma::Timer"),
        })
    }

    /// Has `owner` woken at time `at`, if nothing wakes it before. For any context; costs next to
    /// nothing if the timer expires earlier anyway, so a deadline that moves away is best left to
    /// expire.
    ///
    /// Who finds that out takes no lock. So that what was done before this is seen by
    /// [`TimerOwner::expired`], a full barrier has to come after it, and another before `expired` looks for
    /// it; [`Exclusive`](crate::sync::exclusive::Turn) has both.
    #[inline]
    pub fn arm(owner: ArcBorrow<'_, O>, at: u64) {
        if at < owner.timer().deadline.load(Relaxed) {
            Self::start(owner, at);
        }
    }

    fn start(borrow: ArcBorrow<'_, O>, at: u64) {
        let this = borrow.timer();
        let mut owner = this.owner.lock();
        if at >= this.deadline.load(Relaxed) {
            return;
        }
        this.deadline.store(at, Relaxed);
        // INVARIANT: The reference is there before the timer is queued.
        if owner.is_none() {
            *owner = Some(borrow.into());
        }
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        // SAFETY: The timer is set up, and stays where it is while there is a reference.
        unsafe {
            let mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;
            bindings::hrtimer_start_range_ns(this.raw.get(), at, 0, mode);
        }
    }

    /// Stops the timer, and waits until the owner is not being woken any more. The owner is not
    /// woken afterwards unless somebody arms the timer again. Process context; not for those whom
    /// [`TimerOwner::expired`] waits for.
    pub fn cancel(&self) {
        // SAFETY: The timer is set up.
        unsafe { bindings::hrtimer_cancel(self.raw.get()) };
        let owner = {
            let mut owner = self.owner.lock();
            // Somebody may have armed it since; it may have expired since then, and be about to look for
            // the owner. It is queued under this lock alone, so one that is neither is not going to.
            // SAFETY: The timer is set up.
            match unsafe { bindings::hrtimer_active(self.raw.get()) } {
                true => None,
                false => self.release(&mut owner),
            }
        };
        // Not under the lock, which is a part of it.
        drop(owner);
    }

    /// Takes the owner's reference back unless the timer has been queued again.
    fn release(&self, owner: &mut Option<Arc<O>>) -> Option<Arc<O>> {
        // SAFETY: The timer is set up. It is queued only under the lock that gave us `owner`.
        if unsafe { (&raw const (*self.raw.get()).is_queued).read_volatile() } {
            return None;
        }
        self.deadline.store(NEVER, Relaxed);
        owner.take()
    }
}

/// `hrtimer.function`.
///
/// # Safety
///
/// Called by C, with the timer of a [`Timer`] of an `O`, which is queued no more.
unsafe extern "C" fn expired<O: TimerOwner>(
    raw: *mut bindings::hrtimer,
) -> bindings::hrtimer_restart {
    let owner = {
        // SAFETY: The timer stands in a `Timer<O>`. It was queued, so there is a reference to the
        // object around it, which only this function and `cancel` give back, and `cancel` leaves it to
        // this function once that is to be called.
        let this = unsafe {
            let raw = Opaque::cast_from(raw).cast_mut();
            &*kernel::container_of!(raw, Timer<O>, raw)
        };
        let mut owner = this.owner.lock();
        // Armed again since it expired: the reference is needed until it expires again.
        this.release(&mut owner).or_else(|| owner.clone())
    };
    if let Some(owner) = &owner {
        O::expired(owner.as_arc_borrow());
    }
    // C does not touch the timer after this, so this may be the last reference.
    drop(owner);
    bindings::hrtimer_restart::HRTIMER_NORESTART
}
