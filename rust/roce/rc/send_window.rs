// SPDX-License-Identifier: GPL-2.0

//! The requests in flight, in storage that the caller owns.
//!
//! Owns the order of the requests, the packet sequence numbers they were given, and how much of
//! them is sent and acknowledged. Does not know packets, time or retries, nor why a request
//! failed.
//!
//! Five free-running indices divide the ring, each never ahead of the next:
//! `tail` (oldest not reported), `acked` (oldest not complete), `cursor` (to which the next
//! packet belongs), `begun` (first without PSNs), `head` (next to be posted). Beside them run
//! three PSNs: `una` (oldest not acknowledged), `psn` (next to be sent), `high` (first never
//! sent). After a loss `psn` goes back to `una`, and everything is sent again from there.

mod aborted;
mod local_ops;

pub use super::slot::Slot;

use super::read_split::ReadSplit;
use crate::{
    num::u32_as_usize,
    psn::Psn,
    segmentation::tx_desc::{
        Mtu,
        SlotIndex,
        MAX_PSNS, //
    },
    status::WcStatus, //
};

/// What is sent and not acknowledged. A READ counts as what it asks for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InFlight {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
    /// Requests among them that await a response: READs and parts of them, atomic operations and writes, flushes.
    pub reads: u32,
}

/// How far an acknowledgement went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    /// To where it was meant to go.
    Whole,
    /// Not past a request that it cannot complete: data is missing.
    Gap,
}

/// The requests of a send queue that are not reported as complete.
#[derive(Debug)]
pub(super) struct SendWindow<S> {
    slots: S,
    capacity: u32,
    tail: u32,
    acked: u32,
    cursor: u32,
    begun: u32,
    head: u32,
    una: Psn,
    psn: Psn,
    high: Psn,
    /// First PSN that no request has.
    free: Psn,
    /// The first condemned request, at which sending stops.
    stop_at: Option<u32>,
    flight: InFlight,
    mtu: Mtu,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> SendWindow<S> {
    /// Makes an empty window. Of a storage whose length is no power of two, the largest power of
    /// two that fits is used.
    pub(super) fn new(slots: S) -> Self {
        let capacity = match u32::try_from(slots.as_ref().len()).unwrap_or(u32::MAX) {
            0 => 0,
            len => 1_u32.wrapping_shl(len.ilog2()),
        };
        Self {
            slots,
            capacity,
            tail: 0,
            acked: 0,
            cursor: 0,
            begun: 0,
            head: 0,
            una: Psn::new(0),
            psn: Psn::new(0),
            high: Psn::new(0),
            free: Psn::new(0),
            stop_at: None,
            flight: InFlight::default(),
            mtu: Mtu::default(),
        }
    }

    /// Sets the PSN of the first packet and the length of all.
    pub(super) fn configure(&mut self, first: Psn, mtu: Mtu) {
        (self.una, self.psn, self.high, self.free) = (first, first, first, first);
        self.mtu = mtu;
    }

    /// Forgets every request. The next one goes to the slot after the last.
    pub(super) fn clear(&mut self) {
        self.seek(self.head);
    }

    /// Forgets every request and continues at slot `next`.
    pub(super) fn seek(&mut self, next: u32) {
        (self.tail, self.acked, self.cursor) = (next, next, next);
        (self.begun, self.head) = (next, next);
        self.stop_at = None;
        self.flight = InFlight::default();
    }

    // Posting and reporting.

    /// Appends a request. Returns its slot, or `None` if there is no free one.
    pub(super) fn push(&mut self, slot: Slot) -> Option<SlotIndex> {
        if self.free_slots() == 0 {
            return None;
        }
        let index = self.head;
        *self.slot_mut(index)? = slot;
        if slot.status.is_some() {
            self.raise_stop(index);
        }
        self.head = self.head.wrapping_add(1);
        Some(self.place(index))
    }

    /// Returns how many requests can still be appended.
    #[inline]
    pub(super) fn free_slots(&self) -> u32 {
        let used = self.head.wrapping_sub(self.tail);
        self.capacity.saturating_sub(used)
    }

    /// Returns how many requests there is room for.
    #[inline]
    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Takes the oldest request out if it is complete.
    pub(super) fn retire(&mut self) -> Option<(SlotIndex, Slot)> {
        if !self.has_complete() {
            return None;
        }
        let index = self.tail;
        let slot = *self.slot(index)?;
        self.tail = self.tail.wrapping_add(1);
        Some((self.place(index), slot))
    }

    /// Returns whether a request is complete and not reported.
    #[inline]
    pub(super) const fn has_complete(&self) -> bool {
        self.tail != self.acked
    }

    /// Returns whether a request is not complete.
    #[inline]
    pub(super) const fn has_pending(&self) -> bool {
        self.acked != self.head
    }

    /// Returns the oldest request that is not complete, and whether it was begun.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(&Slot, bool)> {
        if !self.has_pending() {
            return None;
        }
        Some((self.slot(self.acked)?, self.acked != self.begun))
    }

    /// Returns the place of the oldest request that is not complete.
    #[inline]
    pub(super) fn oldest_place(&self) -> SlotIndex {
        self.place(self.acked)
    }

    /// Completes the oldest request.
    pub(super) fn complete_oldest(&mut self, status: WcStatus) {
        let index = self.acked;
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        slot.status = Some(status);
        if self.begun == index {
            self.begun = index.wrapping_add(1);
        }
        if self.cursor == index {
            self.cursor = index.wrapping_add(1);
        }
        self.acked = index.wrapping_add(1);
        self.skip_local();
    }

    // Sending.

    /// Returns the request to which the next packet belongs, its place, and how many of its packets
    /// come before; `None` if it has no PSNs yet. There is none at and after a condemned request.
    #[inline]
    pub(super) fn current(&self) -> Option<(&Slot, SlotIndex, Option<u32>)> {
        let rtt = |index: u32| index.wrapping_sub(self.acked);
        let end = self.stop_at.unwrap_or(self.head);
        if rtt(self.cursor) >= rtt(end) {
            return None;
        }
        let slot = self.slot(self.cursor)?;
        let done = (self.cursor != self.begun).then(|| self.psn.since(slot.first));
        Some((slot, self.place(self.cursor), done))
    }

    /// Returns whether a message of `packets` packets can have its PSNs now.
    #[inline]
    pub(super) fn has_psns(&self, packets: u32) -> bool {
        self.free.since(self.una).saturating_add(packets) <= MAX_PSNS
    }

    /// Gives the current request its PSNs, if it has none. If it is a READ, it is asked for in such `parts`.
    pub(super) fn begin(&mut self, parts: ReadSplit) {
        if self.cursor != self.begun || self.cursor == self.head {
            return;
        }
        let (first, mtu) = (self.free, self.mtu);
        let Some(slot) = self.slot_mut(self.begun) else {
            return;
        };
        slot.first = first;
        slot.packets = mtu.packets(slot.wr.length);
        slot.parts = parts;
        self.free = slot.end();
        self.begun = self.begun.wrapping_add(1);
    }

    /// Notes that the next `count` packets were sent: for a READ, all the PSNs that are left of its part.
    pub(super) fn sent(&mut self, count: u32) {
        let Some(slot) = self.slot(self.cursor).copied() else {
            return;
        };
        let reads = slot.awaits_response();
        let from = self.psn.since(slot.first);
        let to = if reads {
            slot.parts.end(from, slot.packets)
        } else {
            from.saturating_add(count)
        };
        self.psn = slot.first.add(to);
        self.flight = InFlight {
            bytes: self
                .flight
                .bytes
                .saturating_add(self.payload(&slot, from, to)),
            packets: self.flight.packets.saturating_add(to.saturating_sub(from)),
            reads: self.flight.reads.saturating_add(u32::from(reads)),
        };
        if self.psn == slot.end() {
            self.cursor = self.cursor.wrapping_add(1);
            self.skip_local();
        }
        if self.psn.since(self.una) > self.high.since(self.una) {
            self.high = self.psn;
        }
    }

    /// Takes back that the last packet was sent, not a READ; but its PSN may be acknowledged.
    pub(super) fn unsend(&mut self) {
        let psn = self.psn.sub(1);
        let index = match self.slot(self.cursor) {
            Some(slot) if self.cursor != self.begun && self.psn != slot.first => self.cursor,
            _ => self.last_with_packets(),
        };
        let Some(slot) = self.slot(index).copied() else {
            return;
        };
        if slot.awaits_response() || self.flight.packets == 0 {
            return;
        }
        let from = psn.since(slot.first);
        let bytes = self.payload(&slot, from, from.saturating_add(1));
        self.flight.bytes = self.flight.bytes.saturating_sub(bytes);
        self.flight.packets = self.flight.packets.saturating_sub(1);
        (self.psn, self.cursor) = (psn, index);
    }

    /// Goes back to the oldest packet that is not acknowledged.
    pub(super) fn rewind(&mut self) {
        self.psn = self.una;
        self.cursor = self.acked;
        self.flight = InFlight::default();
        self.skip_local();
    }

    // Acknowledging.

    /// Acknowledges every packet before `upto`, which must not be after [`SendWindow::high`]; stops
    /// at a request that wants data, and at one that is condemned.
    pub(super) fn acknowledge(&mut self, upto: Psn) -> Reach {
        // Each round completes a request, of which there are at most `capacity`.
        while self.una != upto {
            let Some((slot, true)) = self.oldest() else {
                return Reach::Gap;
            };
            if slot.status.is_some() {
                return Reach::Whole;
            }
            if slot.awaits_response() {
                return Reach::Gap;
            }
            let left = slot.end().since(self.una);
            self.advance(upto.since(self.una).min(left));
        }
        Reach::Whole
    }

    /// Acknowledges `count` packets of the oldest request, and completes it if these are all.
    pub(super) fn advance(&mut self, count: u32) {
        let Some(slot) = self.slot(self.acked).copied() else {
            return;
        };
        let from = self.una.since(slot.first);
        let to = from.saturating_add(count).min(slot.packets);
        let una = slot.first.add(to);
        let complete = to == slot.packets;

        let overtaken = self.psn.since(self.una) < una.since(self.una);
        self.una = una;
        if !overtaken {
            self.land(&slot, from, to);
        }
        if complete {
            self.complete_oldest(WcStatus::Success);
            self.complete_local();
        }
        if overtaken {
            // What was about to be sent again did arrive: go on after it.
            self.rewind();
        }
    }

    /// Takes packets `from` to `to` of the oldest request out of the flight.
    fn land(&mut self, slot: &Slot, from: u32, to: u32) {
        let bytes = self.payload(slot, from, to);
        let reads = match slot.awaits_response() {
            true => slot.parts.ended(from, to, slot.packets),
            false => 0,
        };
        let flight = &mut self.flight;
        flight.bytes = flight.bytes.saturating_sub(bytes);
        flight.packets = flight.packets.saturating_sub(to.saturating_sub(from));
        flight.reads = flight.reads.saturating_sub(reads);
    }

    /// Returns the payload of packets `from` to `to` of a message, in bytes.
    #[inline]
    fn payload(&self, slot: &Slot, from: u32, to: u32) -> u32 {
        self.mtu.span(from, to, slot.wr.length)
    }

    // Looking.

    /// Returns whether packets with this PSN were sent and not acknowledged, ever.
    #[inline]
    pub(super) const fn contains(&self, psn: Psn) -> bool {
        psn.since(self.una) < self.high.since(self.una)
    }

    /// Returns whether any packet is in flight since the last [`SendWindow::rewind`].
    #[inline]
    pub(super) fn in_flight(&self) -> bool {
        self.psn != self.una
    }

    /// Returns whether every request that was begun is complete.
    #[inline]
    pub(super) const fn is_drained(&self) -> bool {
        self.acked == self.begun
    }

    /// Returns what is in flight since the last [`SendWindow::rewind`].
    #[inline]
    pub(super) const fn flight(&self) -> InFlight {
        self.flight
    }

    /// Returns the PSN of the oldest packet that is not acknowledged.
    #[inline]
    pub(super) const fn una(&self) -> Psn {
        self.una
    }

    /// Returns the PSN of the next packet.
    #[inline]
    pub(super) const fn psn(&self) -> Psn {
        self.psn
    }

    /// Returns the PSN of the first packet that was never sent.
    #[inline]
    pub(super) const fn high(&self) -> Psn {
        self.high
    }

    /// Returns the path MTU.
    #[inline]
    pub(super) const fn mtu(&self) -> Mtu {
        self.mtu
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.as_ref().get(u32_as_usize(self.place(index).0))
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        let place = u32_as_usize(self.place(index).0);
        self.slots.as_mut().get_mut(place)
    }

    #[inline]
    const fn place(&self, index: u32) -> SlotIndex {
        SlotIndex(index & self.capacity.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests;
