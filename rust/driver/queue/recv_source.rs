// SPDX-License-Identifier: GPL-2.0

//! Sources of receives: a ring of a process, or copies of the receives that a ULP posted.
//!
//! Used by an RQ or SRQ, which locks it. Taking a receive copies its scatter/gather list once and returns the
//! element to the consumer. Also resizes both kinds of source, for SRQs.

use crate::{
    abi::{
        self,
        wqe::{
            RecvWqe,
            WqeBounds,
            WqeSge, //
        }, //
    },
    queue::posted_fifo::PostedFifo, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::{
        ring::Ring,
        wr, //
    },
    util::alloc::gfp_user, //
};
use roce::{
    status::WcStatus,
    wr::{
        BadRecv,
        RecvWr, //
    }, //
};

/// Scatter/gather list of a receive that was taken. It is a copy, which the consumer cannot change.
pub(crate) struct RecvSges {
    entries: KVVec<WqeSge>,
    used: usize,
}

impl RecvSges {
    /// Creates an empty list with space for `max_sge` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: u32) -> Result<Self> {
        // CAST: At most `MAX_SGE`.
        let entries = KVVec::from_elem(WqeSge::default(), max_sge as usize, gfp_user())?;
        Ok(Self { entries, used: 0 })
    }

    /// Returns the entries.
    pub(crate) fn entries(&self) -> &[WqeSge] {
        self.entries.get(..self.used).unwrap_or_default()
    }

    /// Empties the list.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Sets the length of the list to `count`, and returns the entries to fill in; `None` if it is too long.
    fn fill(&mut self, count: usize) -> Option<&mut [WqeSge]> {
        self.used = 0;
        let sges = self.entries.get_mut(..count)?;
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
    ring: Arc<Ring>,
    /// Next element to read, masked. The ring holds the published copy.
    next: u32,
    /// Elements read so far, across resizes; wraps around.
    taken: u32,
    bounds: WqeBounds,
}

impl RingReader {
    /// Creates the consuming end of `ring`, whose elements have up to `max_sge` SGEs.
    pub(crate) fn new(ring: Arc<Ring>, max_sge: u32) -> Self {
        Self {
            ring,
            next: 0,
            taken: 0,
            bounds: WqeBounds {
                max_sge,
                max_inline: 0,
            },
        }
    }

    /// Takes the next receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`.
    pub(crate) fn take(&mut self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        let (ring, bounds) = (&*self.ring, self.bounds);
        let taken = ring.take(&mut self.next, |index| {
            match read_recv(ring, index, bounds, list) {
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

    /// Returns the number of waiting receives. User space can falsify it.
    pub(crate) fn len(&self) -> u32 {
        self.ring.distance(self.next, self.ring.producer())
    }

    /// Discards all waiting receives.
    pub(crate) fn clear(&mut self) {
        self.next = self.ring.producer();
        self.ring.publish_consumer(self.next);
    }

    /// Begins a resize to `ring`. Receives that user space posts before the resize is complete are lost.
    pub(crate) fn begin_resize(&self, ring: Arc<Ring>) -> RingResize {
        RingResize {
            ring,
            start: self.taken,
            copied: self.taken,
            end: self.taken.wrapping_add(self.len()),
        }
    }
}

/// Copies the receive at `index` of `ring`, and its scatter/gather list to `list`.
fn read_recv(
    ring: &Ring,
    index: u32,
    bounds: WqeBounds,
    list: &mut RecvSges,
) -> Result<RecvWr, BadRecv> {
    let mut bytes = [0; RecvWqe::LEN];
    ring.read(index, 0, &mut bytes);
    let wqe: RecvWqe = zerocopy::transmute!(bytes);
    // CAST: `u32` to `usize`, on 64 bits.
    let entries = wqe
        .num_sge(bounds)
        .and_then(|entries| list.fill(entries as usize))
        .ok_or(BadRecv {
            wr_id: wqe.wr_id(),
            status: WcStatus::LocQpOpErr,
        })?;
    ring.read(index, RecvWqe::LEN, entries.as_mut_bytes());
    Ok(wqe.work_request(abi::wqe::capacity(entries)))
}

/// A resize: copies the waiting receives of a ring to another ring, in steps.
///
/// Positions are values of `RingReader::taken`, and wrap around.
pub(crate) struct RingResize {
    ring: Arc<Ring>,
    /// Position of the first element of the new ring.
    start: u32,
    copied: u32,
    end: u32,
}

impl RingResize {
    /// Copies up to `budget` elements. Returns true when `reader` uses the new ring; `self.ring` is the old
    /// one then.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the waiting receives do not fit.
    pub(crate) fn step(&mut self, reader: &mut RingReader, budget: u32) -> Result<bool> {
        // Receives that were taken meanwhile need not be copied.
        let waiting = self.end.wrapping_sub(reader.taken);
        let waiting = if waiting > reader.ring.mask() {
            0 // Only if user space has posted more.
        } else {
            waiting
        };
        if waiting > self.ring.entries() {
            return Err(EINVAL);
        }
        let first = self.end.wrapping_sub(waiting);
        if self.end.wrapping_sub(self.copied) > waiting {
            self.copied = first;
        }
        for _ in 0..budget {
            if self.copied == self.end {
                self.finish(reader, first);
                return Ok(true);
            }
            let from = reader.next.wrapping_add(self.copied.wrapping_sub(first));
            let to = self.copied.wrapping_sub(self.start);
            reader.ring.copy_element(from, &self.ring, to);
            self.copied = self.copied.wrapping_add(1);
        }
        Ok(false)
    }

    fn finish(&mut self, reader: &mut RingReader, first: u32) {
        core::mem::swap(&mut reader.ring, &mut self.ring);
        reader.next = first.wrapping_sub(self.start) & reader.ring.mask();
        reader.ring.publish_consumer(reader.next);
        let end = self.end.wrapping_sub(self.start);
        reader.ring.publish_producer(end);
    }
}

/// Receives posted by a ULP: copies, in order.
pub(crate) struct RecvFifo {
    newer: PostedFifo<RecvWr>,
    /// Receives posted before the last resize, which are taken first. They are not copied.
    older: Option<PostedFifo<RecvWr>>,
}

impl RecvFifo {
    /// Creates a FIFO for `max_wr` receives with up to `max_sge` SGEs each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Self> {
        Ok(Self {
            newer: PostedFifo::new(max_wr, max_sge)?,
            older: None,
        })
    }

    /// Adds a receive.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its list has too many SGEs or describes too many bytes; `ENOMEM` if the FIFO is full.
    pub(crate) fn push(&mut self, wr: &wr::KernelRecvWr<'_>) -> Result {
        if self.len() >= self.capacity() {
            return Err(ENOMEM);
        }
        self.newer.push(&wr.sges(), |length| RecvWr {
            wr_id: wr.wr_id(),
            length,
        })
    }

    /// Takes the oldest receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`.
    pub(crate) fn take(&mut self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        let older = self.older.as_mut().filter(|older| older.len() != 0);
        let oldest = older.unwrap_or(&mut self.newer);
        if oldest.first().is_some_and(|wr| wr.length < min_bytes) {
            return Err(RecvTooShort);
        }
        Ok(oldest.take(|entries| list.fill(entries)).map(Ok))
    }

    /// Replaces this FIFO by the empty one in `spare`, for later receives. Returns unused memory in `spare`:
    /// the caller drops it after it releases the lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the new capacity is below the number of waiting receives; `EBUSY` while receives from
    /// before the last resize wait.
    pub(crate) fn resize(&mut self, spare: &mut Option<Self>) -> Result {
        if self.older.as_ref().is_some_and(|older| older.len() != 0) {
            return Err(EBUSY);
        }
        let new = spare.take_if(|new| self.len() <= new.capacity());
        let old = core::mem::replace(self, new.ok_or(EINVAL)?);
        self.older = Some(old.newer);
        *spare = old.older.map(|newer| Self { newer, older: None });
        Ok(())
    }

    /// Returns the number of waiting receives.
    pub(crate) fn len(&self) -> u32 {
        let older = self.older.as_ref().map_or(0, PostedFifo::len);
        self.newer.len().saturating_add(older)
    }

    /// Returns the maximum number of waiting receives.
    pub(crate) fn capacity(&self) -> u32 {
        self.newer.capacity()
    }

    /// Discards all waiting receives.
    pub(crate) fn clear(&mut self) {
        self.older.iter_mut().for_each(PostedFifo::clear);
        self.newer.clear();
    }
}

/// A source of receives.
pub(crate) enum RecvSource {
    /// The ring of a process.
    Ring(RingReader),
    /// Receives posted by a ULP.
    Posted(RecvFifo),
}

impl RecvSource {
    /// Takes the next receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`.
    pub(crate) fn take(&mut self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        match self {
            Self::Ring(ring) => ring.take(min_bytes, list),
            Self::Posted(fifo) => fifo.take(min_bytes, list),
        }
    }

    /// Returns the number of waiting receives.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Ring(ring) => ring.len(),
            Self::Posted(fifo) => fifo.len(),
        }
    }
}
