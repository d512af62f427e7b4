// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use crate::{
    abi::direct::{
        bytes,
        Mapping, //
    },
    cqe::{
        Cqe,
        TimedCqe, //
    },
    doorbell::{
        CommandFile,
        Dirty, //
    },
    errno::Errno,
    ffi::{
        attr::CqAttrEx,
        cmd::{
            self,
            CqArguments, //
        },
        lock::{
            Locking,
            SpinLock, //
        },
        memory::{
            Map,
            Owned, //
        },
        object::{
            Context,
            Cq, //
        },
    },
    ring::{
        Consumer,
        Ring, //
    },
};

/// `enum ibv_create_cq_wc_flags`: the standard ones, and both kinds of timestamps. libibverbs asks the kernel for them.
const WC_FLAGS: u64 = 0x8ff;

/// `enum ibv_create_cq_attr_flags`: one thread at a time, and no overrun, which the kernel judges.
const FLAGS: u32 = 0b11;

/// What a completion queue has behind its head.
pub(crate) struct CqBody {
    pub(crate) file: CommandFile,
    pub(crate) polling: SpinLock<Polling>,
    /// Send queues that hold posts back.
    pub(crate) dirty: Dirty,
}

/// The consuming end.
pub(crate) struct Polling {
    /// `None` if the ring could not be mapped after a resize.
    queue: Option<Consumer>,
    /// The completion that a program reads field by field.
    pub(crate) current: TimedCqe,
}

impl Polling {
    /// Takes up to `limit` completions. Returns how many there were; `None` if there is no ring.
    #[inline]
    fn take(&mut self, limit: usize, put: &mut impl FnMut(usize, Cqe)) -> Option<usize> {
        let queue = self.queue.as_mut()?;
        let mut taken = 0_usize;
        while taken < limit {
            let Some(cqe) = queue.take() else {
                break;
            };
            put(taken, cqe);
            taken = taken.wrapping_add(1);
        }
        queue.publish();
        Some(taken)
    }

    /// Goes on to the next completion. Returns whether there is one.
    pub(crate) fn next(&mut self) -> bool {
        let next = self.queue.as_mut().and_then(Consumer::take_timed);
        if let Some(timed) = next {
            self.current = timed;
        }
        next.is_some()
    }

    /// Removes the completions of a QP.
    pub(crate) fn forget(&mut self, qp_num: u32) {
        if let Some(queue) = &mut self.queue {
            queue.forget(qp_num);
        }
    }

    /// Tells the kernel what was taken.
    pub(crate) fn end(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.publish();
        }
    }
}

fn allocate(context: Context<'_>, locking: Locking) -> Result<Owned<Cq>, Errno> {
    let polling = Polling {
        queue: None,
        current: TimedCqe::default(),
    };
    Cq::allocate(CqBody {
        file: context.file(),
        polling: SpinLock::with_locking(polling, locking),
        dirty: Dirty::new(),
    })
}

fn map(fd: i32, mapping: Mapping) -> Result<Consumer, Errno> {
    let ring = Ring::new(Map::new(fd, mapping)?, bytes::CQE).ok_or(Errno::INVAL)?;
    Ok(Consumer::new(ring))
}

/// Maps the ring of a queue that the kernel has created, or destroys it.
fn connect(mut cq: Owned<Cq>, mapping: Mapping) -> Result<Owned<Cq>, Errno> {
    let body = cq.body_mut();
    match map(body.file.fd, mapping) {
        Ok(queue) => {
            body.polling.get_mut().queue = Some(queue);
            Ok(cq)
        }
        Err(error) => {
            // The program gets no queue: there is nothing to be done about a failure.
            let _ = cmd::destroy_cq(&cq);
            Err(error)
        }
    }
}

/// Creates a completion queue.
///
/// # Errors
///
/// `ENOMEM`, those of `mmap`, or the kernel's.
pub(crate) fn create(context: Context<'_>, arguments: CqArguments) -> Result<Owned<Cq>, Errno> {
    let mut cq = allocate(context, Locking::NEEDED)?;
    let mapping = cmd::create_cq(context, arguments, &mut cq)?;
    connect(cq, mapping)
}

/// Creates a completion queue whose completions are read field by field.
///
/// # Errors
///
/// As [`create`], and `EOPNOTSUPP` for fields that there are not.
pub(crate) fn create_ex(context: Context<'_>, attr: CqAttrEx<'_>) -> Result<Owned<Cq>, Errno> {
    const KNOWN: u32 = CqAttrEx::FLAGS | CqAttrEx::PARENT_DOMAIN;
    if attr.wc_flags() & !WC_FLAGS != 0
        || attr.comp_mask() & !KNOWN != 0
        || attr.flags() & !FLAGS != 0
    {
        return Err(Errno::OPNOTSUPP);
    }
    let mut cq = allocate(context, attr.locking())?;
    cq.set_readers(attr.wc_flags());
    let mapping = cmd::create_cq_ex(context, attr, &mut cq)?;
    connect(cq, mapping)
}

/// Resizes a queue. Its completions move to the new ring.
///
/// # Errors
///
/// The kernel's. If the new ring cannot be mapped, those of `mmap`, and the queue cannot be polled any more.
pub(crate) fn resize(cq: &Cq, cqe: i32) -> Result<(), Errno> {
    let body = cq.body();
    // No thread may take a completion of the old ring while the kernel moves them.
    body.polling.with(|polling| {
        polling.end();
        let mapping = cmd::resize_cq(cq, cqe)?;
        polling.queue = None;
        polling.queue = Some(map(body.file.fd, mapping)?);
        Ok(())
    })
}

/// Takes up to `limit` completions. Returns how many there were; `None` if the queue is broken.
#[inline]
pub(crate) fn poll(cq: &Cq, limit: usize, mut put: impl FnMut(usize, Cqe)) -> Option<usize> {
    let body = cq.body();
    let taken = body.polling.with(|polling| polling.take(limit, &mut put))?;
    if taken > 0 {
        body.dirty.disarm();
    }
    if taken > 0 || limit == 0 || !body.dirty.flush(body.file) {
        return Some(taken);
    }
    // What was held back may have completed within the call.
    body.polling.with(|polling| polling.take(limit, &mut put))
}

/// Begins to read the next completion, if there is one. Then the lock stays held, or else it is released: both are done
/// by the caller.
///
/// # Errors
///
/// `ENOENT` if there is none.
pub(crate) fn start(body: &CqBody, polling: &mut Polling) -> Result<(), Errno> {
    if polling.next() || body.dirty.flush(body.file) && polling.next() {
        body.dirty.disarm();
        return Ok(());
    }
    Err(Errno::NOENT)
}

/// Asks for an event at the next completion.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn request_event(cq: &Cq, solicited_only: i32) -> Result<(), Errno> {
    let body = cq.body();
    // A program that sleeps now polls no more. What completes within this call it finds when it polls once more, as
    // it must after this verb.
    body.dirty.arm();
    body.dirty.flush(body.file);
    cmd::req_notify_cq(cq, solicited_only)
}
