// SPDX-License-Identifier: GPL-2.0

//! Datagram queue pairs: UD, and the general services queue pair (QP 1), which is one.
//!
//! Owns what the attributes of a queue pair mean to the two halves, and the queues that consumers in
//! the kernel post to. Does not know address handles nor packets.

pub(crate) mod receiver;
pub(crate) mod sender;

use crate::{
    pair::{
        Pair,
        Service, //
    },
    posted::{
        Posted,
        PostedSend, //
    },
    rq::ReceivePosts, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    attr::{
        QpAttr,
        QpAttrMask,
        QpState, //
    },
    wr, //
};
use receiver::ReceiveHalf;
use roce::{
    id::Qkey,
    psn::Psn, //
};
use sender::SendHalf;

/// What a consumer in the kernel has posted.
pub(crate) struct Posts {
    /// Datagrams to be sent.
    pub(crate) sends: Arc<Posted<PostedSend>>,
    /// Receives.
    pub(crate) receives: Arc<ReceivePosts>,
}

/// Unreliable datagrams.
pub(crate) struct Ud;

impl Service for Ud {
    type Sender = SendHalf;
    type Receiver = ReceiveHalf;
    type Posts = Option<Posts>;

    const INBOX: u32 = 1024;

    fn ready_to_receive(_qp: &Pair<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn ready_to_send(_qp: &Pair<Self>, _attr: &QpAttr) -> Result {
        Ok(())
    }

    fn adjust(qp: &Pair<Self>, attr: &QpAttr, mask: QpAttrMask) {
        if mask.contains(QpAttrMask::QKEY) {
            let qkey = Qkey::new(attr.qkey);
            let _ = qp.sender().control(|half| half.set_qkey(qkey));
            let _ = qp.receiver().control(|half| half.set_qkey(qkey));
        }
        if mask.contains(QpAttrMask::SQ_PSN) {
            let psn = Psn::new(attr.sq_psn);
            let _ = qp.sender().control(|half| half.set_psn(psn));
        }
    }
}

impl Pair<Ud> {
    /// Takes a datagram of a consumer in the kernel. [`Pair::kick`] has it sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS; `ENOMEM` when too many are posted.
    pub(crate) fn post_send(&self, request: PostedSend) -> Result {
        if !self.common().takes_sends() {
            return Err(EINVAL);
        }
        let posts = self.posts().as_ref().ok_or(EINVAL)?;
        posts.sends.push(request)
    }

    /// Takes a receive of a consumer in the kernel.
    ///
    /// # Errors
    ///
    /// `EINVAL` in RESET, or for too long a scatter list; `ENOMEM` when too many are posted.
    pub(crate) fn post_recv(&self, request: &wr::RecvWr<'_>) -> Result {
        if self.common().state() == QpState::Reset {
            return Err(EINVAL);
        }
        let posts = self.posts().as_ref().ok_or(EINVAL)?;
        posts.receives.push(request)
    }
}
