// SPDX-License-Identifier: GPL-2.0

//! The consuming end of a receive ring, of an RQ or SRQ, which locks it.
//!
//! Taking a receive copies its scatter/gather list once and returns the element to the consumer.

use crate::{
    abi::Abi,
    mem::sge::Sge,
    queue::copy_ring::{
        RingResize,
        Waiting, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::ring::Ring,
    util::alloc::gfp_user, //
};
use roce::wr::{
    BadRecv,
    RecvWr, //
};

/// Scatter/gather list of a receive that was taken. It is a copy, which the consumer cannot change.
pub(crate) struct RecvSges {
    entries: KVVec<Sge>,
    used: usize,
    /// Longest list of the queue.
    max: usize,
}

impl RecvSges {
    /// Creates an empty list with space for `max_sge` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: u32) -> Result<Self> {
        // CAST: At most `MAX_SGE`.
        let max = max_sge as usize;
        let entries = KVVec::from_elem(Sge::default(), max, gfp_user())?;
        Ok(Self {
            entries,
            used: 0,
            max,
        })
    }

    /// Sets the longest list of the queue that the next receive comes from.
    pub(crate) fn set_max_sge(&mut self, max_sge: u32) {
        // CAST: At most `MAX_SGE`.
        self.max = max_sge as usize;
    }

    /// Returns the entries.
    pub(crate) fn entries(&self) -> &[Sge] {
        self.entries.get(..self.used).unwrap_or_default()
    }

    /// Empties the list.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Sets the length of the list to `count`, and returns the entries to fill in; `None` if it is too long.
    fn fill(&mut self, count: usize) -> Option<&mut [Sge]> {
        self.used = 0;
        let sges = self.entries.get_mut(..self.max)?.get_mut(..count)?;
        self.used = count;
        Some(sges)
    }
}

/// The next receive is too short for the message. It remains the next.
pub(crate) struct RecvTooShort;

/// Result of taking a receive. `None`: the consumer has posted no more. An invalid receive comes with its
/// completion status.
pub(crate) type TakenRecv = Result<Option<Result<RecvWr, BadRecv>>, RecvTooShort>;

/// The consuming end of a receive ring.
pub(crate) struct RingReader {
    abi: Abi,
    ring: Arc<Ring>,
    /// Next element to read, masked. The ring holds the published copy.
    next: u32,
    /// Elements read so far, across resizes; wraps around.
    taken: u32,
}

impl RingReader {
    /// Creates the consuming end of `ring`.
    pub(crate) fn new(abi: Abi, ring: Arc<Ring>) -> Self {
        Self {
            abi,
            ring,
            next: 0,
            taken: 0,
        }
    }

    /// Takes the next receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`.
    pub(crate) fn take(&mut self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        let (abi, ring) = (self.abi, &*self.ring);
        let taken = ring.take(&mut self.next, |index| {
            // CAST: `u32` to `usize`, on 64 bits.
            match abi.read_recv(ring, index, |entries| list.fill(entries as usize)) {
                Ok(wr) if wr.length < min_bytes => Err(RecvTooShort),
                taken => Ok(taken),
            }
        });
        let taken = taken.transpose()?;
        if taken.is_some() {
            self.taken = self.taken.wrapping_add(1);
        }
        Ok(taken)
    }

    /// Returns the number of waiting receives. User space can falsify it for its own ring.
    pub(crate) fn len(&self) -> u32 {
        self.ring.distance(self.next, self.ring.producer())
    }

    /// Discards all waiting receives.
    pub(crate) fn clear(&mut self) {
        self.next = self.ring.producer();
        self.ring.publish_consumer(self.next);
    }

    /// Begins a resize to `ring`, which may hold `capacity` receives. Also returns the position after the last receive.
    pub(crate) fn begin_resize(&self, ring: Arc<Ring>, capacity: u32) -> (RingResize, u32) {
        let resize = RingResize::new(ring, capacity, self.taken);
        (resize, self.taken.wrapping_add(self.len()))
    }

    /// Copies some of the receives that wait, up to position `end` if it is given: receives that a process posts after
    /// that are lost, or it might post for ever. Returns the index of the producer when the reader uses the new ring.
    ///
    /// # Errors
    ///
    /// As [`RingResize::step`].
    pub(crate) fn step_resize(
        &mut self,
        resize: &mut RingResize,
        end: Option<u32>,
    ) -> Result<Option<u32>> {
        let count = match end.map(|end| end.wrapping_sub(self.taken)) {
            None => self.len(),
            Some(count) if count <= self.ring.entries() => count,
            Some(_) => 0, // Only if the process has posted more.
        };
        let waiting = Waiting {
            index: self.next,
            position: self.taken,
            count,
        };
        let ends = resize.step(&mut self.ring, waiting, |_, _| ())?;
        Ok(ends.map(|(consumer, producer)| {
            self.next = consumer;
            producer
        }))
    }
}
