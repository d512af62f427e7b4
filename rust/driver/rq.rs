// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a user's queue pair, seen from the consuming end.
//!
//! Owns the read position in the shared ring and a private copy of the one receive that is in
//! progress. An element goes back to user space as soon as it has been copied. Does not know
//! what arrives.

use crate::abi::{
    self,
    Bounds,
    RecvWqe,
    Sge, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ring::Ring;
use roce::{
    status::WcStatus,
    wr::{
        BadRecv,
        RecvWr, //
    }, //
};

/// The consuming end of a receive ring.
pub(crate) struct ReceiveQueue {
    ring: Arc<Ring>,
    /// Next element to read, masked; the ring holds the published copy.
    next: u32,
    bounds: Bounds,
    /// Scatter list of the receive in progress; the first `used` entries count.
    current: KVVec<Sge>,
    used: usize,
}

impl ReceiveQueue {
    /// The consuming end of `ring`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: Arc<Ring>, bounds: Bounds) -> Result<Self> {
        let current =
            KVVec::from_elem(Sge::default(), bounds.max_sge as usize, GFP_KERNEL_ACCOUNT)?;
        Ok(Self {
            ring,
            next: 0,
            bounds,
            current,
            used: 0,
        })
    }

    /// Takes the next receive; its scatter list becomes the one in progress.
    ///
    /// `None`: user space has posted no more. An entry that cannot be used comes with the status
    /// that it completes with.
    pub(crate) fn take(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        if self.next == self.ring.producer() {
            return None;
        }
        let mut bytes = [0; RecvWqe::LEN];
        self.ring.read(self.next, 0, &mut bytes);
        let wqe: RecvWqe = zerocopy::transmute!(bytes);
        let taken = self.copy_scatter_list(&wqe);
        self.next = self.next.wrapping_add(1) & self.ring.mask();
        self.ring.publish_consumer(self.next);
        Some(taken)
    }

    fn copy_scatter_list(&mut self, wqe: &RecvWqe) -> Result<RecvWr, BadRecv> {
        self.used = 0;
        let bad = |status| BadRecv {
            wr_id: wqe.wr_id(),
            status,
        };
        let entries = wqe
            .entries(self.bounds)
            .and_then(|entries| self.current.get_mut(..entries as usize))
            .ok_or(bad(WcStatus::LocQpOpErr))?;
        self.ring
            .read(self.next, RecvWqe::LEN, entries.as_mut_bytes());
        let length = abi::total_length(entries).ok_or(bad(WcStatus::LocLenErr))?;
        self.used = entries.len();
        Ok(wqe.work_request(length))
    }

    /// Elements of the ring.
    pub(crate) fn slots(&self) -> u32 {
        self.ring.mask().saturating_add(1)
    }

    /// Scatter list of the receive in progress.
    pub(crate) fn current(&self) -> &[Sge] {
        self.current.get(..self.used).unwrap_or_default()
    }

    /// Forgets every entry (the queue pair goes to RESET).
    pub(crate) fn clear(&mut self) {
        self.next = self.ring.producer();
        self.ring.publish_consumer(self.next);
        self.used = 0;
    }
}
