// SPDX-License-Identifier: GPL-2.0

//! The send window: posted requests, their PSNs, and how much of them is sent and acknowledged.
//!
//! The storage belongs to the caller. Five free-running indices divide the ring, none ahead of the
//! next: `tail` (oldest not reported), `acked` (oldest not complete), `cursor` (request of the next
//! packet), `begun` (first without PSNs), `head` (next to be posted). Three PSNs: `una` (oldest
//! unacknowledged), `psn` (next to be sent), `high` (first never sent). After a loss, `psn` goes
//! back to `una` and all later packets are retransmitted.
//!
//! An aborted request has a final status but is not complete. It and all later requests are not
//! sent. A local operation uses no PSN: once executed it counts as begun, and it completes when all
//! earlier requests are complete.

pub use super::slot::Slot;

use super::{
    credits::Credits,
    read_split::ReadSplit,
    slot::capacity_of, //
};
use crate::{
    num::u32_as_usize,
    psn::Psn,
    segmentation::{
        mtu::{
            Mtu,
            MAX_PSNS, //
        },
        tx_desc::SlotIndex, //
    },
    status::WcStatus, //
};

/// Sent and unacknowledged data. A READ counts with the response it requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InFlight {
    /// Bytes of payload.
    pub bytes: u32,
    /// Packets.
    pub packets: u32,
    /// Requests that await a response: READs or parts of split READs, atomic operations, ATOMIC
    /// WRITEs, FLUSHes.
    pub reads: u32,
    /// Messages that use a receive of the peer, sent to their end.
    pub receives: u32,
}

/// The extent of an acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    /// All packets that it covers are acknowledged.
    Whole,
    /// It stopped at a request that an ACK cannot complete: the response is missing.
    Gap,
}

/// The requests of a send queue whose completions are not reported.
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
    /// First PSN that is not assigned to a request.
    free: Psn,
    /// Index of the first aborted request. Sending stops there.
    stop_at: Option<u32>,
    flight: InFlight,
    pub(super) credits: Credits,
    /// The PSN before `una` belongs to a SEND or WRITE.
    una_follows_payload: bool,
    mtu: Mtu,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> SendWindow<S> {
    /// Returns an empty window. Its capacity is the largest power of two that fits in `slots`.
    pub(super) fn new(slots: S) -> Self {
        Self {
            capacity: capacity_of(slots.as_ref()),
            slots,
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
            credits: Credits::UNLIMITED,
            una_follows_payload: false,
            mtu: Mtu::default(),
        }
    }

    /// Sets the storage of requests, and returns the old one. Drops all requests.
    pub(super) fn set_slots(&mut self, slots: S) -> S {
        self.clear();
        self.capacity = capacity_of(slots.as_ref());
        core::mem::replace(&mut self.slots, slots)
    }

    /// Sets the PSN of the first packet and the path MTU.
    pub(super) fn configure(&mut self, first: Psn, mtu: Mtu) {
        (self.una, self.psn, self.high, self.free) = (first, first, first, first);
        self.credits = Credits::UNLIMITED;
        self.una_follows_payload = false;
        self.mtu = mtu;
    }

    /// Drops all requests. The next request goes to the slot after the last one.
    pub(super) fn clear(&mut self) {
        self.seek(self.head);
    }

    /// Drops all requests and continues at slot `next`.
    pub(super) fn seek(&mut self, next: u32) {
        (self.tail, self.acked, self.cursor) = (next, next, next);
        (self.begun, self.head) = (next, next);
        self.stop_at = None;
        self.flight = InFlight::default();
    }

    // Posting and reporting.

    /// Appends a request. Returns its slot, or `None` if the ring is full.
    pub(super) fn push(&mut self, slot: Slot) -> Option<SlotIndex> {
        if self.free_slots() == 0 {
            return None;
        }
        let index = self.head;
        *self.slot_mut(index)? = slot;
        if slot.status.is_some() {
            self.stop_sending_at(index);
        }
        self.head = self.head.wrapping_add(1);
        Some(self.slot_index(index))
    }

    /// Returns the number of free slots.
    #[inline]
    pub(super) fn free_slots(&self) -> u32 {
        let used = self.head.wrapping_sub(self.tail);
        self.capacity.saturating_sub(used)
    }

    /// Returns the number of slots.
    #[inline]
    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Removes and returns the oldest request if it is complete.
    pub(super) fn retire(&mut self) -> Option<(SlotIndex, &Slot)> {
        if !self.has_complete() {
            return None;
        }
        let index = self.tail;
        self.tail = self.tail.wrapping_add(1);
        Some((self.slot_index(index), self.slot(index)?))
    }

    /// Returns whether a completion is not reported yet.
    #[inline]
    pub(super) const fn has_complete(&self) -> bool {
        self.tail != self.acked
    }

    /// Returns whether a request is incomplete.
    #[inline]
    pub(super) const fn has_pending(&self) -> bool {
        self.acked != self.head
    }

    /// Returns the oldest incomplete request, and whether it was begun.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(&Slot, bool)> {
        if !self.has_pending() {
            return None;
        }
        Some((self.slot(self.acked)?, self.acked != self.begun))
    }

    /// Returns the slot of the oldest incomplete request.
    #[inline]
    pub(super) fn oldest_index(&self) -> SlotIndex {
        self.slot_index(self.acked)
    }

    /// Completes the oldest incomplete request with `status`.
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

    /// Returns the request of the next packet, its slot, and the number of its packets already sent
    /// (`None` if it has no PSNs yet). Returns `None` at or after an aborted request.
    #[inline]
    pub(super) fn current(&self) -> Option<(&Slot, SlotIndex, Option<u32>)> {
        let offset = |index: u32| index.wrapping_sub(self.acked);
        let end = self.stop_at.unwrap_or(self.head);
        if offset(self.cursor) >= offset(end) {
            return None;
        }
        let slot = self.slot(self.cursor)?;
        let sent = (self.cursor != self.begun).then(|| self.psn.since(slot.first));
        Some((slot, self.slot_index(self.cursor), sent))
    }

    /// Returns whether enough PSNs are free for a message of `packets` packets.
    #[inline]
    pub(super) fn has_psns(&self, packets: u32) -> bool {
        self.free.since(self.una).saturating_add(packets) <= MAX_PSNS
    }

    /// Records that the next `count` packets of the current request were sent. For a READ: the rest of the current
    /// part. The first packet gives the request its PSNs and, to a READ, `split`.
    pub(super) fn sent(&mut self, split: ReadSplit, count: u32) {
        let begins = self.cursor == self.begun;
        let (psn, free, mtu) = (self.psn, self.free, self.mtu);
        if begins && self.cursor == self.head {
            return;
        }
        let Some(slot) = self.slot_mut(self.cursor) else {
            return;
        };
        if begins {
            slot.first = free;
            slot.packets = mtu.packets(slot.wr.length);
            slot.split = split;
        }
        let (first, end, awaits_response) = (slot.first, slot.end(), slot.awaits_response());
        let from = psn.since(first);
        let to = match awaits_response {
            true => slot.split.part_end(from, slot.packets),
            false => from.saturating_add(count),
        };
        let bytes = mtu.payload_between(from, to, slot.wr.length);
        let receives = slot.receives_ended(to);

        if begins {
            self.free = end;
            self.begun = self.begun.wrapping_add(1);
        }
        self.psn = first.add(to);
        let flight = &mut self.flight;
        flight.bytes = flight.bytes.saturating_add(bytes);
        flight.packets = flight.packets.saturating_add(to.saturating_sub(from));
        flight.reads = flight.reads.saturating_add(u32::from(awaits_response));
        flight.receives = flight.receives.saturating_add(receives);
        if self.psn == end {
            self.cursor = self.cursor.wrapping_add(1);
            self.skip_local();
        }
        if self.psn.since(self.una) > self.high.since(self.una) {
            self.high = self.psn;
        }
    }

    /// Undoes the last [`sent`](Self::sent) of one packet. Does nothing for a request that awaits a response. The
    /// packet keeps its PSN, which the peer may still acknowledge. Returns its payload in bytes.
    pub(super) fn unsend(&mut self) -> Option<u32> {
        let psn = self.psn.sub(1);
        let index = match self.slot(self.cursor) {
            Some(slot) if self.cursor != self.begun && self.psn != slot.first => self.cursor,
            _ => self.last_with_packets(),
        };
        let slot = self.slot(index).copied()?;
        if slot.awaits_response() || self.flight.packets == 0 {
            return None;
        }
        let from = psn.since(slot.first);
        let bytes = self.payload(&slot, from, from.saturating_add(1));
        self.flight.bytes = self.flight.bytes.saturating_sub(bytes);
        self.flight.packets = self.flight.packets.saturating_sub(1);
        let receives = slot.receives_ended(from.saturating_add(1));
        self.flight.receives = self.flight.receives.saturating_sub(receives);
        (self.psn, self.cursor) = (psn, index);
        Some(bytes)
    }

    /// Goes back to the oldest unacknowledged packet.
    pub(super) fn rewind(&mut self) {
        self.psn = self.una;
        self.cursor = self.acked;
        self.flight = InFlight::default();
        self.skip_local();
    }

    // Aborted requests.

    /// Aborts the request in slot `slot_index` with `status`, unless it is complete. Returns the PSN
    /// of its first packet; if it has none, the first PSN that was never sent.
    pub(super) fn abort_slot(&mut self, slot_index: SlotIndex, status: WcStatus) -> Option<Psn> {
        // The slot's distance from the oldest request on the ring gives the free-running index.
        let mask = self.capacity.wrapping_sub(1);
        let index = self
            .acked
            .wrapping_add(slot_index.0.wrapping_sub(self.acked) & mask);
        if index.wrapping_sub(self.acked) >= self.head.wrapping_sub(self.acked) {
            return None;
        }
        let high = self.high;
        let slot = self.slot_mut(index)?;
        slot.status.get_or_insert(status);
        let first = match slot.packets {
            0 => high,
            _ => slot.first,
        };
        self.stop_sending_at(index);
        Some(first)
    }

    /// Stops sending at this request, if it comes before the current stop.
    fn stop_sending_at(&mut self, index: u32) {
        let offset = |index: u32| index.wrapping_sub(self.acked);
        if self
            .stop_at
            .is_none_or(|stop_at| offset(index) < offset(stop_at))
        {
            self.stop_at = Some(index);
        }
    }

    // Local operations.

    /// Returns the current request if it is a local operation that is not executed yet, with its
    /// slot and whether all earlier requests are complete.
    #[inline]
    pub(super) fn current_local(&self) -> Option<(&Slot, SlotIndex, bool)> {
        let (slot, slot_index, sent) = self.current()?;
        let pending = slot.is_local() && sent.is_none();
        pending.then_some((slot, slot_index, self.acked == self.cursor))
    }

    /// Returns whether the next request waits for the current one.
    #[inline]
    pub(super) fn next_awaits_current(&self) -> bool {
        let next = self.cursor.wrapping_add(1);
        let posted = self.cursor != self.head && next != self.head;
        posted && self.slot(next).is_some_and(Slot::awaits_earlier)
    }

    /// Returns the first posted request after the current one that is not local; `None` if a local one before it waits
    /// for the current one, or there are more than two.
    #[inline]
    pub(super) fn next_request(&self) -> Option<&Slot> {
        let posted = self.head.wrapping_sub(self.cursor);
        (1..posted.min(4))
            .map_while(|ahead| self.slot(self.cursor.wrapping_add(ahead)))
            .take_while(|slot| !slot.awaits_earlier())
            .find(|slot| !slot.is_local())
    }

    /// Records the result of the current local operation.
    pub(super) fn on_local_executed(
        &mut self,
        slot_index: SlotIndex,
        result: Result<(), WcStatus>,
    ) {
        let first = self.free;
        let Some(slot) = self.slot_mut(self.cursor) else {
            return;
        };
        (slot.first, slot.packets) = (first, 0);
        match result {
            Ok(()) => {
                self.begun = self.begun.wrapping_add(1);
                self.cursor = self.begun;
            }
            Err(status) => {
                let _ = self.abort_slot(slot_index, status);
            }
        }
        self.complete_local();
    }

    /// Completes executed local operations that are the oldest incomplete requests.
    fn complete_local(&mut self) {
        // Bounded: each iteration completes one of at most `capacity` requests.
        while let Some((slot, true)) = self.oldest() {
            if !slot.is_local() || slot.status.is_some() {
                return;
            }
            self.complete_oldest(WcStatus::Success);
        }
    }

    /// Moves the cursor past executed local operations.
    fn skip_local(&mut self) {
        // Bounded by `begun`.
        while self.cursor != self.begun && self.slot(self.cursor).is_some_and(Slot::is_local) {
            self.cursor = self.cursor.wrapping_add(1);
        }
    }

    /// Returns the last request before the current one that uses packets.
    fn last_with_packets(&self) -> u32 {
        let mut index = self.cursor.wrapping_sub(1);
        // Bounded by `acked`.
        while index != self.acked && self.slot(index).is_some_and(Slot::is_local) {
            index = index.wrapping_sub(1);
        }
        index
    }

    // Acknowledging.

    /// Acknowledges all packets before `upto`, which must not be after [`SendWindow::high`]. Stops at
    /// a request that awaits a response, and at an aborted one.
    pub(super) fn acknowledge(&mut self, upto: Psn) -> Reach {
        // Bounded: each iteration but the last completes one of at most `capacity` requests.
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

    /// Returns whether a packet before `psn` is unacknowledged and awaits a response. Then
    /// [`acknowledge`](Self::acknowledge) finds a gap.
    pub(super) fn awaits_response_before(&self, psn: Psn) -> bool {
        let mut una = self.una;
        let mut index = self.acked;
        // Bounded: each iteration passes one of at most `capacity` requests.
        while index != self.begun && una.is_before(psn) {
            let Some(slot) = self.slot(index) else {
                return false;
            };
            if slot.awaits_response() {
                return true;
            }
            if slot.packets != 0 {
                una = slot.end();
            }
            index = index.wrapping_add(1);
        }
        false
    }

    /// Acknowledges `count` packets of the oldest request. Completes it after its last packet.
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
        self.una_follows_payload = !slot.awaits_response();
        self.credits.use_up(slot.receives_ended(to));
        if !overtaken {
            self.remove_in_flight(&slot, from, to);
        }
        if complete {
            self.complete_oldest(WcStatus::Success);
            self.complete_local();
        }
        if overtaken {
            // The packets to be retransmitted did arrive: continue after them.
            self.rewind();
        }
    }

    /// Subtracts packets `from` to `to` of the oldest request from the data in flight.
    fn remove_in_flight(&mut self, slot: &Slot, from: u32, to: u32) {
        let bytes = self.payload(slot, from, to);
        let reads = match slot.awaits_response() {
            true => slot.split.parts_ended(from, to, slot.packets),
            false => 0,
        };
        let flight = &mut self.flight;
        flight.bytes = flight.bytes.saturating_sub(bytes);
        flight.packets = flight.packets.saturating_sub(to.saturating_sub(from));
        flight.reads = flight.reads.saturating_sub(reads);
        flight.receives = flight.receives.saturating_sub(slot.receives_ended(to));
    }

    /// Returns the payload of packets `from` to `to` (exclusive) of a message, in bytes.
    #[inline]
    fn payload(&self, slot: &Slot, from: u32, to: u32) -> u32 {
        self.mtu.payload_between(from, to, slot.wr.length)
    }

    // Getters.

    /// Returns whether a packet with this PSN was ever sent and is unacknowledged.
    #[inline]
    pub(super) const fn contains(&self, psn: Psn) -> bool {
        psn.since(self.una) < self.high.since(self.una)
    }

    /// Returns whether a packet is in flight since the last [`SendWindow::rewind`].
    #[inline]
    pub(super) fn in_flight(&self) -> bool {
        self.psn != self.una
    }

    /// Returns whether all begun requests are complete.
    #[inline]
    pub(super) const fn is_drained(&self) -> bool {
        self.acked == self.begun
    }

    /// Returns the data in flight since the last [`SendWindow::rewind`].
    #[inline]
    pub(super) const fn flight(&self) -> InFlight {
        self.flight
    }

    /// Returns the PSN of the oldest unacknowledged packet.
    #[inline]
    pub(super) const fn una(&self) -> Psn {
        self.una
    }

    /// Returns the PSN before the oldest unacknowledged one, if it belongs to a SEND or WRITE of this connection.
    #[inline]
    pub(super) fn acknowledged_payload(&self) -> Option<Psn> {
        self.una_follows_payload.then(|| self.una.sub(1))
    }

    /// Returns the PSN of the next packet.
    #[inline]
    pub(super) const fn psn(&self) -> Psn {
        self.psn
    }

    /// Returns the first PSN that was never sent.
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
        self.slots
            .as_ref()
            .get(u32_as_usize(self.slot_index(index).0))
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        let index = u32_as_usize(self.slot_index(index).0);
        self.slots.as_mut().get_mut(index)
    }

    #[inline]
    const fn slot_index(&self, index: u32) -> SlotIndex {
        SlotIndex(index & self.capacity.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests;
