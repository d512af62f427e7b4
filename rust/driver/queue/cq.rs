// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Engines push completions in process context or softirq. A process polls the ring without the kernel; a ULP
//! polls with [`Cq::pop`]. The `queue` spinlock protects the state, and completion handlers run outside it.
//! If the consumer leaves no space, the push fails and the CQ raises `IB_EVENT_CQ_ERR` once.

use crate::{
    abi::cqe::Cqe,
    queue::{
        cq_moderation::{
            CqEvent,
            ModerationParams,
            Moderator, //
        },
        fifo::Fifo, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    }, //
};
use rdma::{
    ib::{
        event::{
            CqHandle,
            Notify,
            QpToken, //
        },
        mmap::MmapInfo,
        restrack::RestrackEntry,
        ring::Ring,
        udata::UserContext,
        wc::Wc, //
    },
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};

/// A ULP that takes no more completions than this per event is told of the next one on the CPU where it happens:
/// another CPU would have to be interrupted, and perhaps woken, for little work.
const FEW_COMPLETIONS: u32 = 2;

/// Completions that a resize copies, or a removal examines, before it releases the lock.
const STEP_ENTRIES: u32 = 64;

/// The CQ is full. The completion is lost.
#[derive(Debug)]
#[must_use]
pub(crate) struct Overflow;

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: CqHandle,
    moderator: Arc<Moderator>,
    #[pin]
    queue: SpinLockIrq<Queue>,
    /// The ULP took few completions before it armed the CQ.
    is_quiet: Atomic<bool>,
    /// Serializes removals of completions.
    #[pin]
    removal: Mutex<()>,
}

/// State protected by the lock.
struct Queue {
    entries: CqEntries,
    /// Kind of completion that the consumer armed the CQ for.
    armed: Option<Notify>,
    /// Completions that a ULP has taken since it armed the CQ.
    popped: u32,
    /// Limits of the delay of events.
    moderation: ModerationParams,
    /// `IB_EVENT_CQ_ERR` was raised: completions were lost.
    overflowed: bool,
}

/// Storage of completions until they are polled.
enum CqEntries {
    /// A ring that user space reads.
    User {
        ring: Arc<Ring>,
        /// Position of the ring in user space's mappings.
        info: MmapInfo,
        /// Next element to write, masked. The ring holds the published copy.
        producer: u32,
    },
    /// Kernel memory, for a ULP.
    Kernel(Fifo<Wc>),
}

impl Cq {
    /// Creates a CQ of at least `entries` completions, in a ring that `user` can map. Also returns its
    /// capacity.
    ///
    /// # Errors
    ///
    /// `EINVAL`; `EFAULT` if the response cannot be written; `ENOMEM`.
    pub(crate) fn user<U>(
        handle: CqHandle,
        entries: u32,
        user: &mut UserContext<U>,
    ) -> Result<(Arc<Self>, u32)> {
        let (ring, info) = create_user_ring(entries, user)?;
        let entries = ring.entries();
        let queue = CqEntries::User {
            ring,
            info,
            producer: 0,
        };
        Ok((Self::new(handle, queue)?, entries))
    }

    /// Creates a CQ of `entries` completions for a ULP.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn kernel(handle: CqHandle, entries: u32) -> Result<Arc<Self>> {
        Self::new(handle, CqEntries::Kernel(Fifo::new(entries)?))
    }

    fn new(handle: CqHandle, entries: CqEntries) -> Result<Arc<Self>> {
        let moderator = Moderator::new(handle.clone())?;
        let queue = Queue {
            entries,
            armed: None,
            popped: 0,
            moderation: ModerationParams::default(),
            overflowed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                moderator,
                handle,
                queue <- new_spinlock_irq!(queue, "ferroce::Cq"),
                is_quiet: Atomic::new(false),
                removal <- new_mutex!((), "ferroce::Cq::removal"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Grows the ring to at least `entries` completions, and returns its capacity. Completions may be pushed
    /// meanwhile, but the process must not poll. One call at a time.
    ///
    /// A CQ never shrinks: completions in flight rely on the capacity that the consumer asked for. A request
    /// for less returns the same ring to map again.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more completions wait than `entries`, or the process polls meanwhile; `EFAULT` if the response
    /// cannot be written; `ENOMEM`. The CQ is unchanged.
    pub(crate) fn resize<U>(&self, entries: u32, user: &mut UserContext<U>) -> Result<u32> {
        let (current, waiting, info) = match &self.queue.lock().entries {
            queue @ CqEntries::User { ring, info, .. } => (ring.entries(), queue.len(), *info),
            CqEntries::Kernel(_) => return Err(EINVAL),
        };
        if waiting > entries {
            return Err(EINVAL);
        }
        if entries <= current {
            user.respond(&info)?;
            return Ok(current);
        }
        let (ring, info) = create_user_ring(entries, user)?;
        let entries = ring.entries();
        let mut resize = CqResize {
            ring,
            info,
            next: None,
            copied: 0,
        };
        while !resize.step(&mut self.queue.lock().entries)? {}
        // There is room again: the next loss is another one.
        self.queue.lock().overflowed = false;
        Ok(entries)
    }

    /// Adds a completion. If the result is [`CqEvent::Due`], the CQ is armed for it, and the caller must call
    /// [`Cq::notify`] soon: it may add more completions first, which the same event reports.
    ///
    /// `urgent`: the sender requested a solicited event, or the completion is an error.
    ///
    /// # Errors
    ///
    /// [`Overflow`] if the CQ is full.
    pub(crate) fn push(&self, wc: &Wc, urgent: bool) -> Result<CqEvent, Overflow> {
        let mut queue = self.queue.lock();
        let pushed = queue.entries.push(wc);
        let first_loss = pushed.is_err() && !queue.overflowed;
        queue.overflowed |= pushed.is_err();
        let notify = pushed.is_ok()
            && match queue.armed {
                Some(Notify::Any) => true,
                Some(Notify::Solicited) => urgent,
                None => false,
            };
        if notify {
            queue.armed = None;
        }
        let moderation = queue.moderation;
        drop(queue);

        let mut event = match notify {
            true => CqEvent::Due,
            false => CqEvent::None,
        };
        if moderation.is_enabled() {
            let moderator = self.moderator.as_arc_borrow();
            event = moderator.on_completion(notify, moderation);
        }
        if first_loss {
            self.handle.overflowed();
        }
        pushed.map(|()| event)
    }

    /// Notifies the consumer. The caller must hold no lock.
    pub(crate) fn notify(&self) {
        self.handle.notify(self.is_quiet.load(Relaxed));
    }

    /// Sets the limits of the delay of events.
    pub(crate) fn set_moderation(&self, moderation: ModerationParams) {
        self.queue.lock().moderation = moderation;
        // An event delayed under the old limits must not wait forever.
        self.moderator.notify_pending();
    }

    /// Stops delayed events, before destruction. No completion may be pushed afterwards. Sleeps.
    pub(crate) fn stop(&self) {
        self.moderator.stop();
    }

    /// Arms the CQ. Returns whether completions are waiting already.
    pub(crate) fn arm(&self, notify: Notify) -> bool {
        let mut queue = self.queue.lock();
        queue.armed = match (queue.armed, notify) {
            // The wider request remains until it is satisfied.
            (Some(Notify::Any), _) => Some(Notify::Any),
            (_, notify) => Some(notify),
        };
        let popped = core::mem::take(&mut queue.popped);
        self.is_quiet.store(popped <= FEW_COMPLETIONS, Relaxed);
        !queue.entries.is_empty()
    }

    /// Reports details that the core does not know.
    pub(crate) fn describe(&self, details: &mut RestrackEntry) {
        let queue = self.queue.lock();
        let (capacity, waiting) = (queue.entries.capacity(), queue.entries.len());
        let (armed, overflowed) = (queue.armed.is_some(), queue.overflowed);
        drop(queue);
        details.put(c"room", capacity.into());
        details.put(c"waiting", waiting.into());
        details.put(c"armed", armed.into());
        details.put(c"overflowed", overflowed.into());
    }

    /// Removes the completions of a QP that is being destroyed: a ULP identifies their QP by its address. The
    /// QP completes nothing more. Releases the lock after every few completions. Sleeps.
    pub(crate) fn remove_completions(&self, qp: QpToken) {
        let _guard = self.removal.lock();
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

    /// Takes the oldest completion. `None` if there is none, or the CQ belongs to a process.
    pub(crate) fn pop(&self) -> Option<Wc> {
        let mut queue = self.queue.lock();
        let popped = match &mut queue.entries {
            CqEntries::Kernel(fifo) => fifo.pop()?,
            CqEntries::User { .. } => return None,
        };
        queue.popped = queue.popped.saturating_add(1);
        Some(popped)
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

    /// Returns the number of completions. User space can falsify it for a ring.
    fn len(&self) -> u32 {
        match self {
            Self::User { ring, producer, .. } => ring.distance(ring.consumer(), *producer),
            Self::Kernel(fifo) => fifo.len(),
        }
    }

    /// Returns the maximum number of completions.
    fn capacity(&self) -> u32 {
        match self {
            Self::User { ring, .. } => ring.entries(),
            Self::Kernel(fifo) => fifo.capacity(),
        }
    }
}

/// Creates a ring for at least `entries` completions, and returns its mapping information to `user`.
fn create_user_ring<U>(entries: u32, user: &mut UserContext<U>) -> Result<(Arc<Ring>, MmapInfo)> {
    let ring = Arc::new(Ring::new(Cqe::ELEMENT_BYTES, entries)?, GFP_KERNEL_ACCOUNT)?;
    let info = user.map_ring(&ring)?;
    user.respond(&info)?;
    Ok((ring, info))
}

/// A resize: copies completions to a larger ring, in steps.
struct CqResize {
    ring: Arc<Ring>,
    info: MmapInfo,
    /// Next element of the old ring to copy.
    next: Option<u32>,
    copied: u32,
}

impl CqResize {
    /// Copies up to [`STEP_ENTRIES`] completions. Returns true when the CQ uses the new ring; `self.ring` is
    /// the old one then.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more completions wait than fit: the process polled in spite of the resize.
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
                self.ring.publish_producer(self.copied);
                core::mem::swap(ring, &mut self.ring);
                (*info, *producer) = (self.info, self.copied);
                return Ok(true);
            }
            if self.copied == self.ring.entries() {
                return Err(EINVAL);
            }
            ring.copy_element(next, &self.ring, self.copied);
            next = ring.after(next);
            self.copied = self.copied.wrapping_add(1);
        }
        self.next = Some(next);
        Ok(false)
    }
}
