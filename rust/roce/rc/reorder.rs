// SPDX-License-Identifier: GPL-2.0

//! The reorder buffer of one direction of a QP: packets that arrived early, until the earlier ones arrive.
//!
//! A receiver without it takes every gap in the PSNs for a loss: the responder sends a NAK, the requester retransmits,
//! and the packets after the gap travel twice. That is right on a path that keeps the order. Switches that choose a
//! path for each packet (adaptive routing, packet spray) do not keep it: a packet that is missing is usually late, not
//! lost. The buffer keeps what comes early, and reports a gap only when it has lasted for some time or the buffer is
//! full.
//!
//! IBA has no such receiver, and needs none: to the peer it looks like a network that keeps the order but delays more.

use crate::{
    psn::Psn,
    time::{
        Duration,
        Instant, //
    }, //
};
use core::{
    borrow::BorrowMut,
    marker::PhantomData, //
};

/// Most packets that a buffer keeps. They may wait in fewer items, as an item may consist of several packets.
pub const MAX_EARLY_PACKETS: u32 = 64;

/// Most memory that the items of a buffer may occupy, in bytes. An item may occupy more than its packets: those that
/// were handled remain in it.
pub const MAX_EARLY_BYTES: u32 = 1 << 20;

/// Items that a [`ReorderBuffer`] has room for.
pub const REORDER_SLOTS: usize = 64;

/// An item, and the PSN of its first packet.
#[derive(Debug)]
pub struct Early<T> {
    psn: Psn,
    size: EarlySize,
    item: T,
}

/// A place for an item.
pub type EarlySlot<T> = Option<Early<T>>;

/// What an item counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EarlySize {
    /// Packets; at least 1 is counted.
    pub packets: u32,
    /// Memory that the item occupies.
    pub bytes: u32,
}

/// What to do with a packet that arrived early.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// Keep it: pass it to [`ReorderBuffer::keep`].
    Keep,
    /// Drop it: the buffer has it.
    Repeated,
    /// Handle it as without a buffer: the buffer is full.
    Full,
}

/// How long to wait for the packets that are missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GapWait {
    /// Nothing is missing.
    Done,
    /// Until this time. Then ask again.
    Until(Instant),
    /// The time is over, and the buffer empty. The caller reports the gap.
    Over,
}

/// The first missing packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Gap {
    None,
    /// `psn` has been missing since this time.
    Open {
        psn: Psn,
        since: Instant,
    },
}

/// Packets that arrived early.
///
/// `T` is what the caller keeps of one or more packets with consecutive PSNs. The caller defines what is early:
/// [`Responder::is_early`](super::responder::Responder::is_early),
/// [`Requester::is_early`](super::requester::Requester::is_early).
///
/// `S` is the storage of [`REORDER_SLOTS`] slots.
#[derive(Debug)]
pub struct ReorderBuffer<T, S = [EarlySlot<T>; REORDER_SLOTS]> {
    slots: S,
    item: PhantomData<T>,
    /// Packets and bytes in the buffer.
    size: EarlySize,
    gap: Gap,
    /// Time after which a gap is reported.
    wait: Duration,
}

impl<T> ReorderBuffer<T> {
    /// Returns an empty buffer, which waits for a missing packet that long.
    #[must_use]
    pub const fn new(wait: Duration) -> Self {
        Self::with_slots([const { None }; REORDER_SLOTS], wait)
    }
}

impl<T, S> ReorderBuffer<T, S> {
    /// As [`new`](ReorderBuffer::new), in these slots.
    #[must_use]
    pub const fn with_slots(slots: S, wait: Duration) -> Self {
        Self {
            slots,
            item: PhantomData,
            size: EarlySize {
                packets: 0,
                bytes: 0,
            },
            gap: Gap::None,
            wait,
        }
    }

    /// Returns whether nothing is kept.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.size.packets == 0
    }
}

impl<T, S: BorrowMut<[EarlySlot<T>]>> ReorderBuffer<T, S> {
    /// Returns what to do with an item of this size, whose first packet has this PSN.
    #[must_use]
    pub fn admission(&self, psn: Psn, size: EarlySize) -> Admission {
        let slots = self.slots.borrow();
        if slots.iter().flatten().any(|early| early.psn == psn) {
            return Admission::Repeated;
        }
        let has_room = self.size.packets.saturating_add(size.packets) <= MAX_EARLY_PACKETS
            && self.size.bytes.saturating_add(size.bytes) <= MAX_EARLY_BYTES;
        match has_room && slots.iter().any(Option::is_none) {
            true => Admission::Keep,
            false => Admission::Full,
        }
    }

    /// Keeps an item that [`admission`](Self::admission) admits. Without room it is dropped, as if the network had
    /// lost it.
    pub fn keep(&mut self, psn: Psn, size: EarlySize, item: T) {
        let free = self
            .slots
            .borrow_mut()
            .iter_mut()
            .find(|slot| slot.is_none());
        if let Some(slot) = free {
            let size = EarlySize {
                packets: size.packets.max(1),
                ..size
            };
            self.size.packets = self.size.packets.saturating_add(size.packets);
            self.size.bytes = self.size.bytes.saturating_add(size.bytes);
            *slot = Some(Early { psn, size, item });
        }
    }

    /// Removes and returns an item whose first packet is no longer early.
    pub fn take(&mut self, is_early: impl Fn(Psn) -> bool) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let is_due = |slot: &&mut EarlySlot<T>| {
            let early = slot.as_ref();
            early.is_some_and(|early| !is_early(early.psn))
        };
        let slots = self.slots.borrow_mut();
        let early = slots.iter_mut().find(is_due)?.take()?;
        self.size.packets = self.size.packets.saturating_sub(early.size.packets);
        self.size.bytes = self.size.bytes.saturating_sub(early.size.bytes);
        Some(early.item)
    }

    /// Returns how long to wait for packet `missing`, the first one that has not arrived. Call it after packets were
    /// handled, and at the time that it returned.
    pub fn gap_wait(&mut self, missing: Psn, now: Instant) -> GapWait {
        if self.is_empty() {
            self.gap = Gap::None;
            return GapWait::Done;
        }
        let since = match self.gap {
            Gap::Open { psn, since } if psn == missing => since,
            _ => now,
        };
        let until = since.saturating_add(self.wait);
        if now.is_before(until) {
            self.gap = Gap::Open {
                psn: missing,
                since,
            };
            return GapWait::Until(until);
        }
        // The peer repeats everything from `missing` on, so what is kept is of no use. It would take memory until
        // then.
        self.clear();
        GapWait::Over
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.slots
                .borrow_mut()
                .iter_mut()
                .for_each(|slot| *slot = None);
            self.size = EarlySize::default();
        }
        self.gap = Gap::None;
    }
}

#[cfg(test)]
mod tests;
