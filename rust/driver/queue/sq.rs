// SPDX-License-Identifier: GPL-2.0

//! The send queue of a QP: its consuming end.
//!
//! The send engine owns it, in process context or softirq. It reads each entry of the ring once, and keeps a
//! private copy, which user space cannot change, while the request is in progress. Slot `i` of the window of
//! [`Requester`] belongs to body `i` here, and to each element `i` of the ring modulo the number of slots.

use crate::{
    abi::{
        request::{
            load_local,
            BodyLayout,
            RejectedWqe,
            SendRules,
            LOCAL_REQUEST_SGES, //
        },
        Abi, //
    },
    mem::sge::Sge,
    queue::{
        doorbell::{
            DoorbellSuppressor,
            Suppression, //
        },
        producer::Posts, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::ring::Ring,
    sync::{
        exclusive::More,
        timer::now, //
    },
    util::alloc::{
        table,
        Table, //
    }, //
};
use roce::{
    bind::LocalRequest,
    rc::{
        requester::Requester,
        send_window::Slot, //
    },
    segmentation::tx_desc::SlotIndex,
    time::Instant,
    ud::DatagramWr,
    wake::{
        NextWake,
        Wake, //
    },
    wr::SendWr, //
};

/// Storage of the send window.
pub(crate) struct SendSlots(Table<Slot>);

impl SendSlots {
    /// Creates storage for `count` requests, a power of two.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        Ok(Self(table(Slot::EMPTY, count as usize)?))
    }
}

impl AsRef<[Slot]> for SendSlots {
    #[inline]
    fn as_ref(&self) -> &[Slot] {
        &self.0
    }
}

impl AsMut<[Slot]> for SendSlots {
    #[inline]
    fn as_mut(&mut self) -> &mut [Slot] {
        &mut self.0
    }
}

/// The body of a send request.
#[derive(Clone, Copy)]
pub(crate) enum SendBody<'a> {
    /// Inline data, in the private copy.
    Inline(&'a [u8]),
    /// A scatter/gather list.
    Scatter(&'a [Sge]),
    /// No payload: an operation on memory keys, as stored.
    LocalRequest(&'a [Sge]),
}

impl<'a> SendBody<'a> {
    /// Returns the body with this layout at the start of `storage`.
    #[inline]
    fn new(layout: BodyLayout, storage: &'a [Sge]) -> Self {
        match layout {
            BodyLayout::Inline(bytes) => {
                Self::Inline(storage.as_bytes().get(..bytes as usize).unwrap_or_default())
            }
            BodyLayout::Scatter(entries) => {
                Self::Scatter(storage.get(..entries as usize).unwrap_or_default())
            }
            BodyLayout::LocalRequest => Self::LocalRequest(storage),
        }
    }

    /// Returns the operation on memory keys, if it is one.
    pub(crate) fn local_request(&self) -> Option<LocalRequest> {
        match self {
            Self::LocalRequest(stored) => load_local(stored),
            _ => None,
        }
    }
}

/// A request that was taken from the queue, with its slot.
type TakenSend<T> = Option<(SlotIndex, Result<T, RejectedWqe>)>;

/// The consuming end of a send queue.
pub(crate) struct SendQueue {
    ring: Arc<Ring>,
    /// The producing end, for a kernel consumer.
    posts: Option<Arc<Posts>>,
    /// Index of the oldest element in progress, masked. The ring holds the published copy.
    oldest: u32,
    entries: SqEntries,
    /// For a process that can be told not to ring the doorbell.
    doorbell: Option<DoorbellSuppressor>,
    /// The next entry at the end of the last run.
    seen: u32,
}

/// The next entry, and the bodies of those in progress.
struct SqEntries {
    abi: Abi,
    rules: SendRules,
    /// Index of the next entry in the ring, masked.
    next: u32,
    /// Number of slots, a power of two, minus one.
    mask: u32,
    bodies: SendBodies,
}

/// How much of a send queue may be in progress.
#[derive(Clone, Copy)]
pub(crate) struct SendSize {
    /// Requests, a power of two, no more than the ring holds.
    pub(crate) slots: u32,
    /// SGEs of each.
    pub(crate) max_sge: u32,
}

/// Storage of the bodies of the requests in progress, by slot.
pub(crate) struct SendBodies {
    layouts: Table<BodyLayout>,
    /// `stride` SGEs for each slot, or the same number of bytes of inline data.
    sges: Table<Sge>,
    stride: usize,
}

impl SendBodies {
    /// Storage for no request.
    const NONE: Self = Self {
        layouts: Table::new(),
        sges: Table::new(),
        stride: 0,
    };

    /// Creates storage for the requests in progress of a queue of this size.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOVERFLOW` if the number of SGEs overflows.
    pub(crate) fn new(size: SendSize) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let count = size.slots as usize;
        let stride = size.max_sge.max(LOCAL_REQUEST_SGES) as usize;
        let sges = count.checked_mul(stride).ok_or(EOVERFLOW)?;
        Ok(Self {
            layouts: table(BodyLayout::Scatter(0), count)?,
            sges: table(Sge::default(), sges)?,
            stride,
        })
    }

    /// Returns the place of the body of the request in `slot`.
    #[inline]
    fn place(&mut self, slot: u32) -> Option<(&mut BodyLayout, &mut [Sge])> {
        // CAST: `u32` to `usize`, on 64 bits.
        let slot = slot as usize;
        let sges = self.sges.get_mut(slot.checked_mul(self.stride)?..)?;
        Some((self.layouts.get_mut(slot)?, sges.get_mut(..self.stride)?))
    }

    #[inline]
    fn get(&self, SlotIndex(slot): SlotIndex) -> SendBody<'_> {
        // CAST: `u32` to `usize`, on 64 bits.
        let slot = slot as usize;
        let sges = self.sges.get(slot.saturating_mul(self.stride)..);
        match self.layouts.get(slot) {
            Some(layout) => SendBody::new(*layout, sges.unwrap_or_default()),
            None => SendBody::Inline(&[]),
        }
    }
}

impl SendQueue {
    /// Creates the consuming end of `ring`, whose entries follow `rules`. `slots` requests are in progress at a time,
    /// see [`SendSize`], and none before [`set_bodies`](Self::set_bodies).
    pub(crate) fn new(
        (abi, ring, posts): (Abi, Arc<Ring>, Option<Arc<Posts>>),
        rules: SendRules,
        slots: u32,
    ) -> Self {
        let entries = SqEntries {
            abi,
            rules,
            next: 0,
            mask: slots.saturating_sub(1),
            bodies: SendBodies::NONE,
        };
        Self {
            doorbell: abi.has_no_doorbell().then(DoorbellSuppressor::new),
            ring,
            posts,
            oldest: 0,
            entries,
            seen: 0,
        }
    }

    /// Returns how much may be in progress.
    pub(crate) fn size(&self) -> SendSize {
        SendSize {
            slots: self.entries.mask.saturating_add(1),
            max_sge: self.entries.rules.max_sge,
        }
    }

    /// Sets the storage of the requests in progress, and returns the old one. Requests that have been read are read
    /// again.
    pub(crate) fn set_bodies(&mut self, bodies: SendBodies) -> SendBodies {
        self.entries.next = self.oldest;
        core::mem::replace(&mut self.entries.bodies, bodies)
    }

    /// Passes up to `budget` published entries to `requester`, as long as there are free slots. Returns
    /// whether there may be more.
    pub(crate) fn fetch(&mut self, requester: &mut Requester<SendSlots>, budget: u16) -> More {
        let end = self.end();
        let (ring, entries) = (&*self.ring, &mut self.entries);
        let mut fetched = 0u16;
        while fetched < budget && entries.next != end && requester.free_slots() != 0 {
            let taken = match entries.read(ring) {
                Ok(wr) => requester.post(wr),
                Err(rejected) => {
                    requester.reject(rejected.wr_id, rejected.opcode(), rejected.status)
                }
            };
            if taken.is_none() {
                break;
            }
            entries.next = ring.after(entries.next);
            fetched = fetched.wrapping_add(1);
        }
        if fetched == budget {
            More::Yes
        } else {
            More::No
        }
    }

    /// Returns whether there is a next entry to take.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.entries.next != self.end()
    }

    /// Returns the index behind the last published entry. If user space has published an impossible one, nothing is
    /// waiting.
    #[inline]
    fn end(&self) -> u32 {
        let (next, end) = (self.entries.next, self.ring.producer());
        let behind_oldest = |index| self.ring.distance(self.oldest, index);
        match behind_oldest(end) > behind_oldest(next) {
            true => end,
            false => next,
        }
    }

    /// Takes the next entry, for a service with one request in progress. Also returns the slot. The caller
    /// [releases](Self::release) the entry on completion.
    pub(crate) fn take_request(&mut self) -> TakenSend<SendWr> {
        self.take_with(SqEntries::read)
    }

    /// As [`take_request`](Self::take_request), for a datagram service: the request, and the number of its AH.
    pub(crate) fn take_datagram(&mut self) -> TakenSend<(DatagramWr, u32)> {
        self.take_with(SqEntries::read_datagram)
    }

    /// Takes the next entry, to flush it: nothing can be in progress.
    pub(crate) fn take_to_flush(&mut self) -> Option<RejectedWqe> {
        let (_, flushed) =
            self.take_with(|entries, ring| entries.abi.read_flushed(ring, entries.next))?;
        Some(flushed)
    }

    fn take_with<T>(
        &mut self,
        read: impl FnOnce(&mut SqEntries, &Ring) -> T,
    ) -> Option<(SlotIndex, T)> {
        if !self.has_next() {
            return None;
        }
        let slot = self.next_slot();
        let taken = read(&mut self.entries, &self.ring);
        self.entries.next = self.ring.after(self.entries.next);
        Some((slot, taken))
    }

    /// Returns whether requests in progress have storage.
    #[inline]
    pub(crate) fn has_bodies(&self) -> bool {
        !self.entries.bodies.layouts.is_empty()
    }

    /// Returns the body of the request in `slot`.
    pub(crate) fn body(&self, slot: SlotIndex) -> SendBody<'_> {
        self.entries.bodies.get(slot)
    }

    /// Returns the oldest `count` elements to the consumer.
    pub(crate) fn release(&mut self, count: u32) {
        if count != 0 {
            self.oldest = self.ring.advanced(self.oldest, count);
            self.ring.publish_consumer(self.oldest);
        }
    }

    /// Discards every entry, read or not: the QP goes to RESET.
    pub(crate) fn clear(&mut self) {
        if let Some(posts) = &self.posts {
            posts.settle();
        }
        self.entries.next = self.ring.producer();
        self.oldest = self.entries.next;
        self.ring.publish_consumer(self.oldest);
        self.seen = self.entries.next;
        if let Some(doorbell) = &mut self.doorbell {
            doorbell.reset();
            self.ring.set_no_doorbell(false);
        }
    }

    /// The process must ring the doorbell for all requests from now on, also after RESET.
    pub(crate) fn require_doorbells(&mut self) {
        self.doorbell = None;
        self.ring.set_no_doorbell(false);
    }

    /// A run of the engine ends. Decides whether the process must ring the doorbell for its next requests. Returns
    /// whether there may be new ones now, and when to look for some. `received`: requests of the peer that the QP has
    /// received.
    #[inline]
    pub(crate) fn end_run(&mut self, received: u32) -> (More, NextWake) {
        match self.doorbell.is_some() {
            true => self.suppress_doorbell(received),
            false => (More::No, NextWake::NEVER),
        }
    }

    fn suppress_doorbell(&mut self, received: u32) -> (More, NextWake) {
        let Some(doorbell) = &mut self.doorbell else {
            return (More::No, NextWake::NEVER);
        };
        let next = self.entries.next;
        let has_new = core::mem::replace(&mut self.seen, next) != next;
        match doorbell.end_run(Instant::from_nanos(now()), has_new, received) {
            Suppression::Off => (More::No, NextWake::NEVER),
            Suppression::Begin(at) => {
                self.ring.set_no_doorbell(true);
                (More::No, NextWake::new(Wake::RingPoll, at))
            }
            Suppression::Until(at) => (More::No, NextWake::new(Wake::RingPoll, at)),
            Suppression::End => {
                self.ring.set_no_doorbell(false);
                let more = if self.has_next() { More::Yes } else { More::No };
                (more, NextWake::NEVER)
            }
        }
    }

    /// Returns the slot of the next entry.
    pub(crate) fn next_slot(&self) -> SlotIndex {
        SlotIndex(self.entries.next & self.entries.mask)
    }
}

impl SqEntries {
    /// Copies the next entry to its slot, and checks it.
    #[inline]
    fn read(&mut self, ring: &Ring) -> Result<SendWr, RejectedWqe> {
        let place = self.bodies.place(self.next & self.mask);
        self.abi.read_send(ring, self.next, self.rules, place)
    }

    /// As [`read`](Self::read), for a datagram service.
    fn read_datagram(&mut self, ring: &Ring) -> Result<(DatagramWr, u32), RejectedWqe> {
        let place = self.bodies.place(self.next & self.mask);
        self.abi.read_datagram(ring, self.next, self.rules, place)
    }
}
