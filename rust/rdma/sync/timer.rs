// SPDX-License-Identifier: GPL-2.0

//! One-shot high-resolution timers embedded in the object that they notify.
//!
//! A queued timer holds a reference to its owner, so the owner exists when the timer expires. Expiry runs in
//! softirq. Time is in nanoseconds of `CLOCK_MONOTONIC`.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use crate::{
    bindings,
    compat::{
        barrier::smp_mb,
        hrtimer::is_queued, //
    },
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// Returns the current time in nanoseconds of `CLOCK_MONOTONIC`. For any context except NMI.
#[inline]
pub fn now() -> u64 {
    // CAST: The clock counts up from 0 at boot, so it is not negative.
    // SAFETY: `ktime_get` has no preconditions outside of NMI context and suspend.
    unsafe { bindings::ktime_get() as u64 }
}

/// Returns the current time in nanoseconds of `CLOCK_MONOTONIC_RAW`, which no one adjusts. For any context except NMI.
#[inline]
pub fn raw_now() -> u64 {
    // CAST: As in `now`.
    // SAFETY: `ktime_get_raw` has no preconditions outside of NMI context and suspend.
    unsafe { bindings::ktime_get_raw() as u64 }
}

/// The deadline of a timer that is not queued.
const NEVER: u64 = u64::MAX;

/// Notified by its timer.
pub trait TimerOwner: HasTimer {
    /// Handles the expiry. Called in softirq, with no lock held.
    fn expired(self: ArcBorrow<'_, Self>);
}

/// Contains a timer. Implemented by [`impl_has_timer!`](crate::impl_has_timer).
///
/// # Safety
///
/// [`HasTimer::timer`] must always return the same field, which `self` contains by value.
pub unsafe trait HasTimer: Sized + Send + Sync + 'static {
    /// Returns the timer.
    fn timer(&self) -> &Timer<Self>;
}

/// Implements [`HasTimer`](crate::sync::timer::HasTimer) by naming the field that is the timer:
/// `impl_has_timer! { impl HasTimer for Owner { self.timer } }`. Generics go in braces as in
/// `impl_has_work!`.
#[macro_export]
macro_rules! impl_has_timer {
    (impl$({$($generics:tt)*})? HasTimer for $owner:ty { self.$field:ident }) => {
        // SAFETY: `timer` always returns the named field, which `self` contains by value: `offset_of!` accepts no
        // field that is reached by `Deref`, and the typed raw pointer excludes a coercion from `&Box<Timer<_>>`.
        #[allow(unsafe_code)]
        unsafe impl$(<$($generics)*>)? $crate::sync::timer::HasTimer for $owner {
            #[inline]
            fn timer(&self) -> &$crate::sync::timer::Timer<Self> {
                let _ = ::core::mem::offset_of!(Self, $field);
                let timer: *const $crate::sync::timer::Timer<Self> = &raw const self.$field;
                // SAFETY: The pointer was just derived from `self`, which stays borrowed.
                unsafe { &*timer }
            }
        }
    };
}

/// A timer in an object that an [`Arc`] holds.
///
/// # Invariants
///
/// While the timer is queued, `owner` holds a reference to the object that contains the timer. The timer is
/// queued only under the lock of `owner`.
#[pin_data]
pub struct Timer<O> {
    #[pin]
    raw: Opaque<bindings::hrtimer>,
    /// Expiry time in nanoseconds, as far as known; [`NEVER`] if the timer is not queued. Written under the
    /// lock of `owner`.
    deadline_ns: Atomic<u64>,
    #[pin]
    owner: SpinLockIrq<Option<Arc<O>>>,
}

// SAFETY: C locks the hrtimer, and the other fields are `Send` for such an `O`.
unsafe impl<O: Send + Sync> Send for Timer<O> {}
// SAFETY: C locks the hrtimer, and the other fields are `Sync` for such an `O`.
unsafe impl<O: Send + Sync> Sync for Timer<O> {}

impl<O: TimerOwner> Timer<O> {
    /// Creates a timer that is not queued.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole hrtimer in place. `expired::<O>` matches the type of the owner.
            raw <- Opaque::ffi_init(|raw| unsafe {
                let clock = bindings::CLOCK_MONOTONIC as bindings::clockid_t;
                let mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;
                bindings::hrtimer_setup(raw, Some(expired::<O>), clock, mode);
            }),
            deadline_ns: Atomic::new(NEVER),
            owner <- new_spinlock_irq!(None, "rdma::Timer"),
        })
    }

    /// Arranges that `owner` is notified at time `at_ns`, if the timer is not due earlier. For any context.
    ///
    /// Costs one load if the timer is due earlier anyway. To move a deadline into the future, let the timer
    /// expire and arm it again.
    ///
    /// That fast path takes no lock. For [`TimerOwner::expired`] to see the caller's accesses before `arm`, a full
    /// barrier must be between both, which [`Exclusive`](crate::sync::exclusive::Exclusive) provides. There is a model,
    /// `tests/loom/wakes.rs`.
    #[inline]
    pub fn arm(owner: ArcBorrow<'_, O>, at_ns: u64) {
        if at_ns < owner.timer().deadline_ns.load(Relaxed) {
            Self::start(owner, at_ns);
        }
    }

    fn start(borrow: ArcBorrow<'_, O>, at_ns: u64) {
        let this = borrow.timer();
        let mut owner = this.owner.lock();
        if at_ns >= this.deadline_ns.load(Relaxed) {
            return;
        }
        this.deadline_ns.store(at_ns, Relaxed);
        // INVARIANT: The reference is stored before the timer is queued, under the lock.
        if owner.is_none() {
            *owner = Some(borrow.into());
        }
        let expires = i64::try_from(at_ns).unwrap_or(i64::MAX);
        // SAFETY: `new` set the timer up. It does not move, and the reference in `owner` keeps it while it is
        // queued.
        unsafe {
            let mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;
            bindings::hrtimer_start_range_ns(this.raw.get(), expires, 0, mode);
        }
    }

    /// Stops the timer and waits for a running [`TimerOwner::expired`]. The owner is not notified afterwards,
    /// unless the timer is armed again. For process context; the caller must hold nothing that `expired`
    /// waits for.
    pub fn cancel(&self) {
        // SAFETY: `new` set the timer up, and the caller may wait.
        unsafe { bindings::hrtimer_cancel(self.raw.get()) };
        let owner = {
            let mut owner = self.owner.lock();
            // The timer may have been armed again since; it may even have expired since then, with `expired`
            // about to take the lock. The timer is queued only under this lock, so an inactive timer stays
            // inactive.
            // SAFETY: `new` set the timer up.
            match unsafe { bindings::hrtimer_active(self.raw.get()) } {
                true => None,
                false => self.take_owner(&mut owner),
            }
        };
        // The lock is part of the owner, so drop the reference without the lock.
        drop(owner);
    }

    /// Takes the reference out of `owner`, unless the timer is queued.
    fn take_owner(&self, owner: &mut Option<Arc<O>>) -> Option<Arc<O>> {
        // SAFETY: `new` set the timer up. It is queued only under the lock that `owner` was borrowed from. C may
        // take it out of the queue meanwhile.
        if unsafe { is_queued(self.raw.get()) } {
            return None;
        }
        self.deadline_ns.store(NEVER, Relaxed);
        owner.take()
    }
}

/// `hrtimer.function`.
///
/// # Safety
///
/// Only C may call this, with the hrtimer of a [`Timer`] of an `O` that has just expired and is no longer
/// queued.
unsafe extern "C" fn expired<O: TimerOwner>(
    raw: *mut bindings::hrtimer,
) -> bindings::hrtimer_restart {
    let owner = {
        // SAFETY: `raw` is the field of a `Timer<O>`. The timer was queued, so by the invariant `owner` held
        // a reference to the object around it. Only this function and `cancel` drop that reference, and
        // `cancel` leaves it alone while this function is about to run.
        let this = unsafe {
            let raw = Opaque::cast_from(raw).cast_mut();
            &*kernel::container_of!(raw, Timer<O>, raw)
        };
        let mut owner = this.owner.lock();
        // If the timer was armed again, the reference stays until the next expiry.
        this.take_owner(&mut owner).or_else(|| owner.clone())
    };
    if let Some(owner) = &owner {
        // A context that has found the deadline that was just cleared did not start the timer. What it wrote before is
        // visible from here on.
        smp_mb();
        O::expired(owner.as_arc_borrow());
    }
    // C does not access the timer after this function, so this may be the last reference.
    drop(owner);
    bindings::hrtimer_restart::HRTIMER_NORESTART
}
