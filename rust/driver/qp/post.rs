// SPDX-License-Identifier: GPL-2.0

//! Posting of work requests by kernel consumers: which are accepted in which state.
//!
//! Any context may post, also with interrupts off. Requests are only written to the ring here; the engine's next run
//! processes them.

use crate::{
    port::ah::Ah,
    qp::{
        any_qp::AnyQp,
        queue_pair::KernelPosts, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    qp_attr::IbQpState,
    wr::{
        KernelSendWr,
        RecvWrList,
        SendWrList, //
    }, //
};

/// Posts the sends in `list`.
///
/// # Errors
///
/// `EINVAL` before RTS, and for an invalid request; `EOPNOTSUPP` for an unknown one; `ENOMEM` if the queue is full.
pub(crate) fn post_sends<A: AsRef<Arc<Ah>>>(qp: &AnyQp, list: &mut SendWrList<'_, A>) -> Result {
    if !qp.shared().accepts_sends() {
        // The list reports the request that was yielded last as the bad one.
        let _ = list.next();
        return Err(EINVAL);
    }
    let posted = list.try_for_each(|wr| post_send(qp, qp.posts().ok_or(EINVAL)?, &wr));
    qp.sends_posted();
    posted
}

fn post_send<A: AsRef<Arc<Ah>>>(
    qp: &AnyQp,
    posts: &KernelPosts,
    wr: &KernelSendWr<'_, A>,
) -> Result {
    let shared = qp.shared();
    let Some(ahs) = &posts.ahs else {
        return posts.sends.post_send(|| shared.accepts_sends(), wr, |_| ());
    };
    // The core drains any QP by a WRITE that it posts in ERR, where it is only flushed.
    let ah = wr.ah();
    let accepts = || match ah {
        Some(_) => shared.accepts_sends(),
        None => shared.is_failed(),
    };
    posts.sends.post_send(accepts, wr, |number| {
        if let Some(ah) = ah {
            ahs.put(number, ah.as_ref().as_ref().clone());
        }
    })
}

/// Posts the receives in `list`.
///
/// # Errors
///
/// `EINVAL` in RESET, if the scatter list is too long, or if the QP uses an SRQ; `ENOMEM` if the queue is
/// full.
pub(crate) fn post_receives(qp: &AnyQp, list: &mut RecvWrList<'_>) -> Result {
    let receives = qp.posts().and_then(|posts| posts.receives.as_ref());
    let posted = list.try_for_each(|wr| {
        let accepts = || qp.shared().state() != IbQpState::Reset;
        receives.ok_or(EINVAL)?.post_recv(accepts, &wr)
    });
    qp.receives_posted();
    posted
}
