// SPDX-License-Identifier: GPL-2.0

//! Runs an engine, services its page faults, and changes its state.
//!
//! The caller owns the engine.

use crate::{
    mem::page_fault::FaultSide,
    qp::{
        actions::Actions,
        congestion::notify_peer,
        engine::{
            notify_consumer,
            Engine,
            SendEngine, //
        },
        run::QpRun,
        rx::{
            enqueue,
            process_inbox, //
        },
        shared::QpShared, //
    }, //
};
use rdma::{
    ib::qp_attr::IbQpState,
    net::rx::{
        queue::SkbQueue,
        skb::RxSkb, //
    },
    sync::{
        exclusive::{
            Exclusive,
            More,
            Pending, //
        },
        read_section::ReadSection,
        timer::now, //
    }, //
};
use roce::{
    time::Instant,
    wake::NextWake, //
};

/// Runs `engine`: processes the packets in `inbox`, then `skb`, which has just arrived, the posted requests and the
/// state of `qp`, up to the budget.
pub(crate) fn poll_engine(
    engine: &mut impl Engine,
    qp: &QpRun<'_>,
    (inbox, skb): (&SkbQueue, Option<RxSkb>),
    actions: &mut Actions,
) -> More {
    // The run finds all that it waits for again.
    actions.next_wake = NextWake::NEVER;
    let core = engine.core_mut();
    actions.merge(&core::mem::take(&mut core.deferred));
    if qp.had_failed() {
        core.waits.reset();
        core.early.clear();
    }
    engine.begin(qp);
    let arrived = process_inbox(engine, qp, (inbox, skb), actions);
    if !qp.had_failed() {
        notify_peer(qp, engine.core_mut().path.as_deref_mut());
    }
    if engine.core().handled_cnps != qp.cnps() {
        slow_down(engine, qp);
    }
    let mut more = engine.work(qp, (inbox, arrived), actions);
    if let Some(queue) = engine.send_queue() {
        let (posted, wake) = queue.end_run(qp.requests());
        actions.wake(wake);
        more = more.or(posted);
    }
    // `modify_qp` drains first and sets SQD after; it then runs the engine again.
    if engine.core().notify_drained && qp.state() == IbQpState::Sqd && engine.is_drained() {
        engine.core_mut().notify_drained = false;
        actions.drained = true;
    }
    let core = engine.core();
    actions.tx_fault |= core.waits.tx.needs_service();
    actions.rx_fault |= core.waits.rx.needs_service();
    notify_consumer(&core.cq, actions);
    actions.commit_failure(qp);
    qp.set_next_wake(actions.next_wake);
    arrived.or(more)
}

/// Runs `engine` with `skb`, if no other context owns it; otherwise puts `skb` into the inbox. The function `run`
/// begins the run: it looks at the state of the QP, so the engine must be owned. Returns whether to run the engine, as
/// for any event.
pub(crate) fn hand_over<'a, E: Engine + Unpin>(
    (engine, inbox): (&Exclusive<E>, &SkbQueue),
    skb: RxSkb,
    (qp, run): (&QpShared, impl FnOnce() -> QpRun<'a>),
    actions: &mut Actions,
) -> bool {
    let mut skb = Some(skb);
    let entered =
        engine.try_enter(|engine| poll_engine(engine, &run(), (inbox, skb.take()), actions));
    match skb {
        Some(skb) => enqueue(qp, inbox, skb),
        None => entered != Some((More::No, Pending::None)),
    }
}

/// Reacts to the CNPs that were received since the last reaction, together.
#[cold]
fn slow_down(engine: &mut impl Engine, qp: &QpRun<'_>) {
    if let Some(sender) = engine.congestion() {
        sender.on_cnp(Instant::from_nanos(now()));
        engine.core_mut().handled_cnps = qp.cnps();
    }
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
    let (deferred, pending) = engine.enter(|engine| engine.core_mut().waits.side(side).begin());
    if let Some((work, serial)) = deferred {
        // An event arrived meanwhile. Run the engine: if the QP failed, it must not wait for the fault.
        if pending == Pending::Work {
            run();
        }
        let result = work.service(qp.port().keys());
        let _ = engine.enter(|engine| engine.core_mut().waits.side(side).end(serial, result));
    }
    run();
}

/// Moves a send engine to SQD. `notify`: the consumer wants an event when the requests in progress are complete.
pub(crate) fn drain_engine(engine: &mut impl SendEngine, notify: bool) {
    engine.core_mut().notify_drained = notify;
    engine.drain();
}

/// Returns a send engine to RTS.
pub(crate) fn resume_engine(engine: &mut impl SendEngine) {
    engine.core_mut().notify_drained = false;
    engine.resume();
}

/// Moves `engine` to RESET: discards posted requests, replies, and the packets in `inbox`.
pub(crate) fn reset_engine(engine: &mut impl Engine, inbox: &SkbQueue) {
    inbox.purge();
    engine.core_mut().reset();
    engine.reset();
}
