// SPDX-License-Identifier: GPL-2.0

//! Where the receives of a queue pair come from, whatever its service.
//!
//! Owns the choice of the source, a private copy of the scatter list of the one receive that is in
//! progress, and what is left of the source when the queue pair fails: its own receives are
//! flushed, a part at a time; those of a shared queue stay there for others. Does not know what arrives.

use crate::{
    abi::wqe::WqeSge,
    mem::pd::Pd,
    queue::{
        recv_source::{
            RecvFifo,
            RecvSges,
            RingReader,
            Taken, //
        },
        srq::Srq, //
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
use rdma::{
    ib::wr,
    sync::exclusive::More, //
};
use roce::wr::{
    BadRecv,
    RecvWr, //
};

/// Receives that a consumer in the kernel has posted to one queue pair.
#[pin_data]
pub(crate) struct PostedRecvs {
    #[pin]
    posts: SpinLockIrq<RecvFifo>,
}

impl PostedRecvs {
    /// Room for `max_wr` receives with up to `max_sge` entries each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Arc<Self>> {
        let posts = RecvFifo::new(max_wr, max_sge)?;
        Arc::pin_init(
            pin_init!(Self { posts <- new_spinlock_irq!(posts, "ferroce::PostedRecvs") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Adds a receive. `open`: whether receives are taken now. For any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not, or if its scatter list is too long; `ENOMEM` when more are posted than the queue pair
    /// was created for.
    pub(crate) fn push(&self, open: impl FnOnce() -> bool, wr: &wr::KernelRecvWr<'_>) -> Result {
        let mut posts = self.posts.lock();
        // Asked here, as of sends.
        if !open() {
            return Err(EINVAL);
        }
        posts.push(wr)
    }
}

/// How soon to look into the ring of a failed queue pair again, in nanoseconds: at first, and at last.
const FIRST_LOOK: u64 = 1_000_000;
const LAST_LOOK: u64 = 128_000_000;

/// Where receives come from.
pub(crate) enum RqSource {
    /// A ring of a process, which nobody else reads.
    Ring(RingReader),
    /// Posts of a consumer in the kernel, for this queue pair alone.
    Posted(Arc<PostedRecvs>),
    /// A queue that other queue pairs use as well.
    Shared(Arc<Srq>),
}

/// The receives of one queue pair.
pub(crate) struct RecvQueue {
    source: RqSource,
    current: RecvSges,
    /// The queue pair has failed, and what follows from that is done.
    flushed: bool,
    /// The time between the last two looks into the ring of the failed queue pair, in nanoseconds.
    look: u64,
}

impl RecvQueue {
    /// The receives that come from `source`, with up to `max_sge` entries each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(source: RqSource, max_sge: u32) -> Result<Self> {
        Ok(Self {
            source,
            current: RecvSges::new(max_sge)?,
            flushed: false,
            look: 0,
        })
    }

    /// Takes the next receive; its scatter list becomes the current one.
    ///
    /// `None`: the consumer has posted no more. A receive that cannot be used comes with the
    /// status that it completes with.
    pub(crate) fn take(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        // None is too short for nothing.
        self.take_for(0).ok().flatten()
    }

    /// As [`RecvQueue::take`], for a message of `least` bytes.
    ///
    /// # Errors
    ///
    /// If it is too short: then it stays the next, and the current scatter list is nobody's.
    pub(crate) fn take_for(&mut self, least: u32) -> Taken {
        let list = &mut self.current;
        match &mut self.source {
            RqSource::Ring(ring) => ring.take(least, list),
            RqSource::Posted(posted) => posted.posts.lock().take(least, list),
            RqSource::Shared(srq) => srq.take(least, list),
        }
    }

    /// Scatter list of the receive that was taken last.
    pub(crate) fn current(&self) -> &[WqeSge] {
        self.current.entries()
    }

    /// The protection domain that the memory of receives belongs to, if it is not that of the queue
    /// pair.
    pub(crate) fn pd(&self) -> Option<&Arc<Pd>> {
        match &self.source {
            RqSource::Shared(srq) => Some(srq.pd()),
            _ => None,
        }
    }

    /// The queue pair has failed: calls `each` with the identifier of each receive of its own, of up to `most`.
    /// Says whether there may be more.
    pub(crate) fn flush(&mut self, most: u16, mut each: impl FnMut(u64)) -> More {
        if let RqSource::Shared(_) = self.source {
            return More::No;
        }
        for _ in 0..most {
            let Some(taken) = self.take() else {
                return More::No;
            };
            let (Ok(RecvWr { wr_id, .. }) | Err(BadRecv { wr_id, .. })) = taken;
            each(wr_id);
            self.look = 0;
        }
        More::Yes
    }

    /// The queue pair has failed: whether the consumer is to hear that no more receives are taken from the
    /// shared queue ("Last WQE Reached"). Once for each failure.
    pub(crate) fn take_last(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.flushed, true);
        first && matches!(self.source, RqSource::Shared(_))
    }

    /// In how many nanoseconds to flush again, when there was no more. A process posts without telling the kernel,
    /// and what it posts to a failed queue pair completes, too (IBA 10.3.1): so its ring is looked into now and then.
    pub(crate) fn flush_again_in(&mut self) -> Option<u64> {
        let RqSource::Ring(_) = self.source else {
            return None;
        };
        self.look = self.look.saturating_mul(2).clamp(FIRST_LOOK, LAST_LOOK);
        Some(self.look)
    }

    /// Forgets what was posted to this queue pair: it goes to RESET.
    pub(crate) fn clear(&mut self) {
        match &mut self.source {
            RqSource::Ring(ring) => ring.clear(),
            RqSource::Posted(posted) => posted.posts.lock().clear(),
            RqSource::Shared(_) => {}
        }
        self.current.clear();
        self.flushed = false;
        self.look = 0;
    }
}
