// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! Owns the supply that many queue pairs take from, the limit below which the consumer wants to be
//! told, and the change to a ring of another size. Does not know the queue pairs. One lock: each
//! take copies some hundred bytes at most, and what it copies must be gone for everyone else.

use crate::{
    mem::pd::Pd,
    queue::recv_source::{
        RecvFifo,
        RecvSges,
        RecvSource,
        Taken, //
    }, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::ib::{
    attr::SrqAttr,
    event::SrqHandle,
    restrack::Details,
    ring::Ring,
    wr, //
};

/// Elements that a resize moves before it lets others have the lock.
const CHUNK: u32 = 64;

/// One shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    handle: SrqHandle,
    max_sge: u32,
    #[pin]
    stock: SpinLockIrq<SrqState>,
}

/// What the lock guards.
struct SrqState {
    source: RecvSource,
    /// What the consumer was promised room for.
    max_wr: u32,
    /// The consumer is told, once, when fewer receives than these wait; 0: not.
    limit: u32,
}

impl Srq {
    /// A queue with the room that `attr` says, whose memory belongs to `pd`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        pd: Arc<Pd>,
        handle: SrqHandle,
        attr: SrqAttr,
        source: RecvSource,
    ) -> Result<Arc<Self>> {
        let SrqAttr {
            max_wr,
            max_sge,
            limit,
        } = attr;
        Arc::pin_init(
            pin_init!(Self {
                pd,
                handle,
                max_sge,
                stock <- new_spinlock_irq!(SrqState { source, max_wr, limit }, "ferroce::Srq"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The protection domain that the memory of receives belongs to.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Most entries of a scatter list.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive, for a message of `least` bytes; its scatter list goes to `list`. One that is too short
    /// stays for others. For any context.
    pub(crate) fn take(&self, least: u32, list: &mut RecvSges) -> Taken {
        let mut stock = self.stock.lock();
        let Some(taken) = stock.source.take(least, list)? else {
            return Ok(None);
        };
        let low = stock.limit != 0 && stock.source.len() < stock.limit;
        if low {
            stock.limit = 0;
        }
        drop(stock);
        if low {
            self.handle.limit_reached();
        }
        Ok(Some(taken))
    }

    /// Adds a receive of a consumer in the kernel. For any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its scatter list is too long, or if the queue is a process's; `ENOMEM` if there is
    /// no room.
    pub(crate) fn push(&self, wr: &wr::KernelRecvWr<'_>) -> Result {
        match &mut self.stock.lock().source {
            RecvSource::Posted(posts) => posts.push(wr),
            RecvSource::Ring(_) => Err(EINVAL),
        }
    }

    /// What there is to know of it.
    pub(crate) fn query(&self) -> SrqAttr {
        let stock = self.stock.lock();
        SrqAttr {
            max_wr: stock.max_wr,
            max_sge: self.max_sge,
            limit: stock.limit,
        }
    }

    /// Tells what the core does not know of it.
    pub(crate) fn describe(&self, details: &mut Details) {
        let SrqAttr {
            max_wr,
            max_sge,
            limit,
        } = self.query();
        let waiting = self.stock.lock().source.len();
        details.put(c"max_wr", max_wr.into());
        details.put(c"max_sge", max_sge.into());
        details.put(c"limit", limit.into());
        details.put(c"waiting", waiting.into());
    }

    /// Has the consumer told when fewer than `limit` receives wait; 0: not.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than there can be.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        let mut stock = self.stock.lock();
        if limit > stock.max_wr {
            return Err(EINVAL);
        }
        stock.limit = limit;
        Ok(())
    }

    /// Moves what waits to `ring`, and takes from there from now on. Queue pairs go on taking
    /// meanwhile; the process must not post. One call at a time.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `ring` is too small for what waits, or for the limit; or if the queue is one of the
    /// kernel's. The queue is as it was.
    pub(crate) fn resize_ring(&self, ring: &Arc<Ring>) -> Result {
        let mut moving = None;
        loop {
            let mut stock = self.stock.lock();
            let stock = &mut *stock;
            if stock.limit > ring.entries() {
                return Err(EINVAL);
            }
            let RecvSource::Ring(reader) = &mut stock.source else {
                return Err(EINVAL);
            };
            let moving = moving.get_or_insert_with(|| reader.begin_move(ring.clone()));
            if moving.step(reader, CHUNK)? {
                stock.max_wr = ring.entries();
                return Ok(());
            }
        }
    }

    /// Has room for `max_wr` receives of a consumer in the kernel, who may post meanwhile.
    ///
    /// # Errors
    ///
    /// As [`RecvFifo::resize`]; `EINVAL` for less than the limit, or if the queue is a process's;
    /// `ENOMEM`.
    pub(crate) fn resize_posts(&self, max_wr: u32) -> Result {
        // Dropped after the lock is released.
        let mut room = Some(RecvFifo::new(max_wr, self.max_sge)?);
        let mut stock = self.stock.lock();
        if stock.limit > max_wr {
            return Err(EINVAL);
        }
        let RecvSource::Posted(posts) = &mut stock.source else {
            return Err(EINVAL);
        };
        posts.resize(&mut room)?;
        stock.max_wr = max_wr;
        Ok(())
    }
}
