// SPDX-License-Identifier: GPL-2.0

//! Attaching completion counters to a QP. Process context.

use crate::{
    qp::{
        engine::Engine,
        queue_pair::{
            Qp,
            Transport, //
        }, //
    },
    queue::comp_cntr::{
        AttachedCntrs,
        CompCntr, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};
use rdma::ib::comp_cntr::CompCntrOps;

/// Counts the operations `ops` of `qp` in `counter`, until the QP is destroyed. Waits for the owners of the engines.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn attach<T: Transport>(
    qp: ArcBorrow<'_, Qp<T>>,
    counter: &Arc<CompCntr>,
    ops: CompCntrOps,
) -> Result {
    // An engine has an owner that may not sleep.
    let new = || KBox::new(AttachedCntrs::default(), GFP_KERNEL_ACCOUNT);
    let (mut for_sender, mut for_receiver) = (Some(new()?), Some(new()?));
    let _ = qp
        .sender()
        .enter(|engine| attach_to(engine, &mut for_sender, (counter, ops)));
    let _ = qp
        .receiver()
        .enter(|engine| attach_to(engine, &mut for_receiver, (counter, ops)));
    // An event that arrived meanwhile was left to us.
    qp.run_sender();
    qp.run_receiver();
    Ok(())
}

/// Attaches a counter to an engine. Takes `new` for its first one.
fn attach_to(
    engine: &mut impl Engine,
    new: &mut Option<KBox<AttachedCntrs>>,
    (counter, ops): (&Arc<CompCntr>, CompCntrOps),
) {
    let counters = &mut engine.core_mut().counters;
    if counters.is_none() {
        *counters = new.take();
    }
    if let Some(counters) = counters {
        counters.attach(counter, ops);
    }
    // A process that waits for a counter polls nothing, and would leave what it holds back to the timer.
    if let Some(queue) = engine.send_queue() {
        queue.require_doorbells();
    }
}
