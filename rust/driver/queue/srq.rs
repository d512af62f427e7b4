// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! Receive engines of many QPs take receives, in process context or softirq; ULPs post in any context. The
//! verbs set the limit and resize the queue. One spinlock protects the queue: taking a receive copies at most
//! some hundred bytes.

use crate::{
    mem::pd::Pd,
    queue::{
        cq::Cq,
        producer::Producer,
        recv_source::{
            RecvSges,
            RingReader,
            TakenRecv, //
        },
        xrcd::Xrcd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
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

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    handle: SrqHandle,
    max_sge: u32,
    /// Of an SRQ of XRC: its domain, and the CQ of its receives.
    xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
    /// Its number in its port; 0: it has none.
    number: Atomic<u32>,
    #[pin]
    state: SpinLockIrq<SrqState>,
}

/// State protected by the lock.
struct SrqState {
    reader: RingReader,
    /// The producing end, for a kernel consumer.
    producer: Option<Producer>,
    /// Capacity reported to the consumer.
    max_wr: u32,
    /// The limit event is sent, once, when fewer receives than this wait; 0: not armed.
    limit: u32,
}

impl Srq {
    /// Creates a queue with the attributes `attr` on one ring, whose producing end is given for a kernel consumer. Its
    /// receives belong to `pd`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        pd: Arc<Pd>,
        handle: SrqHandle,
        attr: SrqAttr,
        xrc: Option<(Arc<Xrcd>, Arc<Cq>)>,
        (reader, producer): (RingReader, Option<Producer>),
    ) -> Result<Arc<Self>> {
        let SrqAttr {
            max_wr,
            max_sge,
            limit,
        } = attr;
        let state = SrqState {
            reader,
            producer,
            max_wr,
            limit,
        };
        Arc::pin_init(
            pin_init!(Self {
                pd,
                handle,
                max_sge,
                xrc,
                number: Atomic::new(0),
                state <- new_spinlock_irq!(state, "ferroce::Srq"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the protection domain of the receives.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the CQ of the receives, if this is an SRQ of XRC.
    pub(crate) fn cq(&self) -> Option<&Arc<Cq>> {
        self.xrc.as_ref().map(|(_, cq)| cq)
    }

    /// Sets the number of an SRQ of XRC.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }

    /// Returns the number of an SRQ of XRC.
    pub(crate) fn number(&self) -> Option<u32> {
        Some(self.number.load(Relaxed)).filter(|&number| number != 0)
    }

    /// Returns whether this is an SRQ of the XRC domain `xrcd`.
    pub(crate) fn is_in(&self, xrcd: &Arc<Xrcd>) -> bool {
        let own = self.xrc.as_ref();
        own.is_some_and(|(own, _)| Arc::ptr_eq(own, xrcd))
    }

    /// Returns the maximum length of a scatter/gather list.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive, for a message of `min_bytes`. Copies its scatter/gather list to `list`. A
    /// receive that is too short remains for other QPs. Callable from any context.
    pub(crate) fn take(&self, min_bytes: u32, list: &mut RecvSges) -> TakenRecv {
        let mut state = self.state.lock();
        let Some(taken) = state.reader.take(min_bytes, list)? else {
            return Ok(None);
        };
        let low = state.limit != 0 && state.reader.len() < state.limit;
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
        let producer = &mut self.state.lock().producer;
        producer.as_mut().ok_or(EINVAL)?.post_recv(wr)
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
        let waiting = self.state.lock().reader.len();
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

    /// Copies the waiting receives to `ring`, and uses it from then on, with a capacity of `max_wr`. QPs may take
    /// receives meanwhile, and a kernel consumer may post, but a process must not post. One call at a time.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the capacity is too small for the waiting receives or the limit. The queue is unchanged.
    pub(crate) fn resize(&self, ring: &Arc<Ring>, max_wr: u32) -> Result {
        let mut resize = None;
        loop {
            let mut state = self.state.lock();
            let state = &mut *state;
            if state.limit > max_wr {
                return Err(EINVAL);
            }
            let reader = &mut state.reader;
            let (resize, end) =
                resize.get_or_insert_with(|| reader.begin_resize(ring.clone(), max_wr));
            let end = state.producer.is_none().then_some(*end);
            let Some(producer) = reader.step_resize(resize, end)? else {
                continue;
            };
            if let Some(old) = &mut state.producer {
                *old = Producer::new(ring.clone(), producer, (max_wr, self.max_sge));
            }
            state.max_wr = max_wr;
            return Ok(());
        }
    }
}
