// SPDX-License-Identifier: GPL-2.0

//! The engine interface, and the code that polls an engine and services its page faults.
//!
//! An engine is one direction of a QP. Its owner polls it, in process context or softirq, under the lock of
//! its [`Exclusive`].

use crate::{
    mem::page_fault::{
        FaultSide,
        FaultWaits, //
    },
    packet::path::Path,
    qp::{
        actions::Actions,
        run::QpRun,
        shared::QpShared, //
    },
    queue::{
        cq::{
            Cq,
            Overflow, //
        },
        cq_moderation::CqEvent, //
    }, //
};
use kernel::sync::Arc;
use rdma::{
    ib::{
        event::QpEvent,
        wc::Wc, //
    },
    net::rx::queue::SkbQueue,
    sync::{
        exclusive::{
            Exclusive,
            More,
            Pending, //
        },
        read_section::ReadSection, //
    }, //
};
use roce::{
    segmentation::tx_desc::BurstLimit,
    status::WcStatus,
    wake::NextWake,
    wr::Completion, //
};

/// Budget of one run of an RC engine for transmission: two super-packets, or as many packets.
pub(crate) const TX_BURST_LIMIT: BurstLimit = BurstLimit {
    bytes: 128 << 10,
    packets: 128,
};

/// Budget of one run of another engine for transmission. The packets fit in one GSO list: it has at most 64 packets and
/// 64 KiB, and the 4 KiB above `bytes` leave room for headers.
pub(crate) const TX_LIST_LIMIT: BurstLimit = BurstLimit {
    bytes: 60 << 10,
    packets: 64,
};

/// Budget of one engine run, for each of these by itself: received packets, posted and local requests, completions,
/// flushed receives.
pub(crate) const RUN_BUDGET: u16 = 64;

/// One direction of a QP. One context at a time owns it.
pub(crate) trait Engine: Send + Unpin + 'static {
    /// Processes the packets in `inbox`, the posted requests and the state of `qp`, up to the budget. Leaves
    /// in `actions` the side effects that must wait until the engine is released.
    fn run(&mut self, qp: &QpRun<'_>, inbox: &SkbQueue, actions: &mut Actions) -> More;

    /// Goes to RESET: discards posted requests, packets and replies.
    fn reset(&mut self, inbox: &SkbQueue);

    /// The page faults that the engine waits for. In the error state it waits for none.
    fn waits(&mut self) -> &mut FaultWaits;

    /// The CQ of this direction.
    fn cq(&self) -> &Arc<Cq>;

    /// The path to the peer, if the service has a fixed one.
    fn path(&mut self) -> Option<&mut Path> {
        None
    }

    /// Discards the replies that are still owed: the consumer moves the QP to ERR.
    fn abort_replies(&mut self) {}

    /// Called after the yield that [`Actions::wants_yield`] asked for.
    fn on_yield(&mut self) {}

    /// Takes the actions that a local peer left in a loopback pass.
    fn take_deferred(&mut self) -> Actions {
        Actions::default()
    }
}

/// The engine that sends requests.
pub(crate) trait SendEngine: Engine {
    /// Goes to INIT: accepts posted requests, but does not process them.
    fn init(&mut self);

    /// Goes to SQD: starts no further request. `notify`: the consumer wants an event when those in progress
    /// are complete.
    fn drain(&mut self, notify: bool);

    /// Returns to RTS, from SQD or SQE.
    fn resume(&mut self);
}

/// Runs `engine`. In the error state a QP does not wait for page faults.
pub(crate) fn poll_engine(
    engine: &mut impl Engine,
    qp: &QpRun<'_>,
    inbox: &SkbQueue,
    actions: &mut Actions,
) -> More {
    // The run finds all that it waits for again.
    actions.next_wake = NextWake::NEVER;
    actions.merge(&engine.take_deferred());
    if qp.is_failed() {
        engine.waits().reset();
    }
    let more = engine.run(qp, inbox, actions);
    let waits = engine.waits();
    actions.tx_fault |= waits.tx.needs_service();
    actions.rx_fault |= waits.rx.needs_service();
    notify_consumer(engine.cq(), actions);
    actions.commit_failure(qp);
    qp.set_next_wake(actions.next_wake);
    more
}

/// Services the page fault of one `side` that an engine waits for, then runs the engine with `run`. Called from a work
/// item; sleeps for as long as the fault takes.
pub(crate) fn service_fault<E: Engine>(
    (engine, side): (&Exclusive<E>, FaultSide),
    qp: &QpShared,
    run: impl Fn(),
) {
    // `Qp::quiesce` does not wait for this work item, but for a run: see the order there, step 2.
    let run = || {
        let _guard = ReadSection::enter();
        run();
    };
    let (deferred, pending) = engine.enter(|engine| engine.waits().side(side).begin());
    if let Some((work, serial)) = deferred {
        // An event arrived meanwhile. Run the engine: if the QP failed, it must not wait for the fault.
        if pending == Pending::Work {
            run();
        }
        let result = work.service(qp.port().keys());
        let _ = engine.enter(|engine| engine.waits().side(side).end(serial, result));
    }
    run();
}

/// Pushes a completion to the CQ. `solicited`: it wakes a consumer that waits for solicited completions only.
/// A failure always does.
#[inline]
pub(crate) fn push_completion(
    qp: &QpShared,
    cq: &Cq,
    done: &Completion,
    solicited: bool,
    actions: &mut Actions,
) {
    let urgent = solicited || done.status != WcStatus::Success;
    push_wc(cq, &qp.completion(done), urgent, actions);
}

/// As [`push_completion`], for a complete work completion.
#[inline]
pub(crate) fn push_wc(cq: &Cq, wc: &Wc, urgent: bool, actions: &mut Actions) {
    match cq.push(wc, urgent) {
        Ok(event) => actions.cq_event_due |= event == CqEvent::Due,
        Err(Overflow) => actions.fail(Some(QpEvent::Fatal)),
    }
}

/// Notifies the consumer of `cq`, the CQ of the engine that runs, if completions of this run call for it. Called when
/// the run adds no more of them: one event then reports all.
#[inline]
pub(crate) fn notify_consumer(cq: &Cq, actions: &mut Actions) {
    if core::mem::take(&mut actions.cq_event_due) {
        cq.notify();
    }
}
