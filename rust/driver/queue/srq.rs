// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! Receive engines of many QPs take receives, in process context or softirq; ULPs post in any context. The
//! verbs set the limit and resize the queue. One spinlock protects the queue: taking a receive copies at most
//! some hundred bytes.

use crate::{
    mem::pd::Pd,
    queue::recv_source::{
        RecvFifo,
        RecvSges,
        RecvSource,
        TakenRecv, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    }, //
};
use rdma::{
    ib::{
        attr::SrqAttr,
        event::SrqHandle,
        restrack::RestrackEntry,
        ring::Ring,
        wr, //
    },
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};

/// Receives that a resize copies before it releases the lock.
const RESIZE_STEP_ENTRIES: u32 = 64;

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    handle: SrqHandle,
    max_sge: u32,
    #[pin]
    state: SpinLockIrq<SrqState>,
}

/// State protected by the lock.
struct SrqState {
    source: RecvSource,
    /// Capacity reported to the consumer.
    max_wr: u32,
    /// The limit event is sent, once, when fewer receives than this wait; 0: not armed.
    limit: u32,
}

impl Srq {
    /// Creates a queue with the attributes `attr`. Its receives belong to `pd`.
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
                state <- new_spinlock_irq!(SrqState { source, max_wr, limit }, "ferroce::Srq"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the protection domain of the receives.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the maximum length of a scatter/gather list.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`. A
    /// receive that is too short remains for other QPs. Callable from any context.
    pub(crate) fn take(&self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        let mut state = self.state.lock();
        let Some(taken) = state.source.take(min_bytes, list)? else {
            return Ok(None);
        };
        let low = state.limit != 0 && state.source.len() < state.limit;
        if low {
            state.limit = 0;
        }
        drop(state);
        if low {
            self.handle.limit_reached();
        }
        Ok(Some(taken))
    }

    /// Adds a receive of a ULP. Callable from any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its list is too long, or the queue belongs to a process; `ENOMEM` if the queue is full.
    pub(crate) fn push(&self, wr: &wr::KernelRecvWr<'_>) -> Result {
        match &mut self.state.lock().source {
            RecvSource::Posted(fifo) => fifo.push(wr),
            RecvSource::Ring(_) => Err(EINVAL),
        }
    }

    /// Returns the attributes.
    pub(crate) fn query(&self) -> SrqAttr {
        let state = self.state.lock();
        SrqAttr {
            max_wr: state.max_wr,
            max_sge: self.max_sge,
            limit: state.limit,
        }
    }

    /// Reports details that the core does not know.
    pub(crate) fn describe(&self, details: &mut RestrackEntry) {
        let SrqAttr {
            max_wr,
            max_sge,
            limit,
        } = self.query();
        let waiting = self.state.lock().source.len();
        details.put(c"max_wr", max_wr.into());
        details.put(c"max_sge", max_sge.into());
        details.put(c"limit", limit.into());
        details.put(c"waiting", waiting.into());
    }

    /// Requests the limit event when fewer than `limit` receives wait; 0: never.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the limit exceeds the capacity.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        let mut state = self.state.lock();
        if limit > state.max_wr {
            return Err(EINVAL);
        }
        state.limit = limit;
        Ok(())
    }

    /// Copies the waiting receives to `ring`, and uses it from then on. QPs may take receives meanwhile, but
    /// the process must not post. One call at a time.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `ring` is too small for the waiting receives or the limit, or if the queue belongs to a
    /// ULP. The queue is unchanged.
    pub(crate) fn resize_ring(&self, ring: &Arc<Ring>) -> Result {
        let mut resize = None;
        loop {
            let mut state = self.state.lock();
            let state = &mut *state;
            if state.limit > ring.entries() {
                return Err(EINVAL);
            }
            let RecvSource::Ring(reader) = &mut state.source else {
                return Err(EINVAL);
            };
            let resize = resize.get_or_insert_with(|| reader.begin_resize(ring.clone()));
            if resize.step(reader, RESIZE_STEP_ENTRIES)? {
                state.max_wr = ring.entries();
                return Ok(());
            }
        }
    }

    /// Sets the capacity of a ULP's queue. The ULP may post meanwhile.
    ///
    /// # Errors
    ///
    /// As [`RecvFifo::resize`]; `EINVAL` if the capacity is below the limit, or the queue belongs to a
    /// process; `ENOMEM`.
    pub(crate) fn resize_posted(&self, max_wr: u32) -> Result {
        // Dropped after the lock is released.
        let mut spare = Some(RecvFifo::new(max_wr, self.max_sge)?);
        let mut state = self.state.lock();
        if state.limit > max_wr {
            return Err(EINVAL);
        }
        let RecvSource::Posted(fifo) = &mut state.source else {
            return Err(EINVAL);
        };
        fifo.resize(&mut spare)?;
        state.max_wr = max_wr;
        Ok(())
    }
}
