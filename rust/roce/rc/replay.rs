// SPDX-License-Identifier: GPL-2.0

//! The responder's replay buffer for duplicate requests (the *responder resources* of the
//! specification): READs, atomic operations, ATOMIC WRITEs and FLUSHes.
//!
//! Holds the responses in PSN order, the progress of each, and the original values of atomic
//! operations. An entry is kept until as many later requests arrived as the peer may have
//! outstanding. Until then the peer may repeat the request and gets the response without a second
//! execution. The storage belongs to the caller.

use crate::{
    id::{
        Msn,
        Rkey,
        Srqn, //
    },
    num::u32_as_usize,
    psn::Psn,
    segmentation::mtu::MAX_PSNS,
    wire::ext::Reth,
    wr::{
        AtomicOp,
        Remote, //
    }, //
};

/// The response to a request, and its progress. Packets are counted from its start.
///
/// The caller fills its storage with [`ReplayEntry::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct ReplayEntry {
    /// PSN of the first packet of the response.
    pub(super) first: Psn,
    /// Number of packets of the response.
    pub(super) packets: u32,
    /// The request.
    pub(super) request: Request,
    /// Start of the memory.
    pub(super) remote: Remote,
    /// XRC: the SRQ that the request named.
    pub(super) srqn: Srqn,
    /// Payload of the response, in bytes.
    pub(super) length: u32,
    /// Number of completed messages, including this one.
    pub(super) msn: Msn,
    /// First packet of the (possibly partial) response being sent.
    pub(super) start: u32,
    /// Next packet to send.
    pub(super) next: u32,
    /// End (exclusive) of the response being sent.
    pub(super) end: u32,
    /// The response is sent for the first time and is not finished.
    is_new: bool,
}

impl ReplayEntry {
    /// An empty entry.
    pub const EMPTY: Self = Self {
        first: Psn::new(0),
        packets: 0,
        request: Request::Read,
        remote: Remote {
            va: 0,
            rkey: Rkey::new(0),
        },
        srqn: Srqn::new(0),
        length: 0,
        msn: Msn::new(0),
        start: 0,
        next: 0,
        end: 0,
        is_new: false,
    };

    /// Returns the entry of an executed request with a response of one packet.
    pub(super) fn executed(first: Psn, request: Request, remote: Remote, msn: Msn) -> Self {
        Self {
            request,
            ..Self::for_read(first, 1, (remote, Srqn::new(0)), 0, msn)
        }
    }

    /// Returns the entry of a new READ.
    pub(super) fn for_read(
        first: Psn,
        packets: u32,
        (remote, srqn): (Remote, Srqn),
        length: u32,
        msn: Msn,
    ) -> Self {
        Self {
            first,
            packets,
            remote,
            srqn,
            length,
            msn,
            end: packets,
            is_new: true,
            ..Self::EMPTY
        }
    }

    /// Returns whether the peer may still repeat the end of this request while a later request of
    /// `packets` packets from `next` on is outstanding. At most half of all PSNs can be outstanding.
    /// While this holds, the PSNs of this entry (at most half of all) are unambiguous.
    fn may_be_repeated(&self, next: Psn, packets: u32) -> bool {
        let end = self.first.add(self.packets);
        next.since(end).saturating_add(packets) < MAX_PSNS
    }

    /// Returns whether the first response is not finished.
    #[inline]
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the PSN of the next packet to send.
    #[inline]
    pub(super) const fn next_psn(&self) -> Psn {
        self.first.add(self.next)
    }

    /// Returns whether packets remain to be sent.
    #[inline]
    pub(super) const fn is_pending(&self) -> bool {
        self.next < self.end
    }
}

impl Default for ReplayEntry {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// A request with a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// A READ.
    Read,
    /// An atomic operation and the original value.
    Atomic(AtomicOp, u64),
    /// An ATOMIC WRITE.
    AtomicWrite,
    /// A FLUSH.
    Flush,
}

/// The peer exceeds the number of outstanding requests or PSNs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Full;

/// A queue of responses in PSN order.
#[derive(Debug)]
pub(super) struct Replay<A> {
    entries: A,
    /// Storage index of the oldest entry.
    oldest: u32,
    len: u32,
    /// Queue index of the first pending entry; `len` if no entry is pending.
    first_pending: u32,
    /// The packets sent last belong to a first response, not a repeated one.
    last_was_new: bool,
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Replay<A> {
    /// Returns an empty queue.
    pub(super) const fn new(entries: A) -> Self {
        Self {
            entries,
            oldest: 0,
            len: 0,
            first_pending: 0,
            last_was_new: false,
        }
    }

    /// Replaces the storage by `entries`, copies the newest entries that fit, and returns the old
    /// storage.
    pub(super) fn replace(&mut self, entries: A) -> A {
        let mut moved = Self::new(entries);
        let excess = self.len.saturating_sub(moved.capacity());
        for index in excess..self.len {
            if let Some(entry) = self.get(index).copied() {
                let _ = moved.push(entry);
            }
        }
        moved.advance_pending(0);
        core::mem::replace(self, moved).entries
    }

    /// Returns the number of entries that can be kept.
    pub(super) fn capacity(&self) -> u32 {
        u32::try_from(self.entries.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Drops all entries.
    pub(super) fn clear(&mut self) {
        (self.oldest, self.len, self.first_pending) = (0, 0, 0);
    }

    /// Appends an entry, after making room for it.
    ///
    /// # Errors
    ///
    /// As [`make_room`](Self::make_room).
    pub(super) fn push(&mut self, entry: ReplayEntry) -> Result<(), Full> {
        self.make_room(entry.first, entry.packets)?;
        let index = self.len;
        *self.get_mut(index).ok_or(Full)? = entry;
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Makes room for an entry of `packets` packets from `first` on. Drops the oldest entries if the
    /// queue is full, or if the peer can no longer repeat them.
    ///
    /// # Errors
    ///
    /// [`Full`] if the capacity is 0, or if an entry to drop has an unfinished first response: the
    /// peer has more requests or PSNs outstanding than allowed.
    pub(super) fn make_room(&mut self, first: Psn, packets: u32) -> Result<(), Full> {
        if self.capacity() == 0 {
            return Err(Full);
        }
        while let (Some(oldest), 1..) = (self.get(0), self.len) {
            if oldest.may_be_repeated(first, packets) && self.len < self.capacity() {
                break;
            }
            if oldest.is_new {
                return Err(Full);
            }
            self.drop_oldest();
        }
        Ok(())
    }

    /// Drops entries that the peer can no longer repeat, given the expected PSN. Called for each
    /// executed request.
    pub(super) fn expire(&mut self, expected: Psn) {
        while let (Some(oldest), 1..) = (self.get(0), self.len) {
            if oldest.is_new || oldest.may_be_repeated(expected, 0) {
                break;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        self.oldest = self.storage_index(1);
        self.len = self.len.saturating_sub(1);
        // The dropped entry may have been pending with a repeated response.
        self.advance_pending(self.first_pending.saturating_sub(1));
    }

    /// Returns the entry that contains this PSN.
    pub(super) fn find(&self, psn: Psn) -> Option<&ReplayEntry> {
        let index = self.index_of(psn)?;
        self.get(index)
    }

    /// Returns the PSN of an ACK that covers at least `required`: the last PSN before the first
    /// response after `required`, and never a PSN of a response. The peer may not have that response.
    /// It would then have to repeat the request, and some peers (`rdma_rxe` of Linux 7.3) take an ACK
    /// with its PSN for the response.
    pub(super) fn ack_psn(&self, required: Psn, expected: Psn) -> Psn {
        let is_after_required = |first: Psn| {
            let distance = expected.since(first);
            distance != 0 && distance < expected.since(required)
        };
        let mut last = expected.sub(1);
        for entry in (0..self.len).rev().filter_map(|index| self.get(index)) {
            if is_after_required(entry.first) || last.since(entry.first) < entry.packets {
                last = entry.first.sub(1);
            }
        }
        last
    }

    /// Returns the number of messages completed before the response with this PSN. `None` if no entry has it.
    pub(super) fn msn_before(&self, psn: Psn) -> Option<Msn> {
        self.find(psn).map(|entry| entry.msn.prev())
    }

    /// Makes the READ with this PSN one that reads the memory in `reth`, for `srqn`, from this PSN on, `skipped` bytes
    /// after its start. Its PSNs do not change. A later duplicate that wants the original memory again names it.
    pub(super) fn replace_read(&mut self, psn: Psn, (reth, srqn): (&Reth, Srqn), skipped: u32) {
        let index = self.index_of(psn);
        let Some(entry) = index.and_then(|index| self.get_mut(index)) else {
            return;
        };
        entry.remote = Remote {
            va: reth.va.wrapping_sub(u64::from(skipped)),
            rkey: reth.rkey,
        };
        entry.srqn = srqn;
        entry.length = skipped.saturating_add(reth.len);
    }

    /// Schedules packets `start` to `end` of the response with this PSN again. Has no effect if they
    /// are already scheduled. An unfinished first response is always sent to its end.
    pub(super) fn repeat(&mut self, psn: Psn, start: u32, end: u32) {
        let Some(index) = self.index_of(psn) else {
            return;
        };
        let Some(entry) = self.get_mut(index) else {
            return;
        };
        let end = if entry.is_new { entry.packets } else { end };
        if entry.is_pending() && (entry.next, entry.end) == (start, end) {
            return;
        }
        (entry.start, entry.next, entry.end) = (start, start, end);
        self.first_pending = self.first_pending.min(index);
    }

    /// Returns the oldest pending entry.
    #[inline]
    pub(super) fn pending(&self) -> Option<&ReplayEntry> {
        match self.first_pending < self.len {
            true => self.get(self.first_pending),
            false => None,
        }
    }

    /// Returns the first PSN and the number of all pending packets. `None` if there are none.
    pub(super) fn pending_packets(&self) -> Option<(Psn, u32)> {
        let first = self.pending()?;
        let pending = (self.first_pending..self.len).filter_map(|index| self.get(index));
        let packets = pending.fold(0_u32, |packets, entry| {
            packets.saturating_add(entry.end.saturating_sub(entry.next))
        });
        Some((first.next_psn(), packets))
    }

    /// Cancels all pending repeated responses.
    pub(super) fn cancel_repeats(&mut self) {
        for index in 0..self.len {
            if let Some(entry) = self.get_mut(index).filter(|entry| !entry.is_new) {
                entry.next = entry.end;
            }
        }
        self.advance_pending(0);
    }

    /// Records that `count` packets of [`Replay::pending`] were sent.
    #[inline]
    pub(super) fn sent(&mut self, count: u32) {
        let index = self.first_pending;
        let Some(entry) = self.get_mut(index) else {
            return;
        };
        let is_new = entry.is_new;
        entry.next = entry.next.saturating_add(count);
        entry.is_new = is_new && entry.next < entry.packets;
        let is_done = !entry.is_pending();
        self.last_was_new = is_new;
        if is_done {
            self.advance_pending(index);
        }
    }

    /// Undoes the last [`sent`](Self::sent) for the packets from this PSN on.
    pub(super) fn unsend(&mut self, psn: Psn) {
        let is_new = self.last_was_new;
        let Some(index) = self.index_of(psn) else {
            return;
        };
        let Some(entry) = self.get_mut(index) else {
            return;
        };
        entry.next = psn.since(entry.first);
        entry.is_new |= is_new;
        self.first_pending = self.first_pending.min(index);
    }

    /// Cancels the rest of the response sent last, which contains this PSN, if it is a repeated one.
    /// Returns whether it is.
    pub(super) fn cancel_repeat(&mut self, psn: Psn) -> bool {
        if self.last_was_new {
            return false;
        }
        if let Some(index) = self.index_of(psn) {
            if let Some(entry) = self.get_mut(index) {
                entry.next = entry.end;
            }
            self.advance_pending(0);
        }
        true
    }

    /// Sets `first_pending` to the first pending entry from `index` on.
    fn advance_pending(&mut self, index: u32) {
        let pending = |&index: &u32| self.get(index).is_some_and(ReplayEntry::is_pending);
        self.first_pending = (index..self.len).find(pending).unwrap_or(self.len);
    }

    fn index_of(&self, psn: Psn) -> Option<u32> {
        let contains = |&index: &u32| {
            self.get(index)
                .is_some_and(|entry| psn.since(entry.first) < entry.packets)
        };
        // Newest first: an entry older than half of the PSN space may have the same PSNs.
        (0..self.len).rev().find(contains)
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&ReplayEntry> {
        self.entries
            .as_ref()
            .get(u32_as_usize(self.storage_index(index)))
    }

    #[inline]
    fn get_mut(&mut self, index: u32) -> Option<&mut ReplayEntry> {
        let index = u32_as_usize(self.storage_index(index));
        self.entries.as_mut().get_mut(index)
    }

    /// Returns the storage index of the entry with queue index `index`.
    #[inline]
    fn storage_index(&self, index: u32) -> u32 {
        let capacity = self.capacity();
        let unwrapped = self.oldest.saturating_add(index);
        match unwrapped.checked_sub(capacity) {
            Some(wrapped) => wrapped,
            None => unwrapped,
        }
    }
}

#[cfg(test)]
mod tests;
