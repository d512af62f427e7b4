// SPDX-License-Identifier: GPL-2.0

//! Reliable connected queue pairs.
//!
//! Owns the two halves of a queue pair, the packets that wait for them, the timer, and the rule
//! of who runs a half: whoever has an event for it (doorbell, packet, timer) tries to become its
//! owner, and runs it there and then. One who finds it running leaves the event behind, and the
//! owner looks again before it leaves ([`Turn`]). Nobody waits, so nothing hops to another thread;
//! only what exceeds the budget of one turn goes to a BH work item.
//!
//! Does not know what a half does with its turn: see `sender` and `receiver`.

use crate::{
    common::{
        Aftermath,
        Common, //
    },
    receiver::ReceiveHalf,
    sender::SendHalf, //
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
        QpCaps, //
    },
    driver::QpQuery,
    event::QpEvent,
    net::rx::{
        RxSkb,
        SkbQueue, //
    },
    timer::{
        Timer,
        TimerOwner, //
    },
    turn::{
        Left,
        Turn, //
    },
    wait::{
        flush_work,
        Alive, //
    }, //
};
use roce::status::DropReason;

/// Most packets that wait for one half. A peer that keeps to its window stays far below.
const INBOX: u32 = 4096;

/// A reliable connected queue pair.
#[pin_data]
pub(crate) struct Qp {
    common: Common,
    caps: QpCaps,
    signal_all: bool,
    /// What the consumer has set, for `query_qp`.
    #[pin]
    attr: Mutex<QpAttr>,
    #[pin]
    sender: Turn<SendHalf>,
    #[pin]
    receiver: Turn<ReceiveHalf>,
    /// Responses, on their way to the sender.
    #[pin]
    responses: SkbQueue,
    /// Requests, on their way to the receiver.
    #[pin]
    requests: SkbQueue,
    /// When the sender wants a turn.
    #[pin]
    timer: Timer<Self>,
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
    impl HasWork<Self, SEND> for Qp { self.send_work }
    impl HasWork<Self, RECEIVE> for Qp { self.receive_work }
}

rdma::impl_has_timer! {
    impl HasTimer for Qp { self.timer }
}

impl Qp {
    /// A queue pair in RESET.
    pub(crate) fn new(
        common: Common,
        caps: QpCaps,
        signal_all: bool,
        (sender, receiver): (SendHalf, ReceiveHalf),
        alive: Alive,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                common,
                caps,
                signal_all,
                attr <- new_mutex!(QpAttr::default()),
                sender <- Turn::new(sender),
                receiver <- Turn::new(receiver),
                responses <- SkbQueue::new(INBOX),
                requests <- SkbQueue::new(INBOX),
                timer <- Timer::new(),
                send_work <- new_work!("Qp::send_work"),
                receive_work <- new_work!("Qp::receive_work"),
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

    /// The consumer has posted sends.
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

    /// What the consumer has set.
    pub(crate) fn attr(&self) -> &Mutex<QpAttr> {
        &self.attr
    }

    /// The half that sends requests.
    pub(crate) fn sender(&self) -> &Turn<SendHalf> {
        &self.sender
    }

    /// The half that answers requests.
    pub(crate) fn receiver(&self) -> &Turn<ReceiveHalf> {
        &self.receiver
    }

    /// Responses that wait for the sender.
    pub(crate) fn responses(&self) -> &SkbQueue {
        &self.responses
    }

    /// Requests that wait for the receiver.
    pub(crate) fn requests(&self) -> &SkbQueue {
        &self.requests
    }

    /// Waits until nothing of the queue pair is on its way any more. To be called in RESET, when no
    /// packet finds it: then nothing can start again.
    pub(crate) fn quiesce(&self) {
        self.timer.cancel();
        flush_work(&self.send_work);
        flush_work(&self.receive_work);
    }

    /// A request has come in, `bytes` long.
    pub(crate) fn request_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb, bytes: usize) {
        if self.enqueue(&self.requests, skb, bytes) {
            self.run_receiver();
        }
    }

    /// A response has come in, `bytes` long.
    pub(crate) fn response_arrived(self: ArcBorrow<'_, Self>, skb: RxSkb, bytes: usize) {
        if self.enqueue(&self.responses, skb, bytes) {
            self.run_sender();
        }
    }

    fn enqueue(&self, queue: &SkbQueue, skb: RxSkb, bytes: usize) -> bool {
        let taken = queue.push(skb);
        if taken {
            self.common.port().counters().received(bytes);
        } else {
            self.common.port().counters().dropped(DropReason::QueueFull);
        }
        taken
    }

    /// Gives the sender a turn, now if nobody runs it.
    pub(crate) fn run_sender(self: ArcBorrow<'_, Self>) {
        let mut after = Aftermath::default();
        let left = self
            .sender
            .run(|half| half.turn(&self.common, &self.responses, &mut after));
        if let Left::Unfinished = left {
            // Already queued is as good.
            let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND>(self.into());
        }
        self.settle(after);
    }

    /// Gives the receiver a turn, now if nobody runs it.
    pub(crate) fn run_receiver(self: ArcBorrow<'_, Self>) {
        let mut after = Aftermath::default();
        let left = self
            .receiver
            .run(|half| half.turn(&self.common, &self.requests, &mut after));
        if let Left::Unfinished = left {
            let _ = workqueue::system_bh().enqueue::<Arc<Self>, RECEIVE>(self.into());
        }
        self.settle(after);
    }

    /// Does what a half could not do while it was running: sets the timer, tells the consumer, and
    /// takes the queue pair to the error state, where both halves flush.
    fn settle(self: ArcBorrow<'_, Self>, after: Aftermath) {
        if let Some(at) = after.wake_at {
            Timer::arm(self, at);
        }
        if after.drained {
            self.common.handle().event(QpEvent::SqDrained);
        }
        let Some(event) = after.failed else {
            return;
        };
        if !self.common.fail() {
            return;
        }
        if let Some(event) = event {
            self.common.handle().event(event);
        }
        self.run_sender();
        self.run_receiver();
    }
}

impl WorkItem<SEND> for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_sender();
    }
}

impl WorkItem<RECEIVE> for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_receiver();
    }
}

impl TimerOwner for Qp {
    fn expired(self: ArcBorrow<'_, Self>) {
        self.run_sender();
    }
}
