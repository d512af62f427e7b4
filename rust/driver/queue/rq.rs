// SPDX-License-Identifier: GPL-2.0

//! The receives of one QP, from its own RQ, an SRQ, or the SRQs of an XRC domain.
//!
//! The receive engine owns a [`RecvQueue`], in process context or softirq. It holds a private copy of the
//! scatter/gather list of the receive in progress. When the QP fails, its own receives are flushed, in steps;
//! those of an SRQ remain for other QPs.

use crate::{
    mem::{
        pd::Pd,
        sge::Sge, //
    },
    queue::{
        producer::Posts,
        recv_source::{
            RecvSges,
            RingReader,
            TakenRecv, //
        },
        srq::Srq, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::sync::exclusive::More;
use roce::wr::{
    BadRecv,
    RecvWr, //
};

/// Shortest delay between two polls of the ring of a failed QP.
const MIN_FLUSH_DELAY_NS: u64 = 1_000_000;

/// Longest delay between two polls: each delay is twice the previous one.
const MAX_FLUSH_DELAY_NS: u64 = 128_000_000;

/// Where the receives of a QP come from.
pub(crate) enum RqSource {
    /// A ring for this QP alone, with its producing end if it is of a kernel consumer.
    Own(RingReader, Option<Arc<Posts>>),
    /// An SRQ.
    Shared(Arc<Srq>),
    /// The QP is one of XRC. Its peer names an SRQ with each request.
    Named,
}

/// The receives of one QP.
pub(crate) struct RecvQueue {
    source: RqSource,
    current: RecvSges,
    /// Last WQE Reached was handled since the QP failed.
    last_wqe_taken: bool,
    /// Delay between the last two polls of the ring of the failed QP, in nanoseconds.
    flush_delay_ns: u64,
}

impl RecvQueue {
    /// Creates the queue of receives from `source`, with up to `max_sge` SGEs each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(source: RqSource, max_sge: u32) -> Result<Self> {
        Ok(Self {
            source,
            current: RecvSges::new(max_sge)?,
            last_wqe_taken: false,
            flush_delay_ns: 0,
        })
    }

    /// Takes the next receive. Its scatter/gather list becomes the current one.
    ///
    /// `None`: the consumer has posted no more. An invalid receive comes with its completion status.
    pub(crate) fn take(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        // No receive is too short for an empty message.
        self.take_for(0).ok().flatten()
    }

    /// As [`RecvQueue::take`], for a message of `min_bytes`.
    ///
    /// # Errors
    ///
    /// If the next receive is too short: it remains the next, and the current list is invalid.
    pub(crate) fn take_for(&mut self, min_bytes: u32) -> TakenRecv {
        let list = &mut self.current;
        match &mut self.source {
            RqSource::Own(reader, _) => reader.take(min_bytes, list),
            RqSource::Shared(srq) => srq.take(min_bytes, list),
            RqSource::Named => Ok(None),
        }
    }

    /// As [`RecvQueue::take`], from the SRQ that the peer has named.
    pub(crate) fn take_from(&mut self, srq: &Srq) -> Option<Result<RecvWr, BadRecv>> {
        self.current.set_max_sge(srq.max_sge());
        srq.take(0, &mut self.current).ok().flatten()
    }

    /// Returns the scatter/gather list of the receive taken last.
    pub(crate) fn current(&self) -> &[Sge] {
        self.current.entries()
    }

    /// Returns the protection domain of the receives, if it is not that of the QP.
    pub(crate) fn pd(&self) -> Option<&Arc<Pd>> {
        match &self.source {
            RqSource::Shared(srq) => Some(srq.pd()),
            _ => None,
        }
    }

    /// Flushes the RQ of a failed QP: calls `each` with the identifier of each receive, up to `budget` of
    /// them. Returns whether there may be more.
    pub(crate) fn flush(&mut self, budget: u16, mut each: impl FnMut(u64)) -> More {
        if let RqSource::Shared(_) | RqSource::Named = self.source {
            return More::No;
        }
        for _ in 0..budget {
            let Some(taken) = self.take() else {
                return More::No;
            };
            let (Ok(RecvWr { wr_id, .. }) | Err(BadRecv { wr_id, .. })) = taken;
            each(wr_id);
            self.flush_delay_ns = 0;
        }
        More::Yes
    }

    /// Returns whether to report Last WQE Reached: the failed QP takes no more receives from its SRQ. True
    /// once for each failure.
    pub(crate) fn take_last_wqe_event(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.last_wqe_taken, true);
        first && matches!(self.source, RqSource::Shared(_))
    }

    /// Returns the delay after which to flush again. A process posts without notifying the kernel, and
    /// receives posted to a failed QP must complete, too (IBA 10.3.1): so the ring is polled.
    pub(crate) fn next_flush_delay_ns(&mut self) -> Option<u64> {
        let RqSource::Own(_, None) = self.source else {
            return None;
        };
        self.flush_delay_ns = self
            .flush_delay_ns
            .saturating_mul(2)
            .clamp(MIN_FLUSH_DELAY_NS, MAX_FLUSH_DELAY_NS);
        Some(self.flush_delay_ns)
    }

    /// Discards the receives posted to this QP, which goes to RESET.
    pub(crate) fn clear(&mut self) {
        match &mut self.source {
            RqSource::Own(reader, posts) => {
                if let Some(posts) = posts {
                    posts.settle();
                }
                reader.clear();
            }
            RqSource::Shared(_) | RqSource::Named => {}
        }
        self.current.clear();
        self.last_wqe_taken = false;
        self.flush_delay_ns = 0;
    }
}
