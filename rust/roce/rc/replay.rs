// SPDX-License-Identifier: GPL-2.0

//! What a responder has answered or is about to answer by more than an acknowledgement, in storage
//! that the caller owns: READs, atomic operations and writes, flushes.
//!
//! Owns their order, how far each is answered, and what an atomic operation found. An answer is kept
//! until as many later ones came as the peer may have outstanding: until then the request may be
//! repeated, and is answered without being carried out again. Does not know packets, nor what a
//! request looks like that asks for a part of a READ.

use crate::{
    id::{
        Msn,
        Rkey, //
    },
    num::u32_as_usize,
    psn::Psn,
    segmentation::tx_desc::MAX_PSNS,
    wr::{
        AtomicOp,
        Remote, //
    }, //
};

/// The answer to a request, and how far it is given. Packets are counted from its start.
///
/// [`ReplayEntry::EMPTY`] is for the caller to fill its storage with.
#[derive(Clone, Copy, Debug)]
pub struct ReplayEntry {
    /// PSN of the first packet of the response.
    pub(super) first: Psn,
    /// Number of packets of the response.
    pub(super) packets: u32,
    /// What was asked for.
    pub(super) request: Request,
    /// Where the memory starts.
    pub(super) remote: Remote,
    /// How many bytes of memory the response carries.
    pub(super) length: u32,
    /// Messages completed, with this one.
    pub(super) msn: Msn,
    /// Packet with which the response starts that is being sent.
    pub(super) start: u32,
    /// Packet to be sent next.
    pub(super) next: u32,
    /// Packet before which that response ends.
    pub(super) end: u32,
    /// Whether it is answered for the first time, and not to the end yet.
    fresh: bool,
}

impl ReplayEntry {
    /// An answer to nothing.
    pub const EMPTY: Self = Self {
        first: Psn::new(0),
        packets: 0,
        request: Request::Read,
        remote: Remote {
            va: 0,
            rkey: Rkey::new(0),
        },
        length: 0,
        msn: Msn::new(0),
        start: 0,
        next: 0,
        end: 0,
        fresh: false,
    };

    /// Makes the answer, of one packet, to a request that is carried out.
    pub(super) fn done(first: Psn, request: Request, remote: Remote, msn: Msn) -> Self {
        Self {
            request,
            ..Self::new(first, 1, remote, 0, msn)
        }
    }

    /// Makes the answer to a READ that was not answered before.
    pub(super) fn new(first: Psn, packets: u32, remote: Remote, length: u32, msn: Msn) -> Self {
        Self {
            first,
            packets,
            remote,
            length,
            msn,
            end: packets,
            fresh: true,
            ..Self::EMPTY
        }
    }

    /// Returns whether its peer may still ask for its end, beside a later request of `packets` packets from `next` on:
    /// no more PSNs than half of all can be outstanding. So its own PSNs, half of all at most, are nobody else's.
    fn matters(&self, next: Psn, packets: u32) -> bool {
        let end = self.first.add(self.packets);
        next.since(end).saturating_add(packets) < MAX_PSNS
    }

    /// Returns whether there is something to send.
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

/// What an answer is to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// A READ.
    Read,
    /// An atomic operation: which, and what it found.
    Atomic(AtomicOp, u64),
    /// An atomic write.
    AtomicWrite,
    /// A flush.
    Flush,
}

/// As many requests are unanswered as may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Full;

/// A queue of answers, in the order of their PSNs.
#[derive(Debug)]
pub(super) struct Replay<A> {
    answers: A,
    /// Place of the oldest answer in the storage.
    oldest: u32,
    len: u32,
    /// How many answers there are before the first that is pending.
    settled: u32,
    /// Whether packets were sent last of an answer that was given for the first time.
    sent_fresh: bool,
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Replay<A> {
    /// Makes an empty queue, for as many READs as there is room in `answers`.
    pub(super) const fn new(answers: A) -> Self {
        Self {
            answers,
            oldest: 0,
            len: 0,
            settled: 0,
            sent_fresh: false,
        }
    }

    /// Puts `answers` in the place of the storage and copies the newest entries to it. Returns
    /// the old storage.
    pub(super) fn replace(&mut self, answers: A) -> A {
        let mut moved = Self::new(answers);
        let excess = self.len.saturating_sub(moved.capacity());
        for place in excess..self.len {
            if let Some(answer) = self.get(place).copied() {
                let _ = moved.push(answer);
            }
        }
        moved.settle(0);
        core::mem::replace(self, moved).answers
    }

    /// Returns how many answers can be kept.
    pub(super) fn capacity(&self) -> u32 {
        u32::try_from(self.answers.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.oldest, self.len, self.settled) = (0, 0, 0);
    }

    /// Appends an answer. Makes room for it.
    ///
    /// # Errors
    ///
    /// As [`make_room`](Self::make_room).
    pub(super) fn push(&mut self, answer: ReplayEntry) -> Result<(), Full> {
        self.make_room(answer.first, answer.packets)?;
        let index = self.len;
        *self.get_mut(index).ok_or(Full)? = answer;
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Makes sure that an answer of `packets` packets from `first` on can be appended. Forgets the oldest for
    /// it if there is no room, or if nobody can ask for that any more by then.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room at all, or one to be forgotten was never answered to the end:
    /// then the peer has more requests, or more PSNs, outstanding than it may.
    pub(super) fn make_room(&mut self, first: Psn, packets: u32) -> Result<(), Full> {
        if self.capacity() == 0 {
            return Err(Full);
        }
        while let (Some(oldest), 1..) = (self.get(0), self.len) {
            if oldest.matters(first, packets) && self.len < self.capacity() {
                break;
            }
            if oldest.fresh {
                return Err(Full);
            }
            self.forget_oldest();
        }
        Ok(())
    }

    /// Forgets answers that nobody can ask for any more, when `expected` is the next request. For each request that is
    /// carried out.
    pub(super) fn age(&mut self, expected: Psn) {
        while let (Some(oldest), 1..) = (self.get(0), self.len) {
            if oldest.fresh || oldest.matters(expected, 0) {
                break;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.oldest = self.place(1);
        self.len = self.len.saturating_sub(1);
        // It may have been the one that is pending, if it was repeated.
        self.settle(self.settled.saturating_sub(1));
    }

    /// Returns the answer to which the packet with this PSN belongs.
    pub(super) fn find(&self, psn: Psn) -> Option<&ReplayEntry> {
        let index = self.position(psn)?;
        self.get(index)
    }

    /// Returns up to where an acknowledgement goes that has to reach `owed`, when `expected` is the next
    /// request: to before the first answer after that, and never to an answer's own PSNs. The peer may lack
    /// that answer; it would have to ask for it once more, and some (`rdma_rxe` of Linux 7.3) take an acknowledgement
    /// with its PSN for the answer itself.
    pub(super) fn acknowledged(&self, owed: Psn, expected: Psn) -> Psn {
        let after_owed = |first: Psn| {
            let rtt = expected.since(first);
            rtt != 0 && rtt < expected.since(owed)
        };
        let mut last = expected.sub(1);
        for answer in (0..self.len).rev().filter_map(|index| self.get(index)) {
            if after_owed(answer.first) || last.since(answer.first) < answer.packets {
                last = answer.first.sub(1);
            }
        }
        last
    }

    /// Says that packets `start` to `end` of the answer with this PSN are to be sent once more.
    /// Nothing happens if they are about to be sent anyway. An answer that is given for the first
    /// time still goes on to its end.
    pub(super) fn repeat(&mut self, psn: Psn, start: u32, end: u32) {
        let Some(index) = self.position(psn) else {
            return;
        };
        let Some(answer) = self.get_mut(index) else {
            return;
        };
        let end = if answer.fresh { answer.packets } else { end };
        if answer.is_pending() && (answer.next, answer.end) == (start, end) {
            return;
        }
        (answer.start, answer.next, answer.end) = (start, start, end);
        self.settled = self.settled.min(index);
    }

    /// Returns the oldest answer of which something is to be sent.
    #[inline]
    pub(super) fn pending(&self) -> Option<&ReplayEntry> {
        match self.settled < self.len {
            true => self.get(self.settled),
            false => None,
        }
    }

    /// Returns the PSN from which on packets are to be sent, and how many, if there are any.
    pub(super) fn pending_since(&self) -> Option<(Psn, u32)> {
        let first = self.pending()?;
        let pending = (self.settled..self.len).filter_map(|index| self.get(index));
        let packets = pending.fold(0_u32, |packets, answer| {
            packets.saturating_add(answer.end.saturating_sub(answer.next))
        });
        Some((first.first.add(first.next), packets))
    }

    /// Gives up all that is to be sent once more.
    pub(super) fn leave_repeats(&mut self) {
        for index in 0..self.len {
            if let Some(answer) = self.get_mut(index).filter(|answer| !answer.fresh) {
                answer.next = answer.end;
            }
        }
        self.settle(0);
    }

    /// Notes that `count` packets of [`Replay::pending`] were sent.
    #[inline]
    pub(super) fn sent(&mut self, count: u32) {
        let index = self.settled;
        let Some(answer) = self.get_mut(index) else {
            return;
        };
        let fresh = answer.fresh;
        answer.next = answer.next.saturating_add(count);
        answer.fresh = fresh && answer.next < answer.packets;
        let settled = !answer.is_pending();
        self.sent_fresh = fresh;
        if settled {
            self.settle(index);
        }
    }

    /// Takes back that the packets from this PSN on were sent, those of one answer that were the last to be.
    pub(super) fn unsend(&mut self, psn: Psn) {
        let fresh = self.sent_fresh;
        let Some(index) = self.position(psn) else {
            return;
        };
        let Some(answer) = self.get_mut(index) else {
            return;
        };
        answer.next = psn.since(answer.first);
        answer.fresh |= fresh;
        self.settled = self.settled.min(index);
    }

    /// Gives up what is left of the answer that packets were sent of last, unless it is given for the first time.
    /// Returns whether it did.
    pub(super) fn give_up(&mut self, psn: Psn) -> bool {
        if self.sent_fresh {
            return false;
        }
        if let Some(index) = self.position(psn) {
            if let Some(answer) = self.get_mut(index) {
                answer.next = answer.end;
            }
            self.settle(0);
        }
        true
    }

    /// Looks for the first answer that is pending, from `index` on.
    fn settle(&mut self, index: u32) {
        let pending = |&index: &u32| self.get(index).is_some_and(ReplayEntry::is_pending);
        self.settled = (index..self.len).find(pending).unwrap_or(self.len);
    }

    fn position(&self, psn: Psn) -> Option<u32> {
        let holds = |&index: &u32| {
            self.get(index)
                .is_some_and(|answer| psn.since(answer.first) < answer.packets)
        };
        // The newest first: of numbers half a circle old, another READ may have the same.
        (0..self.len).rev().find(holds)
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&ReplayEntry> {
        self.answers.as_ref().get(u32_as_usize(self.place(index)))
    }

    #[inline]
    fn get_mut(&mut self, index: u32) -> Option<&mut ReplayEntry> {
        let place = u32_as_usize(self.place(index));
        self.answers.as_mut().get_mut(place)
    }

    /// Returns the place in the storage of the answer after `index` others.
    #[inline]
    fn place(&self, index: u32) -> u32 {
        let capacity = self.capacity();
        let place = self.oldest.saturating_add(index);
        match place.checked_sub(capacity) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }
}

#[cfg(test)]
mod tests;
