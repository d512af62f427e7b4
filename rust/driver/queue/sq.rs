// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair, seen from the consuming end.
//!
//! Owns the read position in the ring of a process, or what a consumer in the kernel has posted, and
//! a private copy of every entry that is in progress: what the kernel acts on was read once and
//! cannot change under it. Does not know what
//! a work request does; [`Requester`] takes it from here. Slot `i` of the requester's window
//! belongs to body `i` here.

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
    util::alloc::gfp_user, //
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

/// Storage of the requester's window.
pub(crate) struct SendSlots(KVVec<Slot>);

impl SendSlots {
    /// Room for `count` requests, a power of two.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u32) -> Result<Self> {
        // CAST: A ring's size.
        let slots = KVVec::from_elem(Slot::EMPTY, count as usize, gfp_user())?;
        Ok(Self(slots))
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

/// Where the bytes of a request stand.
#[derive(Clone, Copy)]
pub(crate) enum SendBody<'a> {
    /// Here: they were copied with the entry.
    Inline(&'a [u8]),
    /// In memory regions.
    Scatter(&'a [WqeSge]),
    /// There are none: it is about keys.
    LocalRequest(&'a LocalRequest),
}

impl<'a> SendBody<'a> {
    /// The body of that layout that starts at the start of `room`.
    pub(crate) fn new(layout: &'a BodyLayout, room: &'a [WqeSge]) -> Self {
        match layout {
            BodyLayout::Inline(bytes) => {
                Self::Inline(room.as_bytes().get(..*bytes as usize).unwrap_or_default())
            }
            BodyLayout::Scatter(entries) => {
                Self::Scatter(room.get(..*entries as usize).unwrap_or_default())
            }
            BodyLayout::LocalRequest(local) => Self::LocalRequest(local),
        }
    }
}

/// Where requests come from.
pub(crate) enum SqSource {
    /// A ring of a process.
    Ring(Arc<Ring>),
    /// Posts of a consumer in the kernel.
    Posted(Arc<PostedSends>),
}

/// The consuming end of a send queue.
pub(crate) struct SendQueue {
    source: SqSource,
    /// Oldest element still in progress, masked; a ring holds the published copy.
    oldest: u32,
    entries: SqEntries,
}

/// Private copies of the entries that are in progress.
struct SqEntries {
    /// Number of slots, a power of two, less one.
    mask: u32,
    /// Slot of the next entry, masked; that of a ring has the same number.
    next: u32,
    bounds: WqeBounds,
    signal_all: bool,
    layouts: KVVec<BodyLayout>,
    /// `bounds.max_sge` entries for each slot, or as many bytes of inline data.
    bodies: KVVec<WqeSge>,
}

impl SendQueue {
    /// The consuming end of `source`, whose elements are within `bounds`. Up to `max_wr` of posted ones
    /// are in progress at a time; of a ring, as many as it holds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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
        let room = slots
            .checked_mul(bounds.max_sge as usize)
            .ok_or(EOVERFLOW)?;
        let entries = SqEntries {
            mask,
            next: 0,
            bounds,
            signal_all,
            layouts: KVVec::from_elem(BodyLayout::Scatter(0), slots, gfp_user())?,
            bodies: KVVec::from_elem(WqeSge::default(), room, gfp_user())?,
        };
        Ok(Self {
            source,
            oldest: 0,
            entries,
        })
    }

    /// Elements that can be in progress.
    pub(crate) fn slots(&self) -> u32 {
        self.entries.mask.saturating_add(1)
    }

    /// Hands entries that the consumer has published to `requester`, up to `most`, as long as there are free
    /// slots. Says whether there may be more.
    pub(crate) fn fetch(&mut self, requester: &mut Requester<SendSlots>, most: u16) -> More {
        let fetched = match &self.source {
            SqSource::Ring(ring) => self.entries.fetch_ring(ring, requester, most),
            SqSource::Posted(posts) => self.entries.fetch_posted(posts, requester, most),
        };
        if fetched == most {
            More::Yes
        } else {
            More::No
        }
    }

    /// Takes the next entry of a queue pair that sends one request after the other, and the slot, which
    /// is to be [released](Self::release) when it is done.
    pub(crate) fn take_request(&mut self) -> Option<(SlotIndex, Result<SendWr, RejectedWqe>)> {
        let slot = self.next_slot();
        let taken = match &self.source {
            SqSource::Ring(ring) if self.entries.next == ring.producer() => return None,
            SqSource::Ring(ring) => self.entries.read(ring, SendWqe::work_request),
            SqSource::Posted(posts) => Ok(self.entries.read_posted(posts)?),
        };
        self.entries.advance();
        Some((slot, taken))
    }

    /// Takes the next entry of a queue pair that sends datagrams: the request, the number of its
    /// address handle, and the slot, which is to be [released](Self::release) when it is done.
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

    /// Where the bytes of the request in `slot` stand.
    pub(crate) fn body(&self, slot: SlotIndex) -> SendBody<'_> {
        self.entries.body(slot)
    }

    /// Gives the oldest `count` elements back to the consumer.
    pub(crate) fn release(&mut self, count: u32) {
        if count != 0 {
            self.oldest = self.oldest.wrapping_add(count) & self.entries.mask;
            self.publish();
        }
    }

    /// Forgets every entry, read or not (the queue pair goes to RESET).
    pub(crate) fn clear(&mut self) {
        match &self.source {
            SqSource::Ring(ring) => self.entries.next = ring.producer(),
            SqSource::Posted(posts) => posts.clear(),
        }
        self.oldest = self.entries.next;
        self.publish();
    }

    fn publish(&self) {
        if let SqSource::Ring(ring) = &self.source {
            ring.publish_consumer(self.oldest);
        }
    }

    /// Slot of the next entry.
    pub(crate) fn next_slot(&self) -> SlotIndex {
        SlotIndex(self.entries.next)
    }
}

impl SqEntries {
    /// Returns how many.
    fn fetch_ring(&mut self, ring: &Ring, requester: &mut Requester<SendSlots>, most: u16) -> u16 {
        let end = ring.producer();
        let mut fetched = 0u16;
        while fetched < most && self.next != end && requester.free_slots() != 0 {
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

    /// Returns how many.
    fn fetch_posted(
        &mut self,
        posts: &PostedSends,
        requester: &mut Requester<SendSlots>,
        most: u16,
    ) -> u16 {
        let mut fetched = 0u16;
        while fetched < most && requester.free_slots() != 0 {
            let Some(wr) = self.read_posted(posts) else {
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

    /// Copies the oldest of `posts` to the next slot.
    fn read_posted(&mut self, posts: &PostedSends) -> Option<SendWr> {
        // CAST: Below the number of slots; `u32` to `usize`, on 64 bits.
        let (index, stride) = (self.next as usize, self.bounds.max_sge as usize);
        let start = index.saturating_mul(stride);
        let body = self.bodies.get_mut(start..start.saturating_add(stride));
        let (wr, layout) = posts.take(body.unwrap_or_default())?;
        if let Some(place) = self.layouts.get_mut(index) {
            *place = layout;
        }
        Some(wr)
    }

    fn advance(&mut self) {
        self.next = self.next.wrapping_add(1) & self.mask;
    }

    /// Copies the entry at the read position, checks it, and has `decode` make a request of it, given
    /// its length and whether all are signaled. Its slot has the same number.
    fn read<T>(
        &mut self,
        ring: &Ring,
        decode: impl FnOnce(&SendWqe, u32, bool) -> Result<T, RejectedWqe>,
    ) -> Result<T, RejectedWqe> {
        let mut bytes = [0; SendWqe::HEAD_LEN];
        ring.read(self.next, 0, &mut bytes);
        let wqe: SendWqe = zerocopy::transmute!(bytes);
        let layout = wqe.layout(self.bounds)?;
        // CAST: Below the number of slots.
        let index = self.next as usize;
        let stride = self.bounds.max_sge as usize;
        let full = wqe.rejected(WcStatus::LocQpOpErr);

        let start = index.checked_mul(stride).ok_or(full)?;
        let body = self
            .bodies
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..stride))
            .ok_or(full)?;
        let used = body
            .as_mut_bytes()
            .get_mut(..layout.body_len())
            .ok_or(full)?;
        ring.read(self.next, SendWqe::LEN, used);

        let length = match layout {
            BodyLayout::Inline(bytes) => bytes,
            BodyLayout::Scatter(entries) => body
                .get(..entries as usize)
                .and_then(abi::wqe::total_length)
                .ok_or(wqe.rejected(WcStatus::LocLenErr))?,
            BodyLayout::LocalRequest(_) => 0,
        };
        *self.layouts.get_mut(index).ok_or(full)? = layout;
        decode(&wqe, length, self.signal_all)
    }

    fn body(&self, slot: SlotIndex) -> SendBody<'_> {
        // CAST: Below the number of slots.
        let index = slot.0 as usize;
        let start = index.saturating_mul(self.bounds.max_sge as usize);
        let room = self.bodies.get(start..).unwrap_or_default();
        match self.layouts.get(index) {
            Some(layout) => SendBody::new(layout, room),
            None => SendBody::Inline(&[]),
        }
    }
}
