// SPDX-License-Identifier: GPL-2.0

//! Send work requests of a consumer in the kernel, between post and turn.
//!
//! Owns copies of them. They are posted in any context, also with interrupts off, where no half can be
//! run; so they wait here for the queue pair's next turn. Datagrams wait in `posted`, each with where
//! it goes.

use crate::abi::{
    self,
    Local,
    Sge,
    Shape, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::wr::SgeList;
use roce::wr::{
    SendOp,
    SendWr, //
};

/// Requests that wait.
#[pin_data]
pub(crate) struct SendPosts {
    #[pin]
    queue: SpinLockIrq<Queue>,
}

/// What the lock guards: a ring of requests, each with room for the longest scatter list.
struct Queue {
    heads: KVVec<Head>,
    lists: KVVec<Sge>,
    max_sge: usize,
    /// Posted and taken since the queue was made; both run free.
    posted: usize,
    taken: usize,
}

/// A request without its scatter list.
#[derive(Clone, Copy)]
struct Head {
    wr: SendWr,
    shape: Shape,
}

impl SendPosts {
    /// Room for `max_wr` requests with up to `max_sge` entries each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Arc<Self>> {
        // CAST: `u32` to `usize`, on 64 bits.
        let (max_wr, max_sge) = (max_wr as usize, max_sge as usize);
        let none = Head {
            wr: SendWr {
                wr_id: 0,
                op: SendOp::Send { imm: None },
                length: 0,
                signaled: false,
                solicited: false,
                fence: false,
            },
            shape: Shape::Scatter(0),
        };
        let lists = max_wr.checked_mul(max_sge).ok_or(ENOMEM)?;
        let queue = Queue {
            heads: KVVec::from_elem(none, max_wr, GFP_KERNEL_ACCOUNT)?,
            lists: KVVec::from_elem(Sge::default(), lists, GFP_KERNEL_ACCOUNT)?,
            max_sge,
            posted: 0,
            taken: 0,
        };
        Arc::pin_init(
            pin_init!(Self { queue <- new_spinlock_irq!(queue) }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Adds a request whose data is where `sges` says, or that is about keys; `wr` but for its length. For
    /// any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the scatter list is too long, in entries or in bytes; `ENOMEM` when more are posted
    /// than the queue pair was created for.
    pub(crate) fn push(&self, wr: SendWr, local: Option<Local>, sges: &SgeList<'_>) -> Result {
        self.queue.lock().push(wr, local, sges)
    }

    /// Takes the oldest request; its scatter list goes to the start of `list`. Returns it, and where
    /// its data is.
    pub(crate) fn take(&self, list: &mut [Sge]) -> Option<(SendWr, Shape)> {
        self.queue.lock().take(list)
    }

    /// Forgets what waits.
    pub(crate) fn clear(&self) {
        let mut queue = self.queue.lock();
        queue.taken = queue.posted;
    }
}

impl Queue {
    fn push(&mut self, wr: SendWr, local: Option<Local>, sges: &SgeList<'_>) -> Result {
        if sges.len() > self.max_sge {
            return Err(EINVAL);
        }
        if self.waiting() >= self.heads.len() {
            return Err(ENOMEM);
        }
        let slot = self.posted.checked_rem(self.heads.len()).ok_or(ENOMEM)?;
        let room = list(&mut self.lists, slot, self.max_sge);
        let room = room.get_mut(..sges.len()).ok_or(EINVAL)?;
        for (to, from) in room.iter_mut().zip(sges.iter()) {
            *to = Sge {
                addr: from.addr,
                length: from.length,
                lkey: from.lkey,
            };
        }
        let (shape, length) = match local {
            Some(local) => (Shape::Local(local), 0),
            None => {
                let length = abi::total_length(room).ok_or(EINVAL)?;
                // CAST: At most `max_sge`.
                (Shape::Scatter(room.len() as u32), length)
            }
        };
        let head = Head {
            wr: SendWr { length, ..wr },
            shape,
        };
        *self.heads.get_mut(slot).ok_or(ENOMEM)? = head;
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    fn take(&mut self, into: &mut [Sge]) -> Option<(SendWr, Shape)> {
        if self.waiting() == 0 {
            return None;
        }
        let slot = self.taken.checked_rem(self.heads.len())?;
        let head = self.heads.get(slot)?;
        let from = list(&mut self.lists, slot, self.max_sge);
        if let Shape::Scatter(entries) = head.shape {
            for (to, from) in into.get_mut(..entries as usize)?.iter_mut().zip(from) {
                *to = *from;
            }
        }
        self.taken = self.taken.wrapping_add(1);
        Some((head.wr, head.shape))
    }

    fn waiting(&self) -> usize {
        self.posted.wrapping_sub(self.taken)
    }
}

/// The room of one scatter list.
fn list(lists: &mut [Sge], slot: usize, max_sge: usize) -> &mut [Sge] {
    let start = slot.saturating_mul(max_sge);
    lists
        .get_mut(start..start.saturating_add(max_sge))
        .unwrap_or_default()
}
