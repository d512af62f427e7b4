// SPDX-License-Identifier: GPL-2.0

//! Sections in which objects are used that another task may remove at any time, and the wait for them.
//!
//! Like RCU, but of this module alone. A grace period of RCU waits for all CPUs, whatever they do, and takes 0.1 ms to
//! some ms; this wait ends when the sections have ended that were open, usually after a microsecond. Each section is
//! an RCU read-side critical section as well.
//!
//! The protocol, independent of the kernel, is in `protocol` and is model-checked.

mod protocol;

use crate::{
    bindings,
    compat::barrier::smp_mb,
    sync::timer::now, //
};
use core::{
    hint::spin_loop,
    ops::Deref, //
};
use kernel::{
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        rcu, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use protocol::{
    Phase,
    Sections, //
};

/// A number of phases or waits.
type Number = Atomic<u64>;

/// The words in which each CPU counts sections. C owns them.
struct SectionCounts;

impl SectionCounts {
    /// Counts a section as entered, before all later accesses.
    #[inline]
    fn enter(&self, phase: Phase) {
        // SAFETY: There are four words, so `word` returns the index of one.
        unsafe { bindings::ferroce_helper_section_enter(word(phase, Side::Entered)) };
    }

    /// Counts a section as left, after all earlier accesses.
    #[inline]
    fn leave(&self, phase: Phase) {
        // SAFETY: As in `enter`.
        unsafe { bindings::ferroce_helper_section_leave(word(phase, Side::Left)) };
    }

    /// Returns how many sections have been counted as entered. Orders nothing.
    fn entered(&self, phase: Phase) -> u64 {
        // SAFETY: As in `enter`.
        unsafe { bindings::ferroce_helper_section_sum(word(phase, Side::Entered)) }
    }

    /// Returns how many sections have been counted as left. Orders nothing.
    fn left(&self, phase: Phase) -> u64 {
        // SAFETY: As in `enter`.
        unsafe { bindings::ferroce_helper_section_sum(word(phase, Side::Left)) }
    }
}

/// What a word counts.
enum Side {
    Entered,
    Left,
}

/// Returns the index of a word.
#[inline]
fn word(phase: Phase, side: Side) -> u32 {
    // CAST: Each is 0 or 1.
    phase as u32 * 2 + side as u32
}

/// The mutex of the waits for sections. C owns it.
struct Turn;

/// The mutex is held.
struct TurnGuard;

impl Turn {
    fn take(&self) -> TurnGuard {
        // SAFETY: C has initialised the mutex. The caller may sleep, by the documentation of `synchronize`.
        unsafe { bindings::ferroce_helper_section_lock() };
        TurnGuard
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        // SAFETY: `Turn::take` took the mutex in this task, as the guard does not leave `Sections::wait`.
        unsafe { bindings::ferroce_helper_section_unlock() };
    }
}

static SECTIONS: Sections = Sections::new(
    SectionCounts,
    [Number::new(0), Number::new(0), Number::new(0)],
    Turn,
);

/// Objects that were found within the section stay until it ends: their removal waits for the section.
///
/// Also keeps RCU locked. For any context. Sections nest, and must be short: no sleep, no wait for anything that may
/// wait for a section.
pub struct ReadSection {
    phase: Phase,
    /// Dropped after the section has left.
    rcu: rcu::Guard,
}

impl ReadSection {
    /// Begins a section, which lasts until the value is dropped.
    #[inline]
    pub fn enter() -> Self {
        let rcu = rcu::read_lock();
        Self {
            phase: SECTIONS.enter(),
            rcu,
        }
    }
}

impl Deref for ReadSection {
    type Target = rcu::Guard;

    #[inline]
    fn deref(&self) -> &rcu::Guard {
        &self.rcu
    }
}

impl Drop for ReadSection {
    #[inline]
    fn drop(&mut self) {
        SECTIONS.leave(self.phase);
    }
}

/// A wait for the sections that were open when it was created.
#[must_use]
pub(crate) struct SectionWait(u64);

impl SectionWait {
    /// Notes that the caller has removed something. For any context.
    pub(crate) fn new() -> Self {
        Self(SECTIONS.begin())
    }

    /// Waits for the sections that may use what was removed. Sleeps; must not be called within a section.
    pub(crate) fn wait(self) {
        let mut pause = Pause::default();
        SECTIONS.wait(self.0, || pause.pause());
    }
}

/// Waits until each section that is open has ended. Sleeps; must not be called within a section.
pub(crate) fn synchronize() {
    SectionWait::new().wait();
}

/// Time for which the waiting task looks again and again before it sleeps: most sections end sooner. Each look reads
/// the counts of all CPUs.
const SPIN_NS: u64 = 20_000;

/// The first and the longest sleep between two looks, in microseconds.
const SLEEP_US: core::ops::Range<i64> = 20..1000;

/// The pauses of one wait. With PREEMPT_RT a task may have preempted the section that it waits for, so it sleeps.
struct Pause {
    /// End of the looks without sleep.
    spin_until_ns: u64,
    sleep_us: i64,
}

impl Default for Pause {
    fn default() -> Self {
        Self {
            spin_until_ns: now().saturating_add(SPIN_NS),
            sleep_us: SLEEP_US.start,
        }
    }
}

impl Pause {
    fn pause(&mut self) {
        if now() < self.spin_until_ns {
            return spin_loop();
        }
        fsleep(Delta::from_micros(self.sleep_us));
        self.sleep_us = self.sleep_us.saturating_mul(2).min(SLEEP_US.end);
    }
}
