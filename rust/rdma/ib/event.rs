// SPDX-License-Identifier: GPL-2.0

//! Notifications of a queue to its consumer: completion events and asynchronous events.
//!
//! A handle holds the pointer from a driver's object back to the C structure of the core. The driver may use its
//! object longer than the core uses the structure, because destroy does not wait for packets in flight. So destroy
//! first revokes the pointer, which makes the handle do nothing, and then waits for the sections that use it and for
//! the work item.
//!
//! Handles are used in any context, without a lock of the driver unless stated otherwise.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod handler;

use crate::{
    bindings,
    sync::read_section::{
        ReadSection,
        SectionWait, //
    }, //
};
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
        Arc, //
    },
    types::Opaque, //
};

/// Completions that an armed CQ reports (`enum ib_cq_notify_flags`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notify {
    /// The next completion that is solicited or an error.
    Solicited,
    /// The next completion.
    Any,
}

/// Asynchronous event of a QP (`enum ib_event_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum QpEvent {
    /// The QP failed; its send queue is no longer processed.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// A request of the peer was invalid.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// A request of the peer violated access rights.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet arrived before the QP was in RTS.
    CommEstablished = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SqDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// The QP takes no more receives from its SRQ.
    LastWqe = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// Pointer to a structure of the core. Sections that are open when it is revoked may use it.
struct RevocablePtr<C>(Atomic<*mut C>);

impl<C> RevocablePtr<C> {
    fn new(object: *mut C) -> Self {
        Self(Atomic::new(object))
    }

    /// Calls `f` with the pointer, in a section, unless it is revoked.
    fn with(&self, f: impl FnOnce(*mut C)) {
        let section = ReadSection::enter();
        let object = self.0.load(Acquire);
        if !object.is_null() {
            f(object);
        }
        drop(section);
    }

    /// Revokes the pointer: later calls of [`RevocablePtr::with`] do nothing. It may be in use until the wait for the
    /// result is over.
    fn revoke(&self) -> SectionWait {
        self.0.store(ptr::null_mut(), Release);
        SectionWait::new()
    }
}

/// State of the calls of a completion handler, see `handler`.
type HandlerState = Atomic<u32>;

#[pin_data]
struct CqNotifier {
    cq: RevocablePtr<bindings::ib_cq>,
    handler_state: HandlerState,
    /// CPU on which the completion handler runs, unless the driver has few completions. `None`: any.
    handler_cpu: Option<u32>,
    #[pin]
    work: Opaque<bindings::work_struct>,
}

// SAFETY: The workqueue code synchronizes access to the work item. All other fields are atomic or do not change,
// and the C structure may be used by any task.
unsafe impl Send for CqNotifier {}
// SAFETY: As for `Send`: nothing in it depends on the task.
unsafe impl Sync for CqNotifier {}

impl CqNotifier {
    /// Calls the completion handler, on one CPU at a time. If it runs already, its caller calls it again.
    fn call(&self) {
        handler::call(&self.handler_state, || {
            self.cq.with(|cq| {
                // SAFETY: `cq` is valid: it was not revoked, and destroy waits for this section. The core set
                // the handler and its context before it armed the CQ for the first time, and `notify` comes after
                // that; they do not change. The handler may be called in any context.
                unsafe {
                    if let Some(f) = (*cq).comp_handler {
                        f(cq, (*cq).cq_context);
                    }
                }
            });
        });
    }
}

/// Work function of a CQ: calls the completion handler on the CPU that its consumer requested.
///
/// # Safety
///
/// `work` is the field of a `CqNotifier` whose `CqHandle::close` has not returned.
unsafe extern "C" fn run_handler(work: *mut bindings::work_struct) {
    // SAFETY: The caller guarantees that `work` is the field of a live `CqNotifier`: a `CqHandle` owns it at least
    // until `close` has cancelled the work item.
    let notifier = unsafe { &*container_of!(Opaque::cast_from(work), CqNotifier, work) };
    notifier.call();
}

/// Delivers the events of a driver's CQ to its consumer.
#[derive(Clone)]
pub struct CqHandle(Arc<CqNotifier>);

impl CqHandle {
    /// Creates the handle of `cq`; null: there is none. `handler_cpu`: the CPU on which the completion
    /// handler runs, if that matters.
    pub(crate) fn new(cq: *mut bindings::ib_cq, handler_cpu: Option<u32>) -> Result<Self> {
        let notifier = Arc::pin_init(
            pin_init!(CqNotifier {
                cq: RevocablePtr::new(cq),
                handler_state: HandlerState::new(handler::IDLE),
                handler_cpu,
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is pinned, and stays valid until `close` has cancelled the work item: `Object`
                    // keeps the handle until then. The name and the lock class are static.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(run_handler),
                            false,
                            c"rdma::CqHandle".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(notifier))
    }

    /// Creates the handle of a CQ that has no consumer. It does nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn without_consumer() -> Result<Self> {
        Self::new(ptr::null_mut(), None)
    }

    /// Stops all notifications. When this returns, the completion handler is not running, and is not called any
    /// more. May sleep.
    pub(crate) fn close(&self) {
        self.0.cq.revoke().wait();
        // SAFETY: `new` initialised the work item. Only `notify` queues it, in a section and with the
        // pointer, which is revoked and has no readers left. The caller may sleep.
        unsafe { bindings::cancel_work_sync(self.0.work.get()) };
    }

    /// Calls the completion handler. The driver calls this when the consumer has armed the CQ and there is a
    /// completion.
    ///
    /// Any context. The caller must hold no lock of the driver: the handler may run here, poll the CQ and post WRs. It
    /// runs on the CPU that its consumer requested, if any; with `here`, always here.
    pub fn notify(&self, here: bool) {
        let other_cpu = |&cpu: &u32| !here && cpu != CpuId::current().as_u32();
        let Some(handler_cpu) = self.0.handler_cpu.filter(other_cpu) else {
            return self.0.call();
        };
        let mut is_active = true;
        self.0.cq.with(|_| {
            // SAFETY: The helper reads a bit of the mask of active CPUs; `create_cq` has checked that the number is
            // below `nr_cpu_ids`. A section keeps RCU locked.
            is_active = unsafe { bindings::ferroce_helper_cpu_active(handler_cpu) };
            if is_active {
                // SAFETY: `new` initialised the work item. It stays valid while it is queued: `close` revokes the
                // pointer, waits for this section, and then cancels the work item. `system_bh_wq` always exists.
                // If the CPU goes offline after this, C runs the item on another.
                unsafe {
                    // CAST: A CPU number is far below `c_int::MAX`.
                    bindings::queue_work_on(
                        handler_cpu as c_int,
                        bindings::system_bh_wq,
                        self.0.work.get(),
                    );
                }
            }
        });
        if !is_active {
            self.0.call();
        }
    }

    /// Reports that a completion was lost because the CQ was full (`IB_EVENT_CQ_ERR`). Any context.
    pub fn overflowed(&self) {
        self.0.cq.with(|cq| {
            let mut event: bindings::ib_event = pin_init::zeroed();
            event.event = bindings::ib_event_type_IB_EVENT_CQ_ERR;
            event.element.cq = cq;
            // SAFETY: `cq` is valid: it was not revoked, and destroy waits for this section. The handler and its
            // context do not change; the handler may be absent. `event` is complete.
            unsafe {
                event.device = (*cq).device;
                if let Some(f) = (*cq).event_handler {
                    f(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// Delivers the events of a driver's SRQ to its consumer.
#[derive(Clone)]
pub struct SrqHandle(Arc<RevocablePtr<bindings::ib_srq>>);

impl SrqHandle {
    /// Creates the handle of `srq`.
    pub(crate) fn new(srq: *mut bindings::ib_srq) -> Result<Self> {
        Ok(Self(Arc::new(RevocablePtr::new(srq), GFP_KERNEL_ACCOUNT)?))
    }

    /// Stops all notifications; one may still be in progress until the result's `wait` returns.
    pub(crate) fn revoke(&self) -> SectionWait {
        self.0.revoke()
    }

    /// Reports that fewer receives are posted than the limit of the SRQ (`IB_EVENT_SRQ_LIMIT_REACHED`). Any
    /// context; the caller must hold no lock of the driver.
    pub fn limit_reached(&self) {
        self.0.with(|srq| {
            let mut event: bindings::ib_event = pin_init::zeroed();
            event.event = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED;
            event.element.srq = srq;
            // SAFETY: `srq` is valid: it was not revoked, and destroy waits for this section. The handler and
            // its context were set before the SRQ was created, and do not change; the handler may be absent.
            // `event` is complete.
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
struct QpNotifier {
    qp: RevocablePtr<bindings::ib_qp>,
    token: QpToken,
    /// Events that are raised and not yet reported: bit `n` stands for the event number `n`.
    pending: Atomic<u32>,
    #[pin]
    work: Opaque<bindings::work_struct>,
}

/// Delivers the asynchronous events of a driver's QP to its consumer.
#[derive(Clone)]
pub struct QpHandle(Arc<QpNotifier>);

// SAFETY: The workqueue code synchronizes access to the work item. All other fields are atomic or do not change,
// and the C structure may be used by any task.
unsafe impl Send for QpNotifier {}
// SAFETY: As for `Send`: nothing in it depends on the task.
unsafe impl Sync for QpNotifier {}

impl QpHandle {
    /// Creates the handle of `qp`.
    pub(crate) fn new(qp: *mut bindings::ib_qp) -> Result<Self> {
        let notifier = Arc::pin_init(
            pin_init!(QpNotifier {
                token: QpToken(qp),
                qp: RevocablePtr::new(qp),
                pending: Atomic::new(0),
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is pinned, and stays valid until `cancel_events` has cancelled the work item:
                    // `Object` keeps the handle until then. The name and the lock class are static.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(report_events),
                            false,
                            c"rdma::QpHandle".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(notifier))
    }

    /// Stops queueing of events. [`QpHandle::cancel_events`] must follow the wait for the result.
    pub(crate) fn revoke(&self) -> SectionWait {
        self.0.qp.revoke()
    }

    /// Cancels the events that are queued, and waits for a running event handler. Called after the wait that
    /// follows [`QpHandle::revoke`].
    pub(crate) fn cancel_events(&self) {
        // SAFETY: `new` initialised the work item. Only `event` queues it, in a section and with the
        // pointer, which is revoked and has no readers left. The caller may sleep.
        unsafe { bindings::cancel_work_sync(self.0.work.get()) };
    }

    /// Raises an asynchronous event. Any context.
    ///
    /// The event handler may sleep, so a work item calls it. An event that is raised again before the work item
    /// runs is reported once.
    pub fn event(&self, event: QpEvent) {
        let notifier = &*self.0;
        let bit = 1u32 << event as u32;
        let mut seen = notifier.pending.load(Relaxed);
        while let Err(now) = notifier.pending.cmpxchg(seen, seen | bit, Full) {
            seen = now;
        }
        notifier.qp.with(|_| {
            // SAFETY: `new` initialised the work item. It stays valid while it is queued: destroy revokes the
            // pointer, waits for this section, and then cancels the work item. `system_dfl_wq` always exists.
            unsafe {
                bindings::queue_work_on(
                    bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                    bindings::system_dfl_wq,
                    notifier.work.get(),
                );
            }
        });
    }

    /// Returns the token that a completion of a ULP carries for this QP.
    pub fn token(&self) -> QpToken {
        self.0.token
    }
}

/// Work function of a QP: calls the event handler for each raised event.
///
/// # Safety
///
/// `work` is the field of a `QpNotifier` whose `QpHandle::cancel_events` has not returned.
unsafe extern "C" fn report_events(work: *mut bindings::work_struct) {
    // SAFETY: The caller guarantees that `work` is the field of a live `QpNotifier`: a `QpHandle` owns it at least
    // until `cancel_events` has cancelled the work item.
    let notifier = unsafe { &*container_of!(Opaque::cast_from(work), QpNotifier, work) };
    let pending = notifier.pending.xchg(0, Full);
    let qp = notifier.token.as_ptr();
    for number in (0..u32::BITS).filter(|number| pending & (1 << number) != 0) {
        let mut event: bindings::ib_event = pin_init::zeroed();
        event.event = number;
        event.element.qp = qp;
        // SAFETY: The core frees `qp` after destroy, which waits for this work function in `cancel_events`. The
        // handler and its context do not change; the handler may be absent and may sleep. `event` is complete.
        unsafe {
            event.device = (*qp).device;
            if let Some(f) = (*qp).event_handler {
                f(&mut event, (*qp).qp_context);
            }
        }
    }
}

/// Identifies a QP to a ULP, in its completions. No other use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QpToken(*mut bindings::ib_qp);

// SAFETY: This crate never dereferences the pointer of a token.
unsafe impl Send for QpToken {}
// SAFETY: This crate never dereferences the pointer of a token.
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
