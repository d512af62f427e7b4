// SPDX-License-Identifier: GPL-2.0

//! Receives that wait to be used: in a ring of a process, or as copies of what a consumer in the kernel
//! has posted.
//!
//! Owns the read position and the order. Taking one copies its scatter list out, once and by value,
//! and gives the element back to the consumer at once. Knows neither who takes nor what arrives;
//! whoever shares a supply locks it.

use crate::{
    abi::{
        self,
        wqe::{
            RecvWqe,
            WqeBounds,
            WqeSge, //
        }, //
    },
    queue::posted::PostedFifo, //
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

/// The scatter list of a receive that was taken: a copy that nobody else can reach.
pub(crate) struct RecvSges {
    entries: KVVec<WqeSge>,
    used: usize,
}

impl RecvSges {
    /// An empty list with room for `max_sge` entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: u32) -> Result<Self> {
        // CAST: At most `MAX_SGE`.
        let entries = KVVec::from_elem(WqeSge::default(), max_sge as usize, gfp_user())?;
        Ok(Self { entries, used: 0 })
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &[WqeSge] {
        self.entries.get(..self.used).unwrap_or_default()
    }

    /// Forgets what is in it.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Room for a list of `count` entries, which is the list from here on; `None` if it is too long.
    fn fill(&mut self, count: usize) -> Option<&mut [WqeSge]> {
        self.used = 0;
        let room = self.entries.get_mut(..count)?;
        self.used = count;
        Some(room)
    }
}

/// The next receive is shorter than the message that wants it, and stays the next.
pub(crate) struct TooShort;

/// What taking a receive comes to. `None`: the consumer has posted no more. A receive that cannot be used comes with
/// the status that it completes with.
pub(crate) type Taken = Result<Option<Result<RecvWr, BadRecv>>, TooShort>;

/// The consuming end of a receive ring.
pub(crate) struct RingReader {
    ring: Arc<Ring>,
    /// Next element to read, masked; the ring holds the published copy.
    next: u32,
    /// Elements read since the ring was made; runs free.
    taken: u32,
    bounds: WqeBounds,
}

impl RingReader {
    /// The consuming end of `ring`, whose elements have up to `max_sge` entries.
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

    /// Takes the next receive, for a message of `least` bytes; its scatter list goes to `list`.
    pub(crate) fn take(&mut self, least: u32, list: &mut RecvSges) -> Taken {
        let (ring, bounds) = (&*self.ring, self.bounds);
        let taken = ring.take(&mut self.next, |index| {
            match copy(ring, index, bounds, list) {
                Ok(wr) if wr.length < least => Err(TooShort),
                taken => Ok(taken),
            }
        });
        let taken = taken.transpose()?;
        if taken.is_some() {
            self.taken = self.taken.wrapping_add(1);
        }
        Ok(taken)
    }

    /// Receives that wait, as far as user space can be believed.
    pub(crate) fn len(&self) -> u32 {
        self.ring.distance(self.next, self.ring.producer())
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.next = self.ring.producer();
        self.ring.publish_consumer(self.next);
    }

    /// Begins the move to `ring`. What user space posts until it is done is lost.
    pub(crate) fn begin_move(&self, ring: Arc<Ring>) -> RingResize {
        RingResize {
            ring,
            start: self.taken,
            moved: self.taken,
            end: self.taken.wrapping_add(self.len()),
        }
    }
}

/// Copies the receive at `index` of `ring`, and its scatter list to `list`.
fn copy(
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

/// The move of what waits in a ring to one of another size, a part at a time.
///
/// Positions count the elements that were ever in the old ring, and run free.
pub(crate) struct RingResize {
    ring: Arc<Ring>,
    /// What stands first in the new ring.
    start: u32,
    moved: u32,
    end: u32,
}

impl RingResize {
    /// Moves up to `most` elements. Says whether that was all: then `reader` reads from the new ring,
    /// and the old one is here.
    ///
    /// # Errors
    ///
    /// `EINVAL` if what waits does not fit.
    pub(crate) fn step(&mut self, reader: &mut RingReader, most: u32) -> Result<bool> {
        // What has been taken meanwhile need not move.
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
        if self.end.wrapping_sub(self.moved) > waiting {
            self.moved = first;
        }
        for _ in 0..most {
            if self.moved == self.end {
                self.finish(reader, first);
                return Ok(true);
            }
            let from = reader.next.wrapping_add(self.moved.wrapping_sub(first));
            let to = self.moved.wrapping_sub(self.start);
            reader.ring.copy_element(from, &self.ring, to);
            self.moved = self.moved.wrapping_add(1);
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

/// Receives of a consumer in the kernel: copies, in the order in which they were posted.
pub(crate) struct RecvFifo {
    newer: PostedFifo<RecvWr>,
    /// Those from before the last resize, which are taken first. They stay where they are.
    older: Option<PostedFifo<RecvWr>>,
}

impl RecvFifo {
    /// Room for `max_wr` receives with up to `max_sge` entries each.
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
    /// `EINVAL` if its scatter list is too long, in entries or in bytes; `ENOMEM` if there is no room.
    pub(crate) fn push(&mut self, wr: &wr::KernelRecvWr<'_>) -> Result {
        if self.len() >= self.capacity() {
            return Err(ENOMEM);
        }
        self.newer.push(&wr.sges(), |length| RecvWr {
            wr_id: wr.wr_id(),
            length,
        })
    }

    /// Takes the oldest receive, for a message of `least` bytes; its scatter list goes to `list`.
    pub(crate) fn take(&mut self, least: u32, list: &mut RecvSges) -> Taken {
        let older = self.older.as_mut().filter(|older| older.len() != 0);
        let oldest = older.unwrap_or(&mut self.newer);
        if oldest.first().is_some_and(|wr| wr.length < least) {
            return Err(TooShort);
        }
        Ok(oldest.take(|entries| list.fill(entries)).map(Ok))
    }

    /// Takes what is in `room`, which is empty, for what is posted from now on. What is not needed any
    /// more is left there, to be dropped where one may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is less room than receives wait; `EBUSY` while some from before the last
    /// resize wait.
    pub(crate) fn resize(&mut self, room: &mut Option<Self>) -> Result {
        if self.older.as_ref().is_some_and(|older| older.len() != 0) {
            return Err(EBUSY);
        }
        let new = room.take_if(|new| self.len() <= new.capacity());
        let old = core::mem::replace(self, new.ok_or(EINVAL)?);
        self.older = Some(old.newer);
        *room = old.older.map(|newer| Self { newer, older: None });
        Ok(())
    }

    /// Receives that wait.
    pub(crate) fn len(&self) -> u32 {
        let older = self.older.as_ref().map_or(0, PostedFifo::len);
        self.newer.len().saturating_add(older)
    }

    /// Most receives that can wait.
    pub(crate) fn capacity(&self) -> u32 {
        self.newer.capacity()
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.older.iter_mut().for_each(PostedFifo::clear);
        self.newer.clear();
    }
}

/// A supply of either kind.
pub(crate) enum RecvSource {
    /// Of a process.
    Ring(RingReader),
    /// Of a consumer in the kernel.
    Posted(RecvFifo),
}

impl RecvSource {
    /// Takes the next receive, for a message of `least` bytes; its scatter list goes to `list`.
    pub(crate) fn take(&mut self, least: u32, list: &mut RecvSges) -> Taken {
        match self {
            Self::Ring(ring) => ring.take(least, list),
            Self::Posted(posts) => posts.take(least, list),
        }
    }

    /// Receives that wait.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Ring(ring) => ring.len(),
            Self::Posted(posts) => posts.len(),
        }
    }
}
