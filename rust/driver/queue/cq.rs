// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Owns the producing end: where the next completion goes, whether the consumer asked to be woken,
//! and what happens when there is no room (`IB_EVENT_CQ_ERR`, once, and the producer is told).
//! Does not know queue pairs. Completion handlers run outside the lock.

use crate::{
    abi::cqe::Cqe,
    queue::{
        cq_moderation::{
            ModerationParams,
            Moderator, //
        },
        fifo::Fifo, //
    }, //
};
use kernel::{
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLockIrq, //
    }, //
};
use rdma::ib::{
    event::{
        CqHandle,
        Notify,
        QpToken, //
    },
    mmap::MmapInfo,
    restrack::Details,
    ring::Ring,
    udata::UserContext,
    wc::Wc, //
};

/// Completions that a resize moves, or a removal looks at, before it releases the lock.
const STEP_ENTRIES: u32 = 64;

/// The queue had no room: the completion is not in it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Overflow;

/// One completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: CqHandle,
    moderator: Arc<Moderator>,
    #[pin]
    queue: SpinLockIrq<Queue>,
    /// Held while completions of one queue pair are removed.
    #[pin]
    removal: Mutex<()>,
}

/// What the lock guards.
struct Queue {
    entries: CqEntries,
    /// What the consumer waits for.
    armed: Option<Notify>,
    /// How long it waits.
    patience: ModerationParams,
    /// `IB_EVENT_CQ_ERR` was raised: the consumer has lost completions.
    overflowed: bool,
}

/// Where completions stand until they are polled.
enum CqEntries {
    /// In a ring that user space reads.
    User {
        ring: Arc<Ring>,
        /// Where user space finds the ring.
        info: MmapInfo,
        /// Next element to write, masked; the ring holds the published copy.
        producer: u32,
    },
    /// In our memory, for a consumer in the kernel.
    Kernel(Fifo<Wc>),
}

impl Cq {
    /// A queue of `entries` completions at least, in a ring that `user` may map; and how many fit.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EFAULT`: the answer cannot be given; `ENOMEM`.
    pub(crate) fn user<U>(
        handle: CqHandle,
        entries: u32,
        user: &mut UserContext<U>,
    ) -> Result<(Arc<Self>, u32)> {
        let (ring, info) = offer(entries, user)?;
        let entries = ring.entries();
        let queue = CqEntries::User {
            ring,
            info,
            producer: 0,
        };
        Ok((Self::with(handle, queue)?, entries))
    }

    /// A queue of `entries` completions for a consumer in the kernel.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn kernel(handle: CqHandle, entries: u32) -> Result<Arc<Self>> {
        Self::with(handle, CqEntries::Kernel(Fifo::new(entries)?))
    }

    fn with(handle: CqHandle, entries: CqEntries) -> Result<Arc<Self>> {
        let moderator = Moderator::new(handle.clone())?;
        let queue = Queue {
            entries,
            armed: None,
            patience: ModerationParams::default(),
            overflowed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                moderator,
                handle,
                queue <- new_spinlock_irq!(queue, "ferroce::Cq"),
                removal <- new_mutex!((), "ferroce::Cq::removal"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Makes room for `entries` completions at least, in a ring that `user` may map; returns how many
    /// fit. Completions go on coming meanwhile; the process must not take any. One call at a time.
    ///
    /// A queue never becomes smaller: what is on its way to it has to find the room that there was when
    /// it was asked for. Who asks for less is told to map the same ring again.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EFAULT`: the answer cannot be given; `ENOMEM`. The queue is as it was.
    pub(crate) fn resize<U>(&self, entries: u32, user: &mut UserContext<U>) -> Result<u32> {
        let (present, info) = match &self.queue.lock().entries {
            CqEntries::User { ring, info, .. } => (ring.entries(), *info),
            CqEntries::Kernel(_) => return Err(EINVAL),
        };
        if entries <= present {
            user.respond(&info)?;
            return Ok(present);
        }
        let (ring, info) = offer(entries, user)?;
        let entries = ring.entries();
        let mut moving = CqResize {
            ring,
            info,
            next: None,
            moved: 0,
        };
        while !moving.step(&mut self.queue.lock().entries)? {}
        Ok(entries)
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
        let patience = queue.patience;
        drop(queue);

        if patience.is_some() {
            self.moderator.as_arc_borrow().completed(wake, patience);
        } else if wake {
            self.handle.notify();
        }
        if first_loss {
            self.handle.overflowed();
        }
        pushed
    }

    /// Lets events wait for more completions.
    pub(crate) fn set_patience(&self, patience: ModerationParams) {
        self.queue.lock().patience = patience;
        // What was kept back by other rules must not wait for ever.
        self.moderator.release();
    }

    /// Ends it: nothing completes any more. Sleeps.
    pub(crate) fn stop(&self) {
        self.moderator.stop();
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

    /// Tells what the core does not know of it.
    pub(crate) fn describe(&self, details: &mut Details) {
        let queue = self.queue.lock();
        let (room, waiting) = (queue.entries.room(), queue.entries.len());
        let (armed, overflowed) = (queue.armed.is_some(), queue.overflowed);
        drop(queue);
        details.put(c"room", room.into());
        details.put(c"waiting", waiting.into());
        details.put(c"armed", armed.into());
        details.put(c"overflowed", overflowed.into());
    }

    /// Removes the completions of this queue pair, which is being destroyed and completes nothing more: to a kernel
    /// consumer, they name it by its address. Releases the lock after every few completions. Sleeps.
    pub(crate) fn forget(&self, qp: QpToken) {
        let _one_at_a_time = self.removal.lock();
        if let CqEntries::Kernel(fifo) = &mut self.queue.lock().entries {
            fifo.begin_removal();
        }
        loop {
            let complete = match &mut self.queue.lock().entries {
                CqEntries::Kernel(fifo) => fifo.remove_step(STEP_ENTRIES, |wc| wc.qp == qp),
                CqEntries::User { .. } => true,
            };
            if complete {
                return;
            }
        }
    }

    /// Takes the oldest completion of a consumer in the kernel.
    pub(crate) fn pop(&self) -> Option<Wc> {
        match &mut self.queue.lock().entries {
            CqEntries::Kernel(fifo) => fifo.pop(),
            CqEntries::User { .. } => None,
        }
    }
}

impl CqEntries {
    fn push(&mut self, wc: &Wc) -> Result<(), Overflow> {
        match self {
            Self::User { ring, producer, .. } => {
                let write = |index| ring.write(index, Cqe::new(wc).as_bytes());
                ring.push(producer, write).ok_or(Overflow)
            }
            Self::Kernel(fifo) => fifo.push(*wc).map_err(|_| Overflow),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Completions that wait, as far as user space can be believed.
    fn len(&self) -> u32 {
        match self {
            Self::User { ring, producer, .. } => ring.distance(ring.consumer(), *producer),
            Self::Kernel(fifo) => fifo.len(),
        }
    }

    /// Most completions that can wait.
    fn room(&self) -> u32 {
        match self {
            Self::User { ring, .. } => ring.entries(),
            Self::Kernel(fifo) => fifo.capacity(),
        }
    }
}

/// A ring for `entries` completions at least, which `user` may map, and is told so.
fn offer<U>(entries: u32, user: &mut UserContext<U>) -> Result<(Arc<Ring>, MmapInfo)> {
    let ring = Arc::new(Ring::new(Cqe::ELEMENT_BYTES, entries)?, GFP_KERNEL_ACCOUNT)?;
    let info = user.map_ring(&ring)?;
    user.respond(&info)?;
    Ok((ring, info))
}

/// The move of what waits to a larger ring, a part at a time.
struct CqResize {
    ring: Arc<Ring>,
    info: MmapInfo,
    /// The next element of the old ring.
    next: Option<u32>,
    moved: u32,
}

impl CqResize {
    /// Moves a part. Says whether that was all: then the queue goes on in the new ring, and the old
    /// one is here.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more waits than can: the process takes completions all the same.
    fn step(&mut self, entries: &mut CqEntries) -> Result<bool> {
        let CqEntries::User {
            ring,
            info,
            producer,
        } = entries
        else {
            return Err(EINVAL);
        };
        let mut next = self.next.unwrap_or_else(|| ring.consumer());
        for _ in 0..STEP_ENTRIES {
            if next == *producer {
                self.ring.publish_producer(self.moved);
                core::mem::swap(ring, &mut self.ring);
                (*info, *producer) = (self.info, self.moved);
                return Ok(true);
            }
            if self.moved == self.ring.entries() {
                return Err(EINVAL);
            }
            ring.copy_element(next, &self.ring, self.moved);
            next = ring.after(next);
            self.moved = self.moved.wrapping_add(1);
        }
        self.next = Some(next);
        Ok(false)
    }
}
