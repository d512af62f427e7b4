// SPDX-License-Identifier: GPL-2.0

//! The rings of `struct ferroce_ring`: free-running indices, and elements of a power of two of bytes.
//!
//! A ring is shared with the kernel, so its memory is atomic words. Only the words of indices order others; elements
//! are stored and loaded relaxed.

use crate::{
    abi::direct::ring::{
        CONSUMER,
        ENTRIES,
        HEAD_WORDS,
        NO_DOORBELL,
        PRODUCER,
        STRIDE, //
    },
    ffi::memory::{
        halves,
        Map, //
    },
    sync::{
        fence,
        AtomicU32,
        AtomicU64,
        Ordering, //
    },
};

/// The memory of a ring.
pub(crate) trait Memory {
    /// Returns all of it.
    fn words(&self) -> &[AtomicU64];
}

/// A ring of the ABI.
pub(crate) struct Ring<M = Map> {
    memory: M,
    entries: u32,
    /// Words of an element.
    stride: usize,
}

impl<M: Memory> Ring<M> {
    /// Returns the ring in `memory`, whose elements have at least `min_bytes`; `None` if its shape is no such ring.
    pub(crate) fn new(memory: M, min_bytes: u32) -> Option<Self> {
        let words = memory.words();
        let load = |at: usize| Some(halves(words).get(at)?.load(Ordering::Relaxed));
        let (entries, bytes): (u32, u32) = (load(ENTRIES)?, load(STRIDE)?);
        if !entries.is_power_of_two() || !bytes.is_power_of_two() || bytes < min_bytes.max(8) {
            return None;
        }
        let stride = usize::try_from(bytes).ok()? / 8;
        let elements = usize::try_from(entries).ok()?.checked_mul(stride)?;
        if elements.checked_add(HEAD_WORDS)? > words.len() {
            return None;
        }
        Some(Self {
            memory,
            entries,
            stride,
        })
    }

    /// Returns the number of elements.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the words of the element with this index.
    #[inline]
    pub(crate) fn element(&self, index: u32) -> Option<&[AtomicU64]> {
        let place = usize::try_from(index & self.entries.wrapping_sub(1)).ok()?;
        let start = place.wrapping_mul(self.stride).wrapping_add(HEAD_WORDS);
        self.memory.words().get(start..)?.get(..self.stride)
    }

    /// Returns a word of the head.
    #[inline]
    fn head(&self, at: usize) -> Option<&AtomicU32> {
        halves(self.memory.words()).get(at)
    }

    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.head(at).map_or(0, |word| word.load(order))
    }

    #[inline]
    fn store(&self, at: usize, value: u32) {
        if let Some(word) = self.head(at) {
            word.store(value, Ordering::Release);
        }
    }
}

/// The producing end of a ring.
pub(crate) struct Producer<M = Map> {
    ring: Ring<M>,
    /// Index behind the last element that is written.
    next: u32,
    /// The same, as the kernel sees it.
    published: u32,
    /// The consumer's index as last seen. It may be further on.
    consumed: u32,
}

impl<M: Memory> Producer<M> {
    /// Goes on where the ring is.
    pub(crate) fn new(ring: Ring<M>) -> Self {
        let next = ring.load(PRODUCER, Ordering::Relaxed);
        let consumed = ring.load(CONSUMER, Ordering::Acquire);
        Self {
            ring,
            next,
            published: next,
            consumed,
        }
    }

    /// Returns the number of elements of the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Returns the element to be written next; `None` if the queue is full.
    #[inline]
    pub(crate) fn vacant(&mut self) -> Option<&[AtomicU64]> {
        if self.next.wrapping_sub(self.consumed) >= self.ring.entries() {
            // The consumer's cache line is read only now: the kernel writes it often.
            self.consumed = self.ring.load(CONSUMER, Ordering::Acquire);
            if self.next.wrapping_sub(self.consumed) >= self.ring.entries() {
                return None;
            }
        }
        self.ring.element(self.next)
    }

    /// The element that [`vacant`](Self::vacant) returned is written.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Returns the element that was written last, if it is not published.
    #[inline]
    pub(crate) fn last(&self) -> Option<&[AtomicU64]> {
        if self.next == self.published {
            return None;
        }
        self.ring.element(self.next.wrapping_sub(1))
    }

    /// Returns how many written elements are not published.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.next.wrapping_sub(self.published)
    }

    /// Hands the written elements to the kernel.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.ring.store(PRODUCER, self.next);
        self.published = self.next;
    }

    /// Forgets the written elements that are not published.
    #[inline]
    pub(crate) fn rewind(&mut self) {
        self.keep(0);
    }

    /// Forgets the written elements that are not published, but for the first ones.
    pub(crate) fn keep(&mut self, first: u32) {
        self.next = self.published.wrapping_add(first);
    }

    /// Whether the kernel has promised to look at the queue by itself after what was published.
    #[inline]
    pub(crate) fn no_doorbell(&self) -> bool {
        // The promise is worth something only if the index is visible before the word is read. The kernel clears
        // the word, has a barrier, too, and then reads the index: one of both sees the other's store.
        fence(Ordering::SeqCst);
        self.ring.load(NO_DOORBELL, Ordering::Relaxed) != 0
    }
}

/// The consuming end of a ring of completions.
pub(crate) struct Consumer<M = Map> {
    ring: Ring<M>,
    /// Index of the next completion.
    next: u32,
    /// The same, as the kernel sees it.
    published: u32,
}

impl<M: Memory> Consumer<M> {
    /// Completions that may be taken before the kernel is told, within one call.
    const BATCH: u32 = 16;

    /// Goes on where the ring is.
    pub(crate) fn new(ring: Ring<M>) -> Self {
        let next = ring.load(CONSUMER, Ordering::Relaxed);
        Self {
            ring,
            next,
            published: next,
        }
    }

    /// Returns the words of the next completion, if the last of them, loaded with acquire, says that it is there.
    /// `turn` is the place of that one among the words of 32 bits.
    #[inline]
    pub(crate) fn peek(&self, turn: usize) -> Option<&[AtomicU64]> {
        let element = self.ring.element(self.next)?;
        let seen = halves(element).get(turn)?.load(Ordering::Acquire);
        (seen == self.next.wrapping_add(1)).then_some(element)
    }

    /// The completion that [`peek`](Self::peek) returned is copied.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        if self.next.wrapping_sub(self.published) >= Self::BATCH {
            self.publish();
        }
    }

    /// Removes the completions that `is_stale` names. The others move up to the last one, in order; each place has the
    /// right word `turn` already.
    pub(crate) fn remove(&mut self, turn: usize, is_stale: impl Fn(&[AtomicU64]) -> bool) {
        let first = self.next;
        while self.next.wrapping_sub(first) < self.ring.entries() && self.peek(turn).is_some() {
            self.next = self.next.wrapping_add(1);
        }
        let (mut from, mut to) = (self.next, self.next);
        while from != first {
            from = from.wrapping_sub(1);
            let source = self.ring.element(from).unwrap_or_default();
            if is_stale(source) {
                continue;
            }
            to = to.wrapping_sub(1);
            let target = self.ring.element(to).unwrap_or_default();
            // The last word has the turn.
            let words = turn / 2;
            for (target, source) in target.iter().zip(source).take(words) {
                target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.next = to;
        self.publish();
    }

    /// Tells the kernel what was taken, before the caller may post for it: else a ring that is just large enough
    /// would seem to overrun.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.next != self.published {
            self.ring.store(CONSUMER, self.next);
            self.published = self.next;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    impl Memory for &[AtomicU64] {
        fn words(&self) -> &[AtomicU64] {
            self
        }
    }

    /// Zeroed memory of a ring with this shape, and with both indices at `index`.
    pub(crate) fn memory(entries: u32, stride: u32, index: u32) -> Vec<AtomicU64> {
        let words = HEAD_WORDS + (entries * stride / 8) as usize;
        let memory: Vec<_> = (0..words).map(|_| AtomicU64::new(0)).collect();
        set(&memory, ENTRIES, entries);
        set(&memory, STRIDE, stride);
        set(&memory, PRODUCER, index);
        set(&memory, CONSUMER, index);
        memory
    }

    /// Stores a word of the head, as the kernel would.
    pub(crate) fn set(memory: &[AtomicU64], at: usize, value: u32) {
        halves(memory)[at].store(value, Ordering::Release);
    }

    fn get(memory: &[AtomicU64], at: usize) -> u32 {
        halves(memory)[at].load(Ordering::Acquire)
    }

    #[test]
    fn shapes_that_are_no_ring_are_refused() {
        for (entries, stride) in [(3, 64), (0, 64), (4, 48), (4, 32), (4, 0)] {
            let memory = memory(4, 64, 0);
            set(&memory, ENTRIES, entries);
            set(&memory, STRIDE, stride);
            assert!(
                Ring::new(&memory[..], 64).is_none(),
                "{entries} of {stride}"
            );
        }
        let short = memory(4, 64, 0);
        assert!(Ring::new(&short[..short.len() - 1], 64).is_none());
        assert!(Ring::new(&short[..0], 64).is_none());
        set(&short, ENTRIES, 1 << 31);
        assert!(Ring::new(&short[..], 64).is_none());
    }

    #[test]
    fn a_queue_is_full_when_all_elements_are_used_and_indices_wrap() {
        let start = u32::MAX - 1;
        let memory = memory(4, 64, start);
        let mut queue = Producer::new(Ring::new(&memory[..], 64).unwrap());
        for _ in 0..4 {
            assert!(queue.vacant().is_some());
            queue.advance();
        }
        assert!(queue.vacant().is_none());
        assert_eq!(get(&memory, PRODUCER), start);
        queue.publish();
        assert_eq!(get(&memory, PRODUCER), start.wrapping_add(4));
        set(&memory, CONSUMER, start.wrapping_add(1));
        assert!(queue.vacant().is_some());
        queue.advance();
        assert!(queue.vacant().is_none());
    }

    #[test]
    fn what_is_not_published_can_be_taken_back() {
        let memory = memory(2, 64, 7);
        let mut queue = Producer::new(Ring::new(&memory[..], 64).unwrap());
        assert!(queue.last().is_none());
        queue.vacant().unwrap()[0].store(5, Ordering::Relaxed);
        queue.advance();
        assert_eq!(queue.last().unwrap()[0].load(Ordering::Relaxed), 5);
        queue.rewind();
        assert_eq!(queue.unpublished(), 0);
        queue.publish();
        assert_eq!(get(&memory, PRODUCER), 7);
    }

    #[test]
    fn completions_are_told_by_their_turn() {
        let start = u32::MAX - 2;
        let memory = memory(2, 64, start);
        let mut queue = Consumer::new(Ring::new(&memory[..], 64).unwrap());
        for index in (0..5).map(|i| start.wrapping_add(i)) {
            assert!(queue.peek(15).is_none());
            let place = (index & 1) as usize;
            set(&memory[HEAD_WORDS + place * 8..], 15, index.wrapping_add(1));
            assert!(queue.peek(15).is_some());
            queue.advance();
        }
        assert_eq!(get(&memory, CONSUMER), start);
        queue.publish();
        assert_eq!(get(&memory, CONSUMER), start.wrapping_add(5));
    }

    #[test]
    fn removed_completions_leave_the_others_in_order() {
        let start = u32::MAX - 1;
        let memory = memory(4, 64, start);
        let mut queue = Consumer::new(Ring::new(&memory[..], 64).unwrap());
        for (at, id) in [10, 21, 12, 23].into_iter().enumerate() {
            let index = start.wrapping_add(at as u32);
            let element = &memory[HEAD_WORDS + (index & 3) as usize * 8..];
            element[0].store(id, Ordering::Relaxed);
            set(element, 15, index.wrapping_add(1));
        }
        queue.remove(15, |words| words[0].load(Ordering::Relaxed) < 20);
        assert_eq!(get(&memory, CONSUMER), start.wrapping_add(2));
        for id in [21, 23] {
            assert_eq!(queue.peek(15).unwrap()[0].load(Ordering::Relaxed), id);
            queue.advance();
        }
        assert!(queue.peek(15).is_none());
        queue.remove(15, |_| true);
        assert!(queue.peek(15).is_none());
    }

    #[test]
    fn the_kernel_is_told_of_sixteen_completions() {
        let memory = memory(64, 64, 0);
        let mut queue = Consumer::new(Ring::new(&memory[..], 64).unwrap());
        for taken in 1..=40 {
            queue.advance();
            assert_eq!(get(&memory, CONSUMER), taken / 16 * 16);
        }
    }
}
