// SPDX-License-Identifier: GPL-2.0

//! The frame of every queue pair: two halves, and who runs them.
//!
//! Owns the two halves, the packets that wait for them, the timer, and the rule of who runs a half:
//! whoever has an event for it (a doorbell, a packet, memory that has come) tries to become its owner, and runs
//! it there and then. One who finds it running leaves the event behind, and the owner looks again before it
//! leaves ([`Exclusive`]). Nobody waits, so nothing hops to another thread; only what exceeds the budget of
//! one turn goes to a BH work item, and answers that last for many turns make way for a thread in between. To a BH
//! work item go, too, timers, of which many may expire together, and what consumers in the kernel post: they may have
//! interrupts off, where no half can be run.
//!
//! Does not know what a half does with its turn: that is what makes a [`Transport`], which service.rs defines.

mod transport;
mod work;

pub(crate) use transport::{
    Direction,
    Transport, //
};

use self::work::{
    RECEIVE,
    RECEIVE_FAULT,
    RECEIVE_YIELD,
    SEND,
    SEND_FAULT, //
};
use crate::{
    qp::{
        actions::Actions,
        engine::{
            poll_engine,
            Engine, //
        },
        shared::QpShared, //
    },
    queue::rq::PostedRecvs, //
};
use kernel::{
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        self,
        Work, //
    }, //
};
use rdma::{
    ib::{
        driver::QpQuery,
        event::QpEvent,
        qp_attr::{
            QpAttr,
            QpCaps, //
        }, //
    },
    net::rx::{
        queue::SkbQueue,
        skb::RxSkb, //
    },
    sync::{
        exclusive::{
            Exclusive, //
            Pending,
        },
        quiesce::LiveRef,
        timer::Timer,
        work::{
            cancel_work,
            take_back_work, //
        }, //
    }, //
};
use roce::{
    psn::Psn,
    status::DropReason, //
};

/// Where a consumer in the kernel posts.
pub(crate) struct KernelPosts<S> {
    /// Sends.
    pub(crate) sends: S,
    /// Receives, if they do not come from a shared queue.
    pub(crate) receives: Option<Arc<PostedRecvs>>,
}

/// What a queue pair is made from, beside its halves.
pub(crate) struct QpConfig<T: Transport> {
    /// What the halves share.
    pub(crate) shared: QpShared,
    /// How much it holds.
    pub(crate) caps: QpCaps,
    /// Whether every send is reported.
    pub(crate) signal_all: bool,
    /// Where a consumer in the kernel posts; a process has rings.
    pub(crate) posts: Option<KernelPosts<T::Sends>>,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp<T: Transport> {
    parts: QpConfig<T>,
    /// What the consumer has set, for `query_qp`.
    #[pin]
    attr: Mutex<QpAttr>,
    #[pin]
    sender: Exclusive<T::Sender>,
    #[pin]
    receiver: Exclusive<T::Receiver>,
    /// Responses, on their way to the sender.
    #[pin]
    responses: SkbQueue,
    /// Requests, on their way to the receiver.
    #[pin]
    requests: SkbQueue,
    /// When a half wants a turn.
    #[pin]
    timer: Timer<Self>,
    #[pin]
    send_work: Work<Self, SEND>,
    #[pin]
    receive_work: Work<Self, RECEIVE>,
    /// Probably, that is queued to go on with answers; a hint only.
    receive_deferred: Atomic<bool>,
    /// Queues that, where there is so much to do that others would wait for long.
    #[pin]
    receive_yield: Work<Self, RECEIVE_YIELD>,
    /// Bring memory that a half waits for.
    #[pin]
    send_fault: Work<Self, SEND_FAULT>,
    #[pin]
    receive_fault: Work<Self, RECEIVE_FAULT>,
    /// The module cannot go while one of these is left. So it is dropped last.
    _alive: LiveRef,
}

rdma::impl_has_timer! {
    impl{T: Transport} HasTimer for Qp<T> { self.timer }
}

impl<T: Transport> Qp<T> {
    /// A queue pair in RESET.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        parts: QpConfig<T>,
        (sender, receiver): (T::Sender, T::Receiver),
        alive: LiveRef,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                parts,
                attr <- new_mutex!(QpAttr::default(), "ferroce::Qp::attr"),
                sender <- Exclusive::new(sender),
                receiver <- Exclusive::new(receiver),
                responses <- SkbQueue::new(T::INBOX_BYTES),
                requests <- SkbQueue::new(T::INBOX_BYTES),
                timer <- Timer::new(),
                send_work <- new_work!("Qp::send_work"),
                receive_work <- new_work!("Qp::receive_work"),
                receive_deferred: Atomic::new(false),
                receive_yield <- new_work!("Qp::receive_long"),
                send_fault <- new_work!("Qp::send_pages"),
                receive_fault <- new_work!("Qp::receive_pages"),
                _alive: alive,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    // Getters.

    /// What the two halves share.
    #[inline]
    pub(crate) fn shared(&self) -> &QpShared {
        &self.parts.shared
    }

    /// What there is to know of it, as it is now.
    pub(crate) fn query(self: ArcBorrow<'_, Self>) -> QpQuery {
        let mut attr = *self.attr.lock();
        if self.shared().takes_sends() {
            let ((psn, draining), _) = self.sender.enter(T::sending);
            (attr.sq_psn, attr.sq_draining) = (psn.get(), draining);
        }
        if self.shared().receives() {
            let (psn, _) = self.receiver.enter(T::expecting);
            attr.rq_psn = psn.map_or(attr.rq_psn, Psn::get);
        }
        // Who came meanwhile has left it to us.
        self.run_sender();
        self.run_receiver();
        // Last: the turns that we have waited for may have ended with a failure.
        attr.qp_state = self.shared().state();
        attr.cur_qp_state = attr.qp_state;
        QpQuery {
            attr,
            caps: self.parts.caps,
            sq_sig_all: self.parts.signal_all,
        }
    }

    /// Whether every send is reported.
    pub(crate) fn signals_all(&self) -> bool {
        self.parts.signal_all
    }

    /// Where a consumer in the kernel posts.
    pub(crate) fn posts(&self) -> Option<&KernelPosts<T::Sends>> {
        self.parts.posts.as_ref()
    }

    /// What the consumer has set.
    pub(crate) fn attr(&self) -> &Mutex<QpAttr> {
        &self.attr
    }

    /// The half that sends requests.
    pub(crate) fn sender(&self) -> &Exclusive<T::Sender> {
        &self.sender
    }

    /// The half that answers requests.
    pub(crate) fn receiver(&self) -> &Exclusive<T::Receiver> {
        &self.receiver
    }

    // The end.

    /// Goes to RESET: forgets what was posted, sent, received, and the peer.
    pub(crate) fn reset(&self) {
        // First, so that a turn that begins now finds nothing to do.
        self.shared().reset();
        let _ = self.sender.enter(|engine| {
            engine.reset(&self.responses);
            engine.fault_wait().reset();
        });
        let _ = self.receiver.enter(|engine| {
            engine.reset(&self.requests);
            engine.fault_wait().reset();
        });
    }

    /// Waits until nothing of the queue pair is on its way any more. To be called in RESET, when no
    /// packet finds it: then nothing can start again.
    ///
    /// Not for memory that is being brought: that may take as long as its process likes, which may
    /// be the very one that waits for us. Whoever brings it holds a reference, and finds nothing
    /// to do with it; who has not begun to is not going to, or those that have gone would wait in front of others.
    /// A turn that it gave before RESET has set the timer by now, as there was a grace period since
    /// (see [`service_fault`](crate::qp::engine::bring)).
    pub(crate) fn quiesce(self: ArcBorrow<'_, Self>) {
        // Twice: a work item that began before RESET may have queued itself or another, set the timer, or waited for
        // the network. Now they find nothing to do. Those two queue work items, so they are stopped first.
        for _ in 0..2 {
            self.timer.cancel();
            self.shared().tx_inflight().forget_waiter();
            cancel_work::<_, SEND>(self);
            cancel_work::<_, RECEIVE_YIELD>(self);
            cancel_work::<_, RECEIVE>(self);
        }
        take_back_work::<_, SEND_FAULT>(self);
        take_back_work::<_, RECEIVE_FAULT>(self);
    }

    // Events.

    /// A process has posted sends.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS.
    pub(crate) fn doorbell(self: ArcBorrow<'_, Self>) -> Result {
        if !self.shared().takes_sends() {
            return Err(EINVAL);
        }
        self.run_sender();
        if self.shared().is_failed() {
            // There is no doorbell for receives.
            self.run_receiver();
        }
        Ok(())
    }

    /// Has sends that a consumer in the kernel has posted looked at. For any context, also with
    /// interrupts off.
    pub(crate) fn sends_posted(self: ArcBorrow<'_, Self>) {
        self.defer_sender();
    }

    /// As [`Qp::sends_posted`], of receives: they wait for packets, but in the error state.
    pub(crate) fn receives_posted(self: ArcBorrow<'_, Self>) {
        if self.shared().is_failed() {
            self.defer_receiver();
        }
    }

    /// Requests have come in.
    pub(crate) fn request_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb) {
        if !self.enqueue(&self.requests, skb) {
            return;
        }
        match self.receive_deferred.load(Relaxed) {
            // Here, answers that a peer on this machine asks for as earlier ones arrive would all leave in one pass of
            // the network's softirq. Already queued is as good.
            true => self.defer_receiver(),
            false => self.run_receiver(),
        }
    }

    /// Responses have come in.
    pub(crate) fn response_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb) {
        if self.enqueue(&self.responses, skb) {
            self.run_sender();
        }
    }

    fn enqueue(&self, queue: &SkbQueue, skb: RxSkb) -> bool {
        if self.shared().is_failed() {
            self.refuse(&skb);
            return false;
        }
        let packets = skb.packets();
        let taken = queue.push(skb);
        if !taken {
            let counters = self.shared().port().counters();
            counters.dropped_all(DropReason::QueueFull, packets);
        }
        taken
    }

    /// Counts packets for a failed queue pair. No half takes any, and a turn would be one more look at what was posted,
    /// for each of them.
    fn refuse(&self, skb: &RxSkb) {
        let packets = skb.packets();
        self.shared().received(packets, skb.udp_payload_len());
        let counters = self.shared().port().counters();
        counters.dropped_all(DropReason::WrongQpState, packets);
    }

    // Turns.

    /// Gives the sender a turn, now if nobody runs it.
    pub(crate) fn run_sender(self: ArcBorrow<'_, Self>) {
        let mut actions = Actions::default();
        let left = self
            .sender
            .run(|engine| poll_engine(engine, self.shared(), &self.responses, &mut actions));
        if let Pending::Work = left {
            self.defer_sender();
        }
        if actions.absent {
            let pages = &self.shared().port().workqueues().pages;
            // Already queued is as good.
            let _ = pages.enqueue::<Arc<Self>, SEND_FAULT>(self.into());
        }
        self.apply(actions);
    }

    /// Gives the receiver a turn, now if nobody runs it.
    pub(crate) fn run_receiver(self: ArcBorrow<'_, Self>) {
        let mut actions = Actions::default();
        let left = self
            .receiver
            .run(|engine| poll_engine(engine, self.shared(), &self.requests, &mut actions));
        if let Pending::Work = left {
            match actions.wants_yield {
                true => self.yield_cpu(),
                false => self.defer_responses(),
            }
        }
        if actions.absent {
            let pages = &self.shared().port().workqueues().pages;
            let _ = pages.enqueue::<Arc<Self>, RECEIVE_FAULT>(self.into());
        }
        self.apply(actions);
    }

    /// Gives the sender a turn from a work item.
    fn defer_sender(self: ArcBorrow<'_, Self>) {
        // Already queued is as good.
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND>(self.into());
    }

    /// Gives the receiver a turn from a work item.
    pub(crate) fn defer_receiver(self: ArcBorrow<'_, Self>) {
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, RECEIVE>(self.into());
    }

    /// As [`Qp::defer_receiver`], to go on. What comes meanwhile waits for that, too, where requests are answered; a
    /// receiver of datagrams would lose them.
    fn defer_responses(self: ArcBorrow<'_, Self>) {
        let answers = matches!(T::RESUMED, Direction::Receive);
        self.receive_deferred.store(answers, Relaxed);
        self.defer_receiver();
    }

    /// Gives the receiver a turn from a work item once a thread has run on this CPU, so that others have, too.
    fn yield_cpu(self: ArcBorrow<'_, Self>) {
        let turns = &self.shared().port().workqueues().turns;
        let _ = turns.enqueue::<Arc<Self>, RECEIVE_YIELD>(self.into());
    }

    /// Does what a half could not do while it was running: sets the timer, tells the consumer, and lets both
    /// halves flush if it has taken the queue pair to the error state.
    fn apply(self: ArcBorrow<'_, Self>, actions: Actions) {
        if let Some(at) = actions.wake_at {
            Timer::arm(self, at);
        }
        if let Some(bytes) = actions.resume_below {
            let this: Arc<Self> = self.into();
            self.shared().tx_inflight().resume_below(bytes, this);
        }
        if actions.established {
            self.shared().handle().event(QpEvent::CommEstablished);
        }
        if actions.drained {
            self.shared().handle().event(QpEvent::SqDrained);
        }
        if actions.last_wqe {
            self.shared().handle().event(QpEvent::LastWqe);
        }
        let Some(event) = actions.flush else {
            return;
        };
        if let Some(event) = event {
            self.shared().handle().event(event);
        }
        self.run_sender();
        self.run_receiver();
    }
}
