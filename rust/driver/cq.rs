// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Owns the producing end: where the next completion goes, whether the consumer asked to be woken,
//! and what happens when there is no room (`IB_EVENT_CQ_ERR`, once, and the producer is told).
//! Does not know queue pairs. Completion handlers run outside the lock.

use crate::{
    abi::Cqe,
    fifo::Fifo, //
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
    event::{
        CqHandle,
        Notify, //
    },
    ring::Ring,
    wc::Wc, //
};

/// Most completions of one queue.
pub(crate) const MAX_CQE: u32 = (1 << 20) - 1;

/// The queue had no room: the completion is not in it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Overflow;

/// One completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: CqHandle,
    #[pin]
    queue: SpinLockIrq<Queue>,
}

/// What the lock guards.
struct Queue {
    entries: Entries,
    /// What the consumer waits for.
    armed: Option<Notify>,
    /// `IB_EVENT_CQ_ERR` was raised: the consumer has lost completions.
    overflowed: bool,
}

/// Where completions stand until they are polled.
enum Entries {
    /// In a ring that user space reads.
    User {
        ring: Arc<Ring>,
        /// Next element to write, masked; the ring holds the published copy.
        producer: u32,
    },
    /// In our memory, for a consumer in the kernel.
    Kernel(Fifo<Wc>),
}

impl Cq {
    /// A queue in a ring that user space reads.
    pub(crate) fn user(handle: CqHandle, ring: Arc<Ring>) -> impl PinInit<Self, Error> {
        Self::with(handle, Entries::User { ring, producer: 0 })
    }

    /// A queue of `entries` completions for a consumer in the kernel.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn kernel(handle: CqHandle, entries: u32) -> Result<impl PinInit<Self, Error>> {
        Ok(Self::with(handle, Entries::Kernel(Fifo::new(entries)?)))
    }

    fn with(handle: CqHandle, entries: Entries) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            handle,
            queue <- new_spinlock_irq!(Queue {
                entries,
                armed: None,
                overflowed: false,
            }),
        })
    }

    /// Adds a completion and wakes the consumer if it waits for one of this kind.
    ///
    /// `urgent`: the sender asked for an event, or this is an error.
    ///
    /// # Errors
    ///
    /// [`Overflow`] when the consumer has left no room.
    pub(crate) fn push(&self, wc: &Wc, urgent: bool) -> Result<(), Overflow> {
        let mut queue = self.queue.lock();
        let pushed = queue.entries.push(wc);
        let first_loss = pushed.is_err() && !queue.overflowed;
        queue.overflowed |= pushed.is_err();
        let wake = pushed.is_ok()
            && match queue.armed {
                Some(Notify::Any) => true,
                Some(Notify::Solicited) => urgent,
                None => false,
            };
        if wake {
            queue.armed = None;
        }
        drop(queue);

        if wake {
            self.handle.notify();
        }
        if first_loss {
            self.handle.overflowed();
        }
        pushed
    }

    /// Arms the queue; says whether completions are waiting already.
    pub(crate) fn arm(&self, what: Notify) -> bool {
        let mut queue = self.queue.lock();
        queue.armed = match (queue.armed, what) {
            // The wider wish stays until it is met.
            (Some(Notify::Any), _) => Some(Notify::Any),
            (_, what) => Some(what),
        };
        !queue.entries.is_empty()
    }

    /// Takes the oldest completion of a consumer in the kernel.
    pub(crate) fn pop(&self) -> Option<Wc> {
        match &mut self.queue.lock().entries {
            Entries::Kernel(fifo) => fifo.pop(),
            Entries::User { .. } => None,
        }
    }
}

impl Entries {
    fn push(&mut self, wc: &Wc) -> Result<(), Overflow> {
        match self {
            Self::User { ring, producer } => {
                let next = producer.wrapping_add(1) & ring.mask();
                if next == ring.consumer() {
                    return Err(Overflow);
                }
                ring.write(*producer, Cqe::new(wc).as_bytes());
                ring.publish_producer(next);
                *producer = next;
                Ok(())
            }
            Self::Kernel(fifo) => fifo.push(*wc).map_err(|_| Overflow),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::User { ring, producer } => *producer == ring.consumer(),
            Self::Kernel(fifo) => fifo.is_empty(),
        }
    }
}
