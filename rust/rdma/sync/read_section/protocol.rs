// SPDX-License-Identifier: GPL-2.0

//! The protocol of [`ReadSection`](super::ReadSection): which sections a wait covers, and the order of the accesses.
//!
//! Independent of the kernel: counts, atomics, mutex and barrier are those of the parent module.
//! `tests/loom/read_section.rs` compiles this file over a model of them and checks it.
//!
//! # Why an object is not used after the wait
//!
//! There are two phases. A section counts itself as entered in the current phase (E1), runs, and counts itself as left
//! in the same phase (L1), on whichever CPU it is. A full barrier stands behind E1, and one before L1.
//!
//! A task that has removed an object passes a full barrier (W1), drains the other phase, makes it the current one, and
//! drains the phase that was current. To drain a phase is to add up what has left it, then, behind a full barrier (W2),
//! what has entered it, until both are equal. A section whose L1 is in the first sum has its E1 in the second, so equal
//! sums mean that they contain the same sections. Each section is one of these:
//!
//! - Its E1 is not in the sum of its phase. It comes behind W1, so the section does not find the object.
//! - Its E1 is in the sum. Then so is its L1, and all its accesses come before W2.
//! - It has counted itself in the phase that was made current, after that. Then it does not find the object either.
//!
//! Sections that begin all the time do not delay the second sum for ever: they count in the new phase. A section reads
//! the phase before E1 and may be interrupted in between, and so count in the phase that was left. The next wait
//! drains that phase first, before it becomes the current one again: therefore each wait drains both.
//!
//! # Sharing
//!
//! Waits are numbered, and take turns under a mutex. A wait that began after an object was removed covers the object,
//! so the next task at the mutex may find that its own wait is over. [`Sections::begin`] returns the number of the
//! first wait that covers what its caller has removed: not that of a wait that is under way. A wait stores its number
//! before it passes a W2. So if `begin`, behind W1, does not find the number of a wait, the wait passes W2 behind that
//! W1.

use super::{
    smp_mb,
    Acquire,
    Number,
    Relaxed,
    Release,
    SectionCounts,
    Turn, //
};

/// One of the two phases: in which words sections count themselves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Even,
    Odd,
}

impl Phase {
    fn of(number: u64) -> Self {
        match number & 1 {
            0 => Self::Even,
            _ => Self::Odd,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Even => Self::Odd,
            Self::Odd => Self::Even,
        }
    }
}

/// The state of all sections.
pub(crate) struct Sections {
    pub(super) counts: SectionCounts,
    /// Number of phases so far. The current one is that of the last number.
    phases: Number,
    /// Number of waits that have begun.
    begun: Number,
    /// Number of waits that are over.
    over: Number,
    turn: Turn,
}

impl Sections {
    /// Returns the state without sections.
    pub(super) const fn new(
        counts: SectionCounts,
        [phases, begun, over]: [Number; 3],
        turn: Turn,
    ) -> Self {
        Self {
            counts,
            phases,
            begun,
            over,
            turn,
        }
    }

    /// Begins a section. Undone by [`Sections::leave`], with the result.
    #[inline]
    pub(super) fn enter(&self) -> Phase {
        let phase = Phase::of(self.phases.load(Relaxed));
        self.counts.enter(phase);
        phase
    }

    /// Ends a section.
    #[inline]
    pub(super) fn leave(&self, phase: Phase) {
        self.counts.leave(phase);
    }

    /// Returns the number of the first wait that covers what the caller has removed.
    pub(super) fn begin(&self) -> u64 {
        smp_mb();
        self.begun.load(Relaxed).wrapping_add(1)
    }

    /// Returns once the wait with this number is over. Waits for the sections itself unless another task has. `pause`
    /// is called between two looks at the sections.
    pub(super) fn wait(&self, number: u64, pause: impl FnMut()) {
        if self.is_over(number) {
            return;
        }
        let _turn = self.turn.take();
        if self.is_over(number) {
            return;
        }
        let mine = self.begun.load(Relaxed).wrapping_add(1);
        self.begun.store(mine, Relaxed);
        self.wait_for_sections(pause);
        self.over.store(mine, Release);
    }

    /// Returns whether the wait with this number is over.
    fn is_over(&self, number: u64) -> bool {
        self.over.load(Acquire) >= number
    }

    /// Waits for the sections that began before. One caller at a time.
    fn wait_for_sections(&self, mut pause: impl FnMut()) {
        let number = self.phases.load(Relaxed);
        let phase = Phase::of(number);
        self.drain(phase.other(), &mut pause);
        self.phases.store(number.wrapping_add(1), Relaxed);
        self.drain(phase, &mut pause);
    }

    /// Waits until all sections of `phase` have left.
    fn drain(&self, phase: Phase, pause: &mut impl FnMut()) {
        loop {
            let left = self.counts.left(phase);
            smp_mb();
            if self.counts.entered(phase) == left {
                return;
            }
            pause();
        }
    }
}
