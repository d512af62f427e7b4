// SPDX-License-Identifier: GPL-2.0

//! The send queue of a QP: its consuming end.
//!
//! The send engine owns it, in process context or softirq. It reads each entry once, from the ring of a
//! process or the posted requests of a ULP, and keeps a private copy, which user space cannot change, while
//! the request is in progress. Slot `i` of the window of [`Requester`] belongs to body `i` here.

use crate::{
    abi::{
        self,
        send_op::LocalRequest,
        wqe::{
            BodyLayout,
            RejectedWqe,
            SendWqe,
            WqeBounds,
            WqeSge, //
        }, //
    },
    queue::posted_sends::PostedSends, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::ring::Ring,
    sync::exclusive::More,
    util::alloc::{
        table,
        Table, //
    }, //
};
use roce::{
    rc::{
        requester::Requester,
        send_window::Slot, //
    },
    segmentation::tx_desc::SlotIndex,
    status::WcStatus,
    ud::DatagramWr,
    wr::{
        SendWr,
        WcOpcode, //
    }, //
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
    Scatter(&'a [WqeSge]),
    /// No payload: an operation on memory keys.
    LocalRequest(&'a LocalRequest),
}

impl<'a> SendBody<'a> {
    /// Returns the body with this layout at the start of `storage`.
    pub(crate) fn new(layout: &'a BodyLayout, storage: &'a [WqeSge]) -> Self {
        match layout {
            BodyLayout::Inline(bytes) => Self::Inline(
                storage
                    .as_bytes()
                    .get(..*bytes as usize)
                    .unwrap_or_default(),
            ),
            BodyLayout::Scatter(entries) => {
                Self::Scatter(storage.get(..*entries as usize).unwrap_or_default())
            }
            BodyLayout::LocalRequest(local) => Self::LocalRequest(local),
        }
    }
}

/// Where send requests come from.
pub(crate) enum SqSource {
    /// A ring of a process.
    Ring(Arc<Ring>),
    /// Requests posted by a ULP.
    Posted(Arc<PostedSends>),
}

/// The consuming end of a send queue.
pub(crate) struct SendQueue {
    source: SqSource,
    /// Oldest element in progress, masked. A ring holds the published copy.
    oldest: u32,
    entries: SqEntries,
}

/// Private copies of the entries in progress.
struct SqEntries {
    /// Number of slots, a power of two, minus one.
    mask: u32,
    /// Slot of the next entry, masked. It is also the index in the ring.
    next: u32,
    bounds: WqeBounds,
    signal_all: bool,
    layouts: Table<BodyLayout>,
    /// `bounds.max_sge` SGEs for each slot, or the same number of bytes of inline data.
    bodies: Table<WqeSge>,
}

impl SendQueue {
    /// Creates the consuming end of `source`, whose entries respect `bounds`. Up to `max_wr` posted requests
    /// are in progress at a time, rounded up to a power of two; of a ring, as many as it holds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` or `EOVERFLOW` if the number of slots overflows.
    pub(crate) fn new(
        source: SqSource,
        bounds: WqeBounds,
        max_wr: u32,
        signal_all: bool,
    ) -> Result<Self> {
        let mask = match &source {
            SqSource::Ring(ring) => ring.mask(),
            SqSource::Posted(_) => {
                let slots = max_wr.checked_next_power_of_two().ok_or(EINVAL)?;
                slots.saturating_sub(1)
            }
        };
        // CAST: `u32` to `usize`, on 64 bits.
        let slots = mask.saturating_add(1) as usize;
        let sges = slots
            .checked_mul(bounds.max_sge as usize)
            .ok_or(EOVERFLOW)?;
        let entries = SqEntries {
            mask,
            next: 0,
            bounds,
            signal_all,
            layouts: table(BodyLayout::Scatter(0), slots)?,
            bodies: table(WqeSge::default(), sges)?,
        };
        Ok(Self {
            source,
            oldest: 0,
            entries,
        })
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> u32 {
        self.entries.mask.saturating_add(1)
    }

    /// Passes up to `budget` published entries to `requester`, as long as there are free slots. Returns
    /// whether there may be more.
    pub(crate) fn fetch(&mut self, requester: &mut Requester<SendSlots>, budget: u16) -> More {
        let fetched = match &self.source {
            SqSource::Ring(ring) => self.entries.fetch_ring(ring, requester, budget),
            SqSource::Posted(posted) => self.entries.fetch_posted(posted, requester, budget),
        };
        if fetched == budget {
            More::Yes
        } else {
            More::No
        }
    }

    /// Takes the next entry, for a service with one request in progress. Also returns the slot, which the
    /// caller [releases](Self::release) on completion.
    pub(crate) fn take_request(&mut self) -> Option<(SlotIndex, Result<SendWr, RejectedWqe>)> {
        let slot = self.next_slot();
        let taken = match &self.source {
            SqSource::Ring(ring) if self.entries.next == ring.producer() => return None,
            SqSource::Ring(ring) => self.entries.read(ring, SendWqe::work_request),
            SqSource::Posted(posted) => Ok(self.entries.read_posted(posted)?),
        };
        self.entries.advance();
        Some((slot, taken))
    }

    /// Takes the next entry, for a datagram service: the request, the number of its address handle, and the
    /// slot, which the caller [releases](Self::release) on completion.
    pub(crate) fn take_datagram(
        &mut self,
    ) -> Option<Result<(DatagramWr, u32, SlotIndex), RejectedWqe>> {
        let SqSource::Ring(ring) = &self.source else {
            return None;
        };
        if self.entries.next == ring.producer() {
            return None;
        }
        let slot = SlotIndex(self.entries.next);
        let taken = self.entries.read(ring, SendWqe::datagram);
        self.entries.advance();
        Some(taken.map(|(wr, ah)| (wr, ah, slot)))
    }

    /// Returns the body of the request in `slot`.
    pub(crate) fn body(&self, slot: SlotIndex) -> SendBody<'_> {
        self.entries.body(slot)
    }

    /// Returns the oldest `count` elements to the consumer.
    pub(crate) fn release(&mut self, count: u32) {
        if count != 0 {
            self.oldest = self.oldest.wrapping_add(count) & self.entries.mask;
            self.publish();
        }
    }

    /// Discards every entry, read or not: the QP goes to RESET.
    pub(crate) fn clear(&mut self) {
        match &self.source {
            SqSource::Ring(ring) => self.entries.next = ring.producer(),
            SqSource::Posted(posted) => posted.clear(),
        }
        self.oldest = self.entries.next;
        self.publish();
    }

    fn publish(&self) {
        if let SqSource::Ring(ring) = &self.source {
            ring.publish_consumer(self.oldest);
        }
    }

    /// Returns the slot of the next entry.
    pub(crate) fn next_slot(&self) -> SlotIndex {
        SlotIndex(self.entries.next)
    }
}

impl SqEntries {
    /// Fetches entries from the ring. Returns their number.
    fn fetch_ring(
        &mut self,
        ring: &Ring,
        requester: &mut Requester<SendSlots>,
        budget: u16,
    ) -> u16 {
        let end = ring.producer();
        let mut fetched = 0u16;
        while fetched < budget && self.next != end && requester.free_slots() != 0 {
            let taken = match self.read(ring, SendWqe::work_request) {
                Ok(wr) => requester.post(wr),
                Err(RejectedWqe { wr_id, status }) => {
                    requester.reject(wr_id, WcOpcode::Send, status)
                }
            };
            if taken.is_none() {
                break;
            }
            self.advance();
            fetched = fetched.wrapping_add(1);
        }
        fetched
    }

    /// Fetches posted requests. Returns their number.
    fn fetch_posted(
        &mut self,
        posted: &PostedSends,
        requester: &mut Requester<SendSlots>,
        budget: u16,
    ) -> u16 {
        let mut fetched = 0u16;
        while fetched < budget && requester.free_slots() != 0 {
            let Some(wr) = self.read_posted(posted) else {
                break;
            };
            if requester.post(wr).is_none() {
                break;
            }
            self.advance();
            fetched = fetched.wrapping_add(1);
        }
        fetched
    }

    /// Copies the oldest posted request to the next slot.
    fn read_posted(&mut self, posted: &PostedSends) -> Option<SendWr> {
        // CAST: Below the number of slots; `u32` to `usize`, on 64 bits.
        let (index, stride) = (self.next as usize, self.bounds.max_sge as usize);
        let start = index.saturating_mul(stride);
        let body = self.bodies.get_mut(start..start.saturating_add(stride));
        let (wr, layout) = posted.take(body.unwrap_or_default())?;
        if let Some(slot) = self.layouts.get_mut(index) {
            *slot = layout;
        }
        Some(wr)
    }

    fn advance(&mut self) {
        self.next = self.next.wrapping_add(1) & self.mask;
    }

    /// Copies the next entry to its slot, checks it, and converts it with `decode`, which receives its length
    /// and whether all requests are signaled.
    fn read<T>(
        &mut self,
        ring: &Ring,
        decode: impl FnOnce(&SendWqe, u32, bool) -> Result<T, RejectedWqe>,
    ) -> Result<T, RejectedWqe> {
        let wqe = SendWqe::new(
            ring.read_words(self.next, 0),
            ring.read_words(self.next, SendWqe::TAIL_OFFSET),
        );
        let layout = wqe.layout(self.bounds)?;
        // CAST: Below the number of slots.
        let index = self.next as usize;
        let stride = self.bounds.max_sge as usize;
        let invalid = wqe.rejected(WcStatus::LocQpOpErr);

        let start = index.checked_mul(stride).ok_or(invalid)?;
        let body = self
            .bodies
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..stride))
            .ok_or(invalid)?;
        let length = match layout {
            BodyLayout::Inline(bytes) => {
                // CAST: At most `MAX_INLINE_BYTES`.
                let used = body.as_mut_bytes().get_mut(..bytes as usize);
                ring.read(self.next, SendWqe::FIXED_LEN, used.ok_or(invalid)?);
                bytes
            }
            BodyLayout::Scatter(entries) => {
                // CAST: At most `MAX_SGE`.
                let sges = body.get_mut(..entries as usize).ok_or(invalid)?;
                let mut offset = SendWqe::FIXED_LEN;
                for sge in sges.iter_mut() {
                    *sge = WqeSge::new(ring.read_words(self.next, offset));
                    offset = offset.wrapping_add(size_of::<WqeSge>());
                }
                abi::wqe::total_length(sges).ok_or(wqe.rejected(WcStatus::LocLenErr))?
            }
            BodyLayout::LocalRequest(_) => 0,
        };
        *self.layouts.get_mut(index).ok_or(invalid)? = layout;
        decode(&wqe, length, self.signal_all)
    }

    fn body(&self, slot: SlotIndex) -> SendBody<'_> {
        // CAST: Below the number of slots.
        let index = slot.0 as usize;
        let start = index.saturating_mul(self.bounds.max_sge as usize);
        let storage = self.bodies.get(start..).unwrap_or_default();
        match self.layouts.get(index) {
            Some(layout) => SendBody::new(layout, storage),
            None => SendBody::Inline(&[]),
        }
    }
}
