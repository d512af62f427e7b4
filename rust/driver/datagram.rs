// SPDX-License-Identifier: GPL-2.0

//! Datagram queue pairs: UD, and the general services queue pair (QP 1), which is one.
//!
//! Owns the two halves and the rule of who runs them, which is that of reliable connections (see
//! `qp`), but for consumers in the kernel: they post in any context, also with interrupts off, so
//! what they post is sent from a BH work item. Does not know address handles nor packets.

pub(crate) mod receiver;
pub(crate) mod sender;

use crate::{
    common::{
        Aftermath,
        Common, //
    },
    posted::{
        Posted,
        PostedSend, //
    },
    rq::ReceivePosts, //
};
use kernel::{
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    }, //
};
use rdma::{
    attr::{
        QpAttr,
        QpAttrMask,
        QpCaps,
        QpState, //
    },
    driver::QpQuery,
    event::QpEvent,
    net::rx::{
        RxSkb,
        SkbQueue, //
    },
    turn::{
        Left,
        Turn, //
    },
    wait::{
        flush_work,
        Alive, //
    },
    wr, //
};
use receiver::ReceiveHalf;
use roce::{
    id::Qkey,
    psn::Psn,
    status::DropReason, //
};
use sender::SendHalf;

/// Most datagrams that wait for the receiver.
const INBOX: u32 = 1024;

/// What a consumer in the kernel has posted.
pub(crate) struct Posts {
    /// Datagrams to be sent.
    pub(crate) sends: Arc<Posted<PostedSend>>,
    /// Receives.
    pub(crate) receives: Arc<ReceivePosts>,
}

/// A datagram queue pair.
#[pin_data]
pub(crate) struct Datagram {
    common: Common,
    caps: QpCaps,
    signal_all: bool,
    /// For a consumer in the kernel.
    posts: Option<Posts>,
    #[pin]
    attr: Mutex<QpAttr>,
    #[pin]
    sender: Turn<SendHalf>,
    #[pin]
    receiver: Turn<ReceiveHalf>,
    /// Datagrams, on their way to the receiver.
    #[pin]
    inbox: SkbQueue,
    #[pin]
    send_work: Work<Self, SEND>,
    #[pin]
    receive_work: Work<Self, RECEIVE>,
    /// The module cannot go while one of these is left.
    _alive: Alive,
}

/// Number of the sender's work item.
const SEND: u64 = 0;

/// Number of the receiver's work item.
const RECEIVE: u64 = 1;

impl_has_work! {
    impl HasWork<Self, SEND> for Datagram { self.send_work }
    impl HasWork<Self, RECEIVE> for Datagram { self.receive_work }
}

impl Datagram {
    /// A queue pair in RESET.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        common: Common,
        caps: QpCaps,
        signal_all: bool,
        posts: Option<Posts>,
        (sender, receiver): (SendHalf, ReceiveHalf),
        alive: Alive,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                common,
                caps,
                signal_all,
                posts,
                attr <- new_mutex!(QpAttr::default()),
                sender <- Turn::new(sender),
                receiver <- Turn::new(receiver),
                inbox <- SkbQueue::new(INBOX),
                send_work <- new_work!("Datagram::send_work"),
                receive_work <- new_work!("Datagram::receive_work"),
                _alive: alive,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// What the two halves share.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// What there is to know of it.
    pub(crate) fn query(&self) -> QpQuery {
        let mut attr = *self.attr.lock();
        attr.qp_state = self.common.state();
        attr.cur_qp_state = attr.qp_state;
        QpQuery {
            attr,
            caps: self.caps,
            sq_sig_all: self.signal_all,
        }
    }

    /// Whether every send is reported.
    pub(crate) fn signals_all(&self) -> bool {
        self.signal_all
    }

    /// Sets the attributes that `mask` names.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port or a partition that does not exist; `EOPNOTSUPP` for attributes that no
    /// queue pair here has.
    pub(crate) fn modify(self: ArcBorrow<'_, Self>, new: &QpAttr, mask: QpAttrMask) -> Result {
        if mask.intersects(QpAttrMask::OTHERS) {
            return Err(EOPNOTSUPP);
        }
        if mask.contains(QpAttrMask::PORT) && new.port_num != 1
            || mask.contains(QpAttrMask::PKEY_INDEX) && new.pkey_index != 0
        {
            return Err(EINVAL);
        }
        let mut attr = self.attr.lock();
        if mask.contains(QpAttrMask::PORT) {
            attr.port_num = new.port_num;
        }
        if mask.contains(QpAttrMask::QKEY) {
            attr.qkey = new.qkey;
            let qkey = Qkey::new(new.qkey);
            let _ = self.sender.control(|half| half.set_qkey(qkey));
            let _ = self.receiver.control(|half| half.set_qkey(qkey));
        }
        if mask.contains(QpAttrMask::SQ_PSN) {
            attr.sq_psn = new.sq_psn;
            let psn = Psn::new(new.sq_psn);
            let _ = self.sender.control(|half| half.set_psn(psn));
        }
        if mask.contains(QpAttrMask::STATE) {
            match new.qp_state {
                QpState::Reset => self.reset(),
                QpState::Err => {
                    let _ = self.common.fail();
                }
                to => self.common.change_state(self.common.state(), to),
            }
        }
        drop(attr);
        if mask.contains(QpAttrMask::STATE) && new.qp_state == QpState::Sqd {
            // Nothing is ever in progress.
            self.common.handle().event(QpEvent::SqDrained);
        }
        self.run_sender();
        self.run_receiver();
        Ok(())
    }

    /// Forgets what was posted and received.
    pub(crate) fn reset(&self) {
        self.common
            .change_state(self.common.state(), QpState::Reset);
        let _ = self.sender.control(SendHalf::reset);
        let _ = self.receiver.control(|half| half.reset(&self.inbox));
    }

    /// Waits until nothing of the queue pair is on its way any more.
    pub(crate) fn quiesce(&self) {
        flush_work(&self.send_work);
        flush_work(&self.receive_work);
    }

    /// A process has posted sends.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS.
    pub(crate) fn doorbell(self: ArcBorrow<'_, Self>) -> Result {
        if !self.common.takes_sends() {
            return Err(EINVAL);
        }
        self.run_sender();
        Ok(())
    }

    /// Takes a datagram of a consumer in the kernel. [`Datagram::kick`] has it sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS; `ENOMEM` when too many are posted.
    pub(crate) fn post_send(&self, request: PostedSend) -> Result {
        if !self.common.takes_sends() {
            return Err(EINVAL);
        }
        let posts = self.posts.as_ref().ok_or(EINVAL)?;
        posts.sends.push(request)
    }

    /// Takes a receive of a consumer in the kernel.
    ///
    /// # Errors
    ///
    /// `EINVAL` in RESET, or for too long a scatter list; `ENOMEM` when too many are posted.
    pub(crate) fn post_recv(&self, request: &wr::RecvWr<'_>) -> Result {
        if self.common.state() == QpState::Reset {
            return Err(EINVAL);
        }
        let posts = self.posts.as_ref().ok_or(EINVAL)?;
        posts.receives.push(request)
    }

    /// Has what was posted looked at, from another context.
    pub(crate) fn kick(self: ArcBorrow<'_, Self>) {
        // Already queued is as good.
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND>(self.into());
        if self.common.is_failed() {
            let _ = workqueue::system_bh().enqueue::<Arc<Self>, RECEIVE>(self.into());
        }
    }

    /// A datagram has come in, `bytes` long.
    pub(crate) fn arrived(self: ArcBorrow<'_, Self>, skb: RxSkb, bytes: usize) {
        let counters = self.common.port().counters();
        if !self.inbox.push(skb) {
            return counters.dropped(DropReason::QueueFull);
        }
        counters.received(bytes);
        self.run_receiver();
    }

    fn run_sender(self: ArcBorrow<'_, Self>) {
        let mut after = Aftermath::default();
        let left = self.sender.run(|half| half.turn(&self.common, &mut after));
        if let Left::Unfinished = left {
            let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND>(self.into());
        }
        self.settle(after);
    }

    fn run_receiver(self: ArcBorrow<'_, Self>) {
        let mut after = Aftermath::default();
        let left = self
            .receiver
            .run(|half| half.turn(&self.common, &self.inbox, &mut after));
        if let Left::Unfinished = left {
            let _ = workqueue::system_bh().enqueue::<Arc<Self>, RECEIVE>(self.into());
        }
        self.settle(after);
    }

    fn settle(self: ArcBorrow<'_, Self>, after: Aftermath) {
        if after.failed.is_some() && self.common.fail() {
            self.common.handle().event(QpEvent::Fatal);
            self.run_sender();
            self.run_receiver();
        }
    }
}

impl WorkItem<SEND> for Datagram {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_sender();
    }
}

impl WorkItem<RECEIVE> for Datagram {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_receiver();
    }
}
