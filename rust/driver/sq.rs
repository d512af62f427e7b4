// SPDX-License-Identifier: GPL-2.0

//! The send queue of a user's queue pair, seen from the consuming end.
//!
//! Owns the read position in the shared ring and a private copy of every entry that is in
//! progress: what the kernel acts on was read once and cannot change under it. Does not know what
//! a work request does; [`Requester`] takes it from here. Slot `i` of the requester's window
//! belongs to body `i` here.

use crate::abi::{
    self,
    Bounds,
    Refused,
    SendWqe,
    Sge,
    Shape, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ring::Ring;
use roce::{
    rc::{
        requester::Requester,
        window::Slot, //
    },
    segment::SlotIndex,
    status::WcStatus,
    ud::DatagramWr,
    wr::WcOpcode, //
};

/// Storage of the requester's window.
pub(crate) struct Slots(KVVec<Slot>);

impl Slots {
    /// Room for `count` requests, a power of two.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: u32) -> Result<Self> {
        // CAST: A ring's size.
        let slots = KVVec::from_elem(Slot::EMPTY, count as usize, GFP_KERNEL_ACCOUNT)?;
        Ok(Self(slots))
    }
}

impl AsRef<[Slot]> for Slots {
    #[inline]
    fn as_ref(&self) -> &[Slot] {
        &self.0
    }
}

impl AsMut<[Slot]> for Slots {
    #[inline]
    fn as_mut(&mut self) -> &mut [Slot] {
        &mut self.0
    }
}

/// Where the bytes of a request stand.
pub(crate) enum Body<'a> {
    /// Here: they were copied with the entry.
    Inline(&'a [u8]),
    /// In memory regions.
    Scatter(&'a [Sge]),
}

/// The consuming end of a send ring.
pub(crate) struct SendQueue {
    ring: Arc<Ring>,
    /// Next element to read, masked.
    next: u32,
    /// Oldest element still in progress, masked; the ring holds the published copy.
    oldest: u32,
    bounds: Bounds,
    signal_all: bool,
    shapes: KVVec<Shape>,
    /// `bounds.max_sge` entries for each slot, or as many bytes of inline data.
    bodies: KVVec<Sge>,
}

impl SendQueue {
    /// The consuming end of `ring`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: Arc<Ring>, bounds: Bounds, signal_all: bool) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let slots = ring.mask().saturating_add(1) as usize;
        let entries = slots
            .checked_mul(bounds.max_sge as usize)
            .ok_or(EOVERFLOW)?;
        Ok(Self {
            ring,
            next: 0,
            oldest: 0,
            bounds,
            signal_all,
            shapes: KVVec::from_elem(Shape::Scatter(0), slots, GFP_KERNEL_ACCOUNT)?,
            bodies: KVVec::from_elem(Sge::default(), entries, GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Elements of the ring.
    pub(crate) fn slots(&self) -> u32 {
        self.ring.mask().saturating_add(1)
    }

    /// Hands every entry that user space has published to `requester`. Says how many.
    ///
    /// The producer index is read once; a ring holds at most its size of entries, so this ends.
    pub(crate) fn fetch(&mut self, requester: &mut Requester<Slots>) -> u32 {
        let end = self.ring.producer();
        let mut fetched = 0u32;
        while self.next != end && requester.free_slots() != 0 {
            let taken = match self.read(SendWqe::work_request) {
                Ok(wr) => requester.post(wr),
                Err(Refused { wr_id, status }) => requester.reject(wr_id, WcOpcode::Send, status),
            };
            if taken.is_none() {
                break;
            }
            self.next = self.next.wrapping_add(1) & self.ring.mask();
            fetched = fetched.wrapping_add(1);
        }
        fetched
    }

    /// Takes the next entry of a queue pair that sends datagrams: the request, the number of its
    /// address handle, and the slot, which is to be [released](Self::release) when it is done.
    pub(crate) fn take_datagram(
        &mut self,
    ) -> Option<Result<(DatagramWr, u32, SlotIndex), Refused>> {
        if self.next == self.ring.producer() {
            return None;
        }
        let slot = SlotIndex(self.next);
        let taken = self.read(SendWqe::datagram);
        self.next = self.next.wrapping_add(1) & self.ring.mask();
        Some(taken.map(|(wr, ah)| (wr, ah, slot)))
    }

    /// Copies the entry at the read position, checks it, and has `decode` make a request of it, given
    /// its length and whether all are signaled. Its slot has the same number.
    fn read<T>(
        &mut self,
        decode: impl FnOnce(&SendWqe, u32, bool) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut bytes = [0; SendWqe::LEN];
        self.ring.read(self.next, 0, &mut bytes);
        let wqe: SendWqe = zerocopy::transmute!(bytes);
        let shape = wqe.shape(self.bounds)?;
        // CAST: Below the number of slots.
        let index = self.next as usize;
        let stride = self.bounds.max_sge as usize;
        let full = wqe.refused(WcStatus::LocQpOpErr);

        let start = index.checked_mul(stride).ok_or(full)?;
        let body = self
            .bodies
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..stride))
            .ok_or(full)?;
        let used = body
            .as_mut_bytes()
            .get_mut(..shape.body_len())
            .ok_or(full)?;
        self.ring.read(self.next, SendWqe::LEN, used);

        let length = match shape {
            Shape::Inline(bytes) => bytes,
            Shape::Scatter(entries) => body
                .get(..entries as usize)
                .and_then(abi::total_length)
                .ok_or(wqe.refused(WcStatus::LocLenErr))?,
        };
        *self.shapes.get_mut(index).ok_or(full)? = shape;
        decode(&wqe, length, self.signal_all)
    }

    /// Where the bytes of the request in `slot` stand.
    pub(crate) fn body(&self, slot: SlotIndex) -> Body<'_> {
        // CAST: Below the number of slots.
        let index = slot.0 as usize;
        let start = index.saturating_mul(self.bounds.max_sge as usize);
        let body = self.bodies.get(start..).unwrap_or_default();
        match self.shapes.get(index) {
            Some(Shape::Inline(bytes)) => {
                Body::Inline(body.as_bytes().get(..*bytes as usize).unwrap_or_default())
            }
            Some(Shape::Scatter(entries)) => {
                Body::Scatter(body.get(..*entries as usize).unwrap_or_default())
            }
            None => Body::Inline(&[]),
        }
    }

    /// Gives the oldest `count` elements of the ring back to user space.
    pub(crate) fn release(&mut self, count: u32) {
        if count != 0 {
            self.oldest = self.oldest.wrapping_add(count) & self.ring.mask();
            self.ring.publish_consumer(self.oldest);
        }
    }

    /// Forgets every entry, read or not (the queue pair goes to RESET).
    pub(crate) fn clear(&mut self) {
        self.next = self.ring.producer();
        self.oldest = self.next;
        self.ring.publish_consumer(self.oldest);
    }

    /// Slot of the next entry.
    pub(crate) fn next_slot(&self) -> SlotIndex {
        SlotIndex(self.next)
    }
}
