// SPDX-License-Identifier: GPL-2.0

//! What a queue tells its consumer: completions and asynchronous events.
//!
//! Owns the way back from a driver's object to the C structure that it belongs to. The driver may
//! hold its object longer than the core holds the structure (a packet in flight does not wait for
//! a destroy), so the way is cut when destroy begins: from then on a handle does nothing, and
//! destroy returns when nobody is inside. Knows neither what completes nor why.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod handler;

use crate::bindings;
use core::ptr;
use kernel::{
    container_of,
    cpu::CpuId,
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        rcu,
        Arc, //
    },
    types::Opaque, //
};

/// What the consumer of a completion queue waits for (`enum ib_cq_notify_flags`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notify {
    /// The next completion whose sender asked for an event, or that is an error.
    Solicited,
    /// The next completion.
    Any,
}

/// Something that happened to a queue pair (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum QpEvent {
    /// The send queue is no longer carried out.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// A peer's request was invalid.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// A peer had no right to what it asked for.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet came before the state was RTS.
    CommEstablished = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SqDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// No more receives are taken from the shared receive queue.
    LastWqe = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// A pointer that is valid for RCU readers until it is cut.
struct EventLink<C>(Atomic<*mut C>);

impl<C> EventLink<C> {
    fn new(object: *mut C) -> Self {
        Self(Atomic::new(object))
    }

    /// Calls `f` with the pointer, unless the way is cut.
    fn with(&self, f: impl FnOnce(*mut C)) {
        let guard = rcu::read_lock();
        let object = self.0.load(Acquire);
        if !object.is_null() {
            f(object);
        }
        drop(guard);
    }

    fn sever(&self) -> Severed {
        self.0.store(ptr::null_mut(), Release);
        // SAFETY: No precondition.
        Severed(unsafe { bindings::get_state_synchronize_rcu() })
    }
}

/// A way has been cut, but somebody may still be on it.
#[must_use]
pub(crate) struct Severed(c_ulong);

impl Severed {
    /// Waits until nobody is on the way. Free if another grace period was waited for meanwhile.
    pub(crate) fn wait(self) {
        // SAFETY: The caller may sleep; the cookie came from `get_state_synchronize_rcu`.
        unsafe { bindings::cond_synchronize_rcu_expedited(self.0) };
    }
}

/// Who is in the completion handler of a queue, see `handler`.
type State = Atomic<u32>;

#[pin_data]
struct CqLink {
    cq: EventLink<bindings::ib_cq>,
    handler: State,
    /// The CPU that the completion handler is to run on.
    home: Option<u32>,
    #[pin]
    work: Opaque<bindings::work_struct>,
}

// SAFETY: The work item is the kernel's, which locks it; the rest is atomic.
unsafe impl Send for CqLink {}
// SAFETY: See `Send`.
unsafe impl Sync for CqLink {}

impl CqLink {
    /// Calls the completion handler. It runs once at a time for one queue. If it runs already, here or
    /// on another CPU, it is called again by whoever is in it.
    fn call(&self) {
        handler::call(&self.handler, || {
            self.cq.with(|cq| {
                // SAFETY: The structure is valid until the way has been cut and a grace period has
                // passed. The handler is set when the queue is created, for good.
                unsafe {
                    if let Some(f) = (*cq).comp_handler {
                        f(cq, (*cq).cq_context);
                    }
                }
            });
        });
    }
}

/// Calls a completion handler where its consumer wants it.
///
/// # Safety
///
/// `work` is part of a `CqLink`, whose `finish` has not returned.
unsafe extern "C" fn at_home(work: *mut bindings::work_struct) {
    // SAFETY: As the function requires.
    let link = unsafe { &*container_of!(Opaque::cast_from(work), CqLink, work) };
    link.call();
}

/// The way from a driver's completion queue to its consumer.
#[derive(Clone)]
pub struct CqHandle(Arc<CqLink>);

impl CqHandle {
    /// `home`: the CPU that the completion handler is to run on, if it matters.
    pub(crate) fn new(cq: *mut bindings::ib_cq, home: Option<u32>) -> Result<Self> {
        let link = Arc::pin_init(
            pin_init!(CqLink {
                cq: EventLink::new(cq),
                handler: State::new(handler::IDLE),
                home,
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: The place does not move, and lives until `finish` has been called.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(at_home),
                            false,
                            c"rdma::CqHandle".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(link))
    }

    /// Ends the telling: from now on the handler is not called, and when this returns, it has come to its end.
    pub(crate) fn end(&self) {
        self.0.cq.sever().wait();
        // SAFETY: Initialised by `new`. Nobody queues it again: that happens on the way only, which is cut.
        unsafe { bindings::cancel_work_sync(self.0.work.get()) };
    }

    /// Has the completion handler called: the consumer has armed the queue, and it has completions.
    ///
    /// For any context; call it without a lock, since the handler may poll the queue or post. It is
    /// called here and now, unless the consumer wants it on another CPU.
    pub fn notify(&self) {
        let elsewhere = self.0.home.filter(|&home| {
            // SAFETY: May be asked of any number.
            let online = unsafe { bindings::ferroce_helper_cpu_online(home) };
            online && home != CpuId::current().as_u32()
        });
        let Some(home) = elsewhere else {
            return self.0.call();
        };
        self.0.cq.with(|_| {
            // SAFETY: The item is initialised, and lives until the way has been cut, a grace
            // period has passed and the item is done. The queue is one of the kernel's own. If the
            // CPU goes meanwhile, the item runs on another.
            unsafe {
                // CAST: A number of a CPU.
                bindings::queue_work_on(home as c_int, bindings::system_bh_wq, self.0.work.get());
            }
        });
    }

    /// Tells the consumer that a completion was lost because the queue was full
    /// (`IB_EVENT_CQ_ERR`). For any context.
    pub fn overflowed(&self) {
        self.0.cq.with(|cq| {
            let mut event: bindings::ib_event = pin_init::zeroed();
            event.event = bindings::ib_event_type_IB_EVENT_CQ_ERR;
            event.element.cq = cq;
            // SAFETY: The structure is valid, see `notify`; the handler may be absent.
            unsafe {
                event.device = (*cq).device;
                if let Some(f) = (*cq).event_handler {
                    f(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// The way from a driver's shared receive queue to its consumer.
#[derive(Clone)]
pub struct SrqHandle(Arc<EventLink<bindings::ib_srq>>);

impl SrqHandle {
    pub(crate) fn new(srq: *mut bindings::ib_srq) -> Result<Self> {
        Ok(Self(Arc::new(EventLink::new(srq), GFP_KERNEL_ACCOUNT)?))
    }

    pub(crate) fn sever(&self) -> Severed {
        self.0.sever()
    }

    /// Tells the consumer that fewer receives wait than it wanted
    /// (`IB_EVENT_SRQ_LIMIT_REACHED`). For any context; call it without a lock.
    pub fn limit_reached(&self) {
        self.0.with(|srq| {
            let mut event: bindings::ib_event = pin_init::zeroed();
            event.event = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED;
            event.element.srq = srq;
            // SAFETY: The structure is valid until the way has been cut and a grace period has
            // passed. The handler is set when the queue is created, for good; it may be absent.
            unsafe {
                event.device = (*srq).device;
                if let Some(f) = (*srq).event_handler {
                    f(&mut event, (*srq).srq_context);
                }
            }
        });
    }
}

#[pin_data]
struct QpLink {
    qp: EventLink<bindings::ib_qp>,
    token: QpToken,
    /// Events that have been raised and not told: bit `n` is the one with the number `n`.
    pending: Atomic<u32>,
    #[pin]
    work: Opaque<bindings::work_struct>,
}

/// The way from a driver's queue pair to its consumer.
#[derive(Clone)]
pub struct QpHandle(Arc<QpLink>);

// SAFETY: The work item is the kernel's, which locks it; the rest is atomic.
unsafe impl Send for QpLink {}
// SAFETY: See `Send`.
unsafe impl Sync for QpLink {}

impl QpHandle {
    pub(crate) fn new(qp: *mut bindings::ib_qp) -> Result<Self> {
        let link = Arc::pin_init(
            pin_init!(QpLink {
                token: QpToken(qp),
                qp: EventLink::new(qp),
                pending: Atomic::new(0),
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: The place does not move, and lives until `finish` has been called.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(tell),
                            false,
                            c"rdma::QpHandle".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(link))
    }

    pub(crate) fn sever(&self) -> Severed {
        self.0.qp.sever()
    }

    /// Ends the telling. Call it when the way is cut and nobody is on it any more.
    pub(crate) fn finish(&self) {
        // SAFETY: Initialised by `new`. Nobody queues it again: that happens on the way only.
        unsafe { bindings::cancel_work_sync(self.0.work.get()) };
    }

    /// Raises an asynchronous event. For any context.
    ///
    /// The consumer hears of it in a task of its own, since it may sleep. The same event raised
    /// again before that is heard once.
    pub fn event(&self, what: QpEvent) {
        let link = &*self.0;
        let bit = 1u32 << what as u32;
        let mut seen = link.pending.load(Relaxed);
        while let Err(now) = link.pending.cmpxchg(seen, seen | bit, Full) {
            seen = now;
        }
        link.qp.with(|_| {
            // SAFETY: The item is initialised, and lives until the way has been cut, a grace
            // period has passed and the item is done. The queue is one of the kernel's own.
            unsafe {
                bindings::queue_work_on(
                    bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                    bindings::system_dfl_wq,
                    link.work.get(),
                );
            }
        });
    }

    /// What a completion says about the queue pair to a consumer in the kernel.
    pub fn token(&self) -> QpToken {
        self.0.token
    }
}

/// Tells the consumer of a queue pair what has happened.
///
/// # Safety
///
/// `work` is part of a `QpLink`, whose `finish` has not returned.
unsafe extern "C" fn tell(work: *mut bindings::work_struct) {
    // SAFETY: As the function requires.
    let link = unsafe { &*container_of!(Opaque::cast_from(work), QpLink, work) };
    let pending = link.pending.xchg(0, Full);
    let qp = link.token.as_ptr();
    for number in (0..u32::BITS).filter(|number| pending & (1 << number) != 0) {
        let mut event: bindings::ib_event = pin_init::zeroed();
        event.event = number;
        event.element.qp = qp;
        // SAFETY: The core frees the structure after destroy, which waits for us in `finish`.
        unsafe {
            event.device = (*qp).device;
            if let Some(f) = (*qp).event_handler {
                f(&mut event, (*qp).qp_context);
            }
        }
    }
}

/// Names a queue pair to a consumer in the kernel. Means nothing to anybody else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QpToken(*mut bindings::ib_qp);

// SAFETY: The pointer is never followed here.
unsafe impl Send for QpToken {}
// SAFETY: The pointer is never followed here.
unsafe impl Sync for QpToken {}

impl QpToken {
    pub(crate) fn as_ptr(self) -> *mut bindings::ib_qp {
        self.0
    }
}

impl Default for QpToken {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}
