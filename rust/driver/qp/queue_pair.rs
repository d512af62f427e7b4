// SPDX-License-Identifier: GPL-2.0

//! The QP of any service: its two engines, and which context runs them.
//!
//! A context that has an event for an engine (doorbell, packet, serviced page fault) tries to become its
//! owner and runs it. If the engine is owned, the context sets the pending flag and returns; the owner looks
//! again before it releases the engine ([`Exclusive`]). No event waits for an owner, so no event needs a thread
//! switch.
//!
//! BH work items run an engine where its work exceeds the budget, where timers expire (many may expire
//! together), and where a ULP posts (it may have interrupts off, and an engine must not run then); that item runs
//! within the post if the task has just woken up. A receive engine that stays busy for many runs yields the CPU to
//! threads in between.
//!
//! [`Transport`] defines the services; `work` holds the work items and the timer.

mod transport;
mod work;

pub(crate) use transport::{
    Direction,
    Transport, //
};

use self::work::{
    RECEIVE_RX_FAULT_WORK,
    RECEIVE_TX_FAULT_WORK,
    RECEIVE_WORK,
    RECEIVE_YIELD_WORK,
    SEND_RX_FAULT_WORK,
    SEND_TX_FAULT_WORK,
    SEND_WORK, //
};
use crate::{
    port::ah::PostedAhs,
    qp::{
        actions::Actions,
        poll::{
            hand_over,
            poll_engine,
            reset_engine, //
        },
        run::QpRun,
        rx::enqueue,
        shared::QpShared, //
    },
    queue::{
        producer::Posts,
        sq::SendSize, //
    }, //
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
            Exclusive,
            Pending, //
        },
        quiesce::LiveRef,
        read_section::ReadSection,
        softirq::OncePerWakeup,
        timer::Timer,
        work::{
            cancel_work,
            cancel_work_nowait, //
        },
        workqueue::{
            cond_resched,
            need_resched, //
        }, //
    }, //
};
use roce::{
    psn::Psn,
    status::DropReason, //
};

/// Turns of the send engine in one doorbell, each of `MAX_ROUNDS` rounds (see [`Exclusive`]): 4 to 16 MiB.
const DOORBELL_TURNS: u32 = 16;

/// While requests are handled as they arrive, one buffer in this many is left to the work item.
const GATHER_INTERVAL: u32 = 32;

/// Where a kernel consumer posts.
pub(crate) struct KernelPosts {
    /// Sends.
    pub(crate) sends: Arc<Posts>,
    /// Receives, unless they come from an SRQ.
    pub(crate) receives: Option<Arc<Posts>>,
    /// Address handles of posted datagrams, if the service is one of datagrams.
    pub(crate) ahs: Option<Arc<PostedAhs>>,
}

/// Parameters of a QP, apart from its engines.
pub(crate) struct QpConfig {
    /// State that both engines use.
    pub(crate) shared: QpShared,
    /// Capabilities of the QP.
    pub(crate) caps: QpCaps,
    /// Whether every send is signaled.
    pub(crate) signal_all: bool,
    /// Sends that may be in progress.
    pub(crate) send_size: SendSize,
    /// Where a kernel consumer posts. `None` for a process, which writes to its rings.
    pub(crate) posts: Option<KernelPosts>,
}

/// The engines of a new QP of service `T`. They are large, and the stack is small.
pub(crate) type Engines<T> = (
    KBox<<T as Transport>::Sender>,
    KBox<<T as Transport>::Receiver>,
);

/// A queue pair.
#[pin_data]
pub(crate) struct Qp<T: Transport> {
    config: QpConfig,
    /// Attributes that the consumer has set, for `query_qp`. Held for all of `modify_qp`.
    #[pin]
    attr: Mutex<QpAttr>,
    #[pin]
    sender: Exclusive<T::Sender>,
    #[pin]
    receiver: Exclusive<T::Receiver>,
    /// Inbox of the send engine.
    #[pin]
    response_inbox: SkbQueue,
    /// Inbox of the receive engine.
    #[pin]
    request_inbox: SkbQueue,
    /// Runs an engine at the time that it asked for, see [`wakes`](crate::qp::wakes).
    #[pin]
    timer: Timer<Self>,
    #[pin]
    send_work: Work<Self, SEND_WORK>,
    #[pin]
    receive_work: Work<Self, RECEIVE_WORK>,
    /// Decides whether the send work item of a ULP's post runs within the post.
    posting: OncePerWakeup,
    /// Hint: the receive work item is probably queued to continue with responses.
    receive_deferred: Atomic<bool>,
    /// Hint: requests arrive several at a time, so they are left to the receive work item.
    gathers: Atomic<bool>,
    /// Buffers of requests that were handled as they arrived. CPUs may overwrite each other's count.
    arrivals: Atomic<u32>,
    /// Queues `receive_work` once threads have run on this CPU.
    #[pin]
    receive_yield: Work<Self, RECEIVE_YIELD_WORK>,
    /// Services page faults of requests.
    #[pin]
    send_tx_fault: Work<Self, SEND_TX_FAULT_WORK>,
    /// Services page faults of received responses.
    #[pin]
    send_rx_fault: Work<Self, SEND_RX_FAULT_WORK>,
    /// Services page faults of responses.
    #[pin]
    receive_tx_fault: Work<Self, RECEIVE_TX_FAULT_WORK>,
    /// Services page faults of received requests.
    #[pin]
    receive_rx_fault: Work<Self, RECEIVE_RX_FAULT_WORK>,
    /// Keeps the module loaded. Dropped last.
    _live_ref: LiveRef,
}

rdma::impl_has_timer! {
    impl{T: Transport} HasTimer for Qp<T> { self.timer }
}

impl<T: Transport> Qp<T> {
    /// Creates a QP in RESET.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        config: QpConfig,
        (sender, receiver): Engines<T>,
        live_ref: LiveRef,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                config,
                attr <- new_mutex!(QpAttr::default(), "ferroce::Qp::attr"),
                sender <- Exclusive::new(sender),
                receiver <- Exclusive::new(receiver),
                response_inbox <- SkbQueue::new(T::INBOX_BYTES),
                request_inbox <- SkbQueue::new(T::INBOX_BYTES),
                timer <- Timer::new(),
                send_work <- new_work!("Qp::send_work"),
                receive_work <- new_work!("Qp::receive_work"),
                posting: OncePerWakeup::default(),
                receive_deferred: Atomic::new(false),
                gathers: Atomic::new(false),
                arrivals: Atomic::new(0),
                receive_yield <- new_work!("Qp::receive_yield"),
                send_tx_fault <- new_work!("Qp::send_tx_fault"),
                send_rx_fault <- new_work!("Qp::send_rx_fault"),
                receive_tx_fault <- new_work!("Qp::receive_tx_fault"),
                receive_rx_fault <- new_work!("Qp::receive_rx_fault"),
                _live_ref: live_ref,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    // Accessors.

    /// Returns the state that both engines use.
    #[inline]
    pub(crate) fn shared(&self) -> &QpShared {
        &self.config.shared
    }

    /// Returns the current attributes. Process context; waits for the owners of the engines.
    pub(crate) fn query(self: ArcBorrow<'_, Self>) -> QpQuery {
        let mut attr = *self.attr.lock();
        if self.shared().accepts_sends() {
            let ((psn, draining), _) = self.sender.enter(T::send_progress);
            (attr.sq_psn, attr.sq_draining) = (psn.get(), draining);
        }
        if self.shared().accepts_packets() {
            let (psn, _) = self.receiver.enter(T::expected_psn);
            attr.rq_psn = psn.map_or(attr.rq_psn, Psn::get);
        }
        // Run the engines: an event that arrived meanwhile was left to us.
        self.run_sender();
        self.run_receiver();
        // Last: the runs that `enter` waited for may have failed the QP.
        attr.qp_state = self.shared().state();
        attr.cur_qp_state = attr.qp_state;
        QpQuery {
            attr,
            caps: self.config.caps,
            sq_sig_all: self.config.signal_all,
        }
    }

    /// Returns how many sends may be in progress.
    pub(crate) fn send_size(&self) -> SendSize {
        self.config.send_size
    }

    /// Returns where a kernel consumer posts.
    pub(crate) fn posts(&self) -> Option<&KernelPosts> {
        self.config.posts.as_ref()
    }

    /// Returns the attributes that the consumer has set.
    pub(crate) fn attr(&self) -> &Mutex<QpAttr> {
        &self.attr
    }

    /// Returns the send engine.
    pub(crate) fn sender(&self) -> &Exclusive<T::Sender> {
        &self.sender
    }

    /// Returns the receive engine.
    pub(crate) fn receiver(&self) -> &Exclusive<T::Receiver> {
        &self.receiver
    }

    // Reset and teardown.

    /// Goes to RESET: discards posted requests, packets, replies, and the peer. Process context; waits for
    /// the owners of the engines.
    pub(crate) fn reset(&self) {
        // First, so that a run that begins now finds nothing to do.
        self.shared().reset();
        let _ = self.sender.enter(|engine| {
            reset_engine(engine, &self.response_inbox);
        });
        let _ = self.receiver.enter(|engine| {
            reset_engine(engine, &self.request_inbox);
        });
        self.shared().wakes().clear();
    }

    /// Waits until no work item, timer or transmit callback uses the QP. Sleeps. Teardown has this order:
    ///
    /// 1. The caller resets the QP. Runs that begin later find nothing to do.
    /// 2. The caller removes the QP from the demux, waits for its readers, and resets the QP again. Now no packet
    ///    finds the QP. A run of [`service_fault`](crate::qp::poll::service_fault) that began before RESET has
    ///    ended, because it is within a section. So step 3 cancels the timer that it may have armed.
    /// 3. `quiesce` stops the timer, the callback and the work items, and waits for them. Nothing starts again.
    /// 4. `quiesce` cancels queued page faults, so that they do not delay those of other QPs. It does not wait for
    ///    faults in progress: the faulting process controls how long they take and may itself be waiting for us.
    ///    A running fault holds its own reference and finds the QP in RESET.
    pub(crate) fn quiesce(self: ArcBorrow<'_, Self>) {
        // Twice: a work item that began before RESET may have queued itself or another one, armed the timer,
        // or registered for room in the stack. After the first pass, work items find nothing to do. The timer
        // and the callback queue work items, so they are stopped first.
        for _ in 0..2 {
            self.timer.cancel();
            self.shared().tx_inflight().cancel_waiter();
            cancel_work::<_, SEND_WORK>(self);
            cancel_work::<_, RECEIVE_YIELD_WORK>(self);
            cancel_work::<_, RECEIVE_WORK>(self);
        }
        cancel_work_nowait::<_, SEND_TX_FAULT_WORK>(self);
        cancel_work_nowait::<_, SEND_RX_FAULT_WORK>(self);
        cancel_work_nowait::<_, RECEIVE_TX_FAULT_WORK>(self);
        cancel_work_nowait::<_, RECEIVE_RX_FAULT_WORK>(self);
    }

    // Events.

    /// Handles a doorbell of a process: it has posted sends. Sends them here as far as the window allows, since a BH
    /// work item would leave that to ksoftirqd, which competes with a process that polls. Sleeps if another task is to
    /// run.
    ///
    /// # Errors
    ///
    /// `EINVAL` before RTS.
    pub(crate) fn doorbell(self: ArcBorrow<'_, Self>) -> Result {
        if !self.shared().accepts_sends() {
            return Err(EINVAL);
        }
        let mut turns = DOORBELL_TURNS;
        while let Pending::Work = self.sender_turn() {
            turns = turns.saturating_sub(1);
            if turns == 0 || current!().signal_pending() {
                self.defer_sender();
                break;
            }
            cond_resched();
        }
        if self.shared().is_failed() {
            // Receives have no doorbell.
            self.run_receiver();
        }
        Ok(())
    }

    /// Runs the send engine in a softirq, for sends that a ULP posted: at once if the task has slept since it posted
    /// last. For any context, also with interrupts off.
    pub(crate) fn sends_posted(self: ArcBorrow<'_, Self>) {
        self.posting.softirq(|| self.defer_sender());
    }

    /// Schedules a run for receives that a ULP posted, in the error state. Otherwise receives wait for
    /// packets.
    pub(crate) fn receives_posted(self: ArcBorrow<'_, Self>) {
        if self.shared().is_failed() {
            self.defer_receiver();
        }
    }

    /// Handles a received request, within `section`. Softirq.
    pub(crate) fn request_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb, section: &ReadSection) {
        if self.shared().is_failed() {
            return self.drop_packets(&skb);
        }
        if !self.receive_deferred.load(Relaxed) && !self.gathers_requests() {
            return self.receive_request(skb, section);
        }
        // Leave the requests to the work item. If it continues with responses: a peer on this host sends new requests
        // when responses arrive, in the same pass of the network softirq. If the engine ran here, that pass would not
        // end before all responses are sent.
        if enqueue(self.shared(), &self.request_inbox, skb) {
            self.defer_receiver();
        }
    }

    /// Returns whether a request is left to the work item, which runs next in this softirq and then acknowledges all
    /// that have gathered. From time to time it is left there, with those behind it, to see whether any do. RC only,
    /// see [`Qp::defer_responses`].
    ///
    /// If another task is to run on this CPU, the work item would wait for ksoftirqd.
    #[inline]
    fn gathers_requests(&self) -> bool {
        if matches!(T::TX_LIMITED, Direction::Send) {
            return false;
        }
        if !self.gathers.load(Relaxed) {
            let arrivals = self.arrivals.load(Relaxed).wrapping_add(1);
            self.arrivals.store(arrivals, Relaxed);
            if arrivals % GATHER_INTERVAL != 0 {
                return false;
            }
            self.gathers.store(true, Relaxed);
        }
        !need_resched()
    }

    /// Runs the receive engine for the requests that were left to the work item. Later ones are left to it as well if
    /// several have gathered.
    fn run_gathered(self: ArcBorrow<'_, Self>) {
        self.receive_deferred.store(false, Relaxed);
        let several = self.request_inbox.buffers() > 1;
        self.gathers.store(several, Relaxed);
        self.run_receiver();
    }

    /// Handles a received response, within `section`. Softirq.
    pub(crate) fn response_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb, section: &ReadSection) {
        if self.shared().is_failed() {
            return self.drop_packets(&skb);
        }
        let mut actions = Actions::default();
        let run = || QpRun::of_sender(self.shared(), section);
        let engine_and_inbox = (&self.sender, &self.response_inbox);
        let is_due = hand_over(engine_and_inbox, skb, (self.shared(), run), &mut actions);
        self.sender_ran(actions);
        if is_due {
            self.run_sender();
        }
    }

    /// Runs the receive engine with a request that has arrived, as [`Qp::response_arrived`] the other.
    fn receive_request(self: ArcBorrow<'_, Self>, skb: RxSkb, section: &ReadSection) {
        let mut actions = Actions::default();
        let run = || QpRun::of_receiver(self.shared(), section);
        let engine_and_inbox = (&self.receiver, &self.request_inbox);
        let is_due = hand_over(engine_and_inbox, skb, (self.shared(), run), &mut actions);
        self.receiver_ran(actions, Pending::None);
        if is_due {
            self.run_receiver();
        }
    }

    /// Counts packets for a QP in the error state. Running an engine for each would only scan the posted
    /// requests again.
    fn drop_packets(&self, skb: &RxSkb) {
        let packets = skb.packets();
        let (bytes, counters) = (skb.udp_payload_len(), self.shared().port().counters());
        self.shared().traffic().dropped(packets, bytes);
        counters.received(packets, bytes);
        counters.dropped_all(DropReason::WrongQpState, packets);
    }

    // Running the engines.

    /// Runs the send engine, here unless another context owns it. At most `MAX_ROUNDS` rounds (see [`Exclusive`])
    /// of [`poll_engine`] run here, the rest in [`SEND_WORK`]. For any context but hard interrupts.
    pub(crate) fn run_sender(self: ArcBorrow<'_, Self>) {
        if let Pending::Work = self.sender_turn() {
            self.defer_sender();
        }
    }

    /// As [`Qp::run_sender`], but leaves the rest to the caller.
    fn sender_turn(self: ArcBorrow<'_, Self>) -> Pending {
        let mut actions = Actions::default();
        let guard = ReadSection::enter();
        let pending = self.sender.run(|engine| {
            let qp = QpRun::of_sender(self.shared(), &guard);
            poll_engine(engine, &qp, (&self.response_inbox, None), &mut actions)
        });
        drop(guard);
        self.sender_ran(actions);
        pending
    }

    /// Applies the side effects of a run of the send engine.
    fn sender_ran(self: ArcBorrow<'_, Self>, actions: Actions) {
        let page_faults = &self.shared().port().workqueues().page_faults;
        // A work item that is queued already will do.
        if actions.tx_fault {
            let _ = page_faults.enqueue::<Arc<Self>, SEND_TX_FAULT_WORK>(self.into());
        }
        if actions.rx_fault {
            let _ = page_faults.enqueue::<Arc<Self>, SEND_RX_FAULT_WORK>(self.into());
        }
        self.apply(actions);
    }

    /// Runs the receive engine, here unless another context owns it. For any context but hard interrupts.
    pub(crate) fn run_receiver(self: ArcBorrow<'_, Self>) {
        let mut actions = Actions::default();
        let guard = ReadSection::enter();
        let pending = self.receiver.run(|engine| {
            let qp = QpRun::of_receiver(self.shared(), &guard);
            poll_engine(engine, &qp, (&self.request_inbox, None), &mut actions)
        });
        drop(guard);
        self.receiver_ran(actions, pending);
    }

    /// Applies the side effects of a run of the receive engine, and continues it later if work is `pending`.
    fn receiver_ran(self: ArcBorrow<'_, Self>, actions: Actions, pending: Pending) {
        if let Pending::Work = pending {
            match actions.wants_yield {
                true => self.yield_cpu(),
                false => self.defer_responses(),
            }
        }
        let page_faults = &self.shared().port().workqueues().page_faults;
        if actions.tx_fault {
            let _ = page_faults.enqueue::<Arc<Self>, RECEIVE_TX_FAULT_WORK>(self.into());
        }
        if actions.rx_fault {
            let _ = page_faults.enqueue::<Arc<Self>, RECEIVE_RX_FAULT_WORK>(self.into());
        }
        self.apply(actions);
    }

    /// Runs the send engine from a BH work item.
    fn defer_sender(self: ArcBorrow<'_, Self>) {
        // A work item that is queued already will do.
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND_WORK>(self.into());
    }

    /// Runs the receive engine from a BH work item.
    pub(crate) fn defer_receiver(self: ArcBorrow<'_, Self>) {
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, RECEIVE_WORK>(self.into());
    }

    /// As [`Qp::defer_receiver`], to continue after the budget is used up.
    ///
    /// For RC, requests that arrive meanwhile are left to the work item: the requester's window limits them. The
    /// peers of UC and UD have no window, so their receive engines run for each packet, or the inbox would
    /// overflow. `TX_LIMITED` is `Receive` for RC only: its receive engine is the only one that sends.
    fn defer_responses(self: ArcBorrow<'_, Self>) {
        let leave_packets = matches!(T::TX_LIMITED, Direction::Receive);
        self.receive_deferred.store(leave_packets, Relaxed);
        self.defer_receiver();
    }

    /// Queues a work item that runs in a thread and then queues [`RECEIVE_WORK`]. Other threads and softirqs run
    /// before that.
    fn yield_cpu(self: ArcBorrow<'_, Self>) {
        let yields = &self.shared().port().workqueues().yields;
        let _ = yields.enqueue::<Arc<Self>, RECEIVE_YIELD_WORK>(self.into());
    }

    /// Applies the side effects of a run: arms the timer, reports events, and runs both engines to flush if
    /// the run failed the QP.
    fn apply(self: ArcBorrow<'_, Self>, actions: Actions) {
        if let Some(at) = actions.next_wake.at() {
            Timer::arm(self, at.as_nanos());
        }
        if let Some(below_bytes) = actions.resume_below_bytes {
            let this: Arc<Self> = self.into();
            self.shared().tx_inflight().resume_below(below_bytes, this);
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
