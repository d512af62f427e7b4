// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! Engines push completions in process context or softirq. A process polls the ring without the kernel; a ULP
//! polls with [`Cq::pop`]. The `queue` spinlock protects the state, and completion handlers run outside it.
//! If the consumer leaves no space, the push fails and the CQ raises `IB_EVENT_CQ_ERR` once; if its consumer ignores
//! overruns, the completion is lost and nothing else happens.

use crate::{
    abi::Abi,
    queue::{
        copy_ring::{
            RingResize,
            Waiting, //
        }, //
        cq_moderation::{
            CqEvent,
            ModerationParams,
            Moderator, //
        },
        fifo::Fifo,
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
    errno::EOPNOTSUPP,
    ib::{
        driver::CqFlags,
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
        timer::raw_now,
        SpinLockIrq, //
    }, //
};

/// A ULP that takes no more completions than this per event is told of the next one on the CPU where it happens:
/// another CPU would have to be interrupted, and perhaps woken, for little work.
const FEW_COMPLETIONS: u32 = 2;

/// Completions that a removal examines before it releases the lock.
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
        abi: Abi,
        flags: CqFlags,
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
    /// `EINVAL`; `EFAULT` if the response cannot be written; `ENOMEM`; `EOPNOTSUPP` for flags, unless the ABI is our
    /// own.
    pub(crate) fn user(
        handle: CqHandle,
        entries: u32,
        flags: CqFlags,
        user: &mut UserContext<Abi>,
    ) -> Result<(Arc<Self>, u32)> {
        let abi = **user.ucontext();
        if flags != CqFlags::default() && !abi.is_own() {
            return Err(EOPNOTSUPP);
        }
        let (ring, info) = create_user_ring(entries, user)?;
        let entries = ring.entries();
        let queue = CqEntries::User {
            abi,
            flags,
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
    pub(crate) fn resize(&self, entries: u32, user: &mut UserContext<Abi>) -> Result<u32> {
        let (current, waiting, info) = match &self.queue.lock().entries {
            queue @ CqEntries::User { ring, info, .. } => (ring.entries(), queue.len(), *info),
            CqEntries::Kernel(_) => return Err(EINVAL),
        };
        if waiting > entries {
            return Err(EINVAL);
        }
        if entries <= current {
            (**user.ucontext()).respond_ring(user, info)?;
            return Ok(current);
        }
        let (ring, info) = create_user_ring(entries, user)?;
        let entries = ring.entries();
        let mut resize = RingResize::new(ring, entries, 0);
        let mut first = None;
        while !self
            .queue
            .lock()
            .entries
            .step_resize(&mut resize, &mut first, info)?
        {}
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
            Self::User {
                abi,
                flags,
                ring,
                producer,
                ..
            } => {
                let write = |index| {
                    let timestamp = if flags.timestamps { raw_now() } else { 0 };
                    abi.write_completion(ring, index, wc, timestamp);
                };
                match ring.push(producer, write) {
                    None if !flags.ignore_overrun => Err(Overflow),
                    _ => Ok(()),
                }
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

    /// Copies some completions to another ring. `first` is the index of the oldest, once it is known. Returns whether
    /// the CQ uses the new ring, whose mapping is `new_info`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more completions wait than fit, or fewer than were copied: the process polled meanwhile.
    fn step_resize(
        &mut self,
        resize: &mut RingResize,
        first: &mut Option<u32>,
        new_info: MmapInfo,
    ) -> Result<bool> {
        let Self::User {
            abi,
            ring,
            info,
            producer,
            ..
        } = self
        else {
            return Err(EINVAL);
        };
        let index = *first.get_or_insert_with(|| ring.consumer());
        let waiting = Waiting {
            index,
            position: 0,
            count: ring.distance(index, *producer),
        };
        if waiting.count < resize.copied() {
            return Err(EINVAL);
        }
        let adopt = |ring: &Ring, index| abi.adopt_completion(ring, index);
        let Some((_, end)) = resize.step(ring, waiting, adopt)? else {
            return Ok(false);
        };
        (*info, *producer) = (new_info, end);
        Ok(true)
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
fn create_user_ring(entries: u32, user: &mut UserContext<Abi>) -> Result<(Arc<Ring>, MmapInfo)> {
    let abi = **user.ucontext();
    let ring = abi.new_cq_ring(entries)?;
    let info = user.map_ring(&ring)?;
    abi.respond_ring(user, info)?;
    Ok((ring, info))
}
