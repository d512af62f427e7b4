// SPDX-License-Identifier: GPL-2.0

//! Entry points that run the engines: work items, the timer, and the callback when the stack has freed
//! buffers. Also drops cached routes when the netdev goes away.
//!
//! Each runs an engine; [`queue_pair`](super) defines how.

use crate::qp::queue_pair::{
    Direction,
    Qp,
    Transport, //
};
use crate::{
    mem::page_fault::FaultSide,
    packet::path::Path,
    port::counters::Counter,
    qp::{
        engine::Engine,
        poll::service_fault, //
    }, //
};
use kernel::{
    cpu::CpuId,
    impl_has_work,
    sync::{
        Arc,
        ArcBorrow, //
    },
    workqueue::WorkItem, //
};
use rdma::{
    ib::qp_attr::IbQpState,
    net::tx_inflight::Resume,
    sync::{
        exclusive::Pending,
        read_section::ReadSection,
        timer::{
            now,
            Timer,
            TimerOwner, //
        },
        work::enqueue_bh_on, //
    }, //
};
use roce::time::Instant;

/// Id of the work item that runs the send engine.
pub(super) const SEND_WORK: u64 = 0;

/// Id of the work item that runs the receive engine.
pub(super) const RECEIVE_WORK: u64 = 1;

/// Id of the work item of a thread that queues [`RECEIVE_WORK`].
pub(super) const RECEIVE_YIELD_WORK: u64 = 2;

/// Id of the work item that services page faults of requests.
pub(super) const SEND_TX_FAULT_WORK: u64 = 3;

/// Id of the work item that services page faults of received responses.
pub(super) const SEND_RX_FAULT_WORK: u64 = 4;

/// Id of the work item that services page faults of responses.
pub(super) const RECEIVE_TX_FAULT_WORK: u64 = 5;

/// Id of the work item that services page faults of received requests.
pub(super) const RECEIVE_RX_FAULT_WORK: u64 = 6;

impl_has_work! {
    impl{T: Transport} HasWork<Self, SEND_WORK> for Qp<T> { self.send_work }
    impl{T: Transport} HasWork<Self, RECEIVE_WORK> for Qp<T> { self.receive_work }
    impl{T: Transport} HasWork<Self, RECEIVE_YIELD_WORK> for Qp<T> { self.receive_yield }
    impl{T: Transport} HasWork<Self, SEND_TX_FAULT_WORK> for Qp<T> { self.send_tx_fault }
    impl{T: Transport} HasWork<Self, SEND_RX_FAULT_WORK> for Qp<T> { self.send_rx_fault }
    impl{T: Transport} HasWork<Self, RECEIVE_TX_FAULT_WORK> for Qp<T> { self.receive_tx_fault }
    impl{T: Transport} HasWork<Self, RECEIVE_RX_FAULT_WORK> for Qp<T> { self.receive_rx_fault }
}

impl<T: Transport> Qp<T> {
    /// Drops cached routes: the port has lost its netdev, whose namespace may go away before the QP. Process
    /// context, under RTNL.
    pub(crate) fn forget_routes(self: ArcBorrow<'_, Self>) {
        let forget = |path: Option<&mut Path>| path.map(Path::forget_route);
        let (_, send_pending) = self
            .sender
            .enter(|engine| forget(engine.core_mut().path.as_deref_mut()));
        let (_, receive_pending) = self
            .receiver
            .enter(|engine| forget(engine.core_mut().path.as_deref_mut()));
        // In RESET there is nothing to do. `destroy_qp` resets the QP and waits for sections before it cancels
        // queued work, so nothing may be queued after that.
        let _guard = ReadSection::enter();
        if self.shared().state() == IbQpState::Reset {
            return;
        }
        // Events that arrived meanwhile were left to us. Work items handle them: there may be many QPs, and
        // RTNL is held.
        if send_pending == Pending::Work {
            self.defer_sender();
        }
        if receive_pending == Pending::Work {
            self.defer_receiver();
        }
    }
}

impl<T: Transport> WorkItem<SEND_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_sender();
    }
}

impl<T: Transport> WorkItem<RECEIVE_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_gathered();
    }
}

impl<T: Transport> WorkItem<RECEIVE_YIELD_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Does not run the engine here: softirqs would interrupt this thread at each packet, and send the
        // responses of other QPs.
        let _ = this.receiver.enter(Engine::on_yield);
        // Also covers an event that arrived during `enter`.
        this.as_arc_borrow().defer_receiver();
    }
}

impl<T: Transport> Qp<T> {
    fn service_sender(self: ArcBorrow<'_, Self>, side: FaultSide) {
        service_fault((&self.sender, side), self.shared(), || self.run_sender());
    }

    fn service_receiver(self: ArcBorrow<'_, Self>, side: FaultSide) {
        service_fault((&self.receiver, side), self.shared(), || {
            self.run_receiver();
        });
    }
}

impl<T: Transport> WorkItem<SEND_TX_FAULT_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().service_sender(FaultSide::Tx);
    }
}

impl<T: Transport> WorkItem<SEND_RX_FAULT_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().service_sender(FaultSide::Rx);
    }
}

impl<T: Transport> WorkItem<RECEIVE_TX_FAULT_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().service_receiver(FaultSide::Tx);
    }
}

impl<T: Transport> WorkItem<RECEIVE_RX_FAULT_WORK> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().service_receiver(FaultSide::Rx);
    }
}

impl<T: Transport> Resume for Qp<T> {
    fn resume(self: Arc<Self>, cpu: CpuId) {
        // Passes the reference on to the work item: dropping the last one may sleep, which this context must
        // not. Uses the CPU on which the engine stopped, because packets sent from another CPU could overtake
        // those in flight. A work item that is queued already will do.
        let _ = match T::TX_LIMITED {
            Direction::Send => enqueue_bh_on::<Self, SEND_WORK>(cpu, self),
            Direction::Receive => enqueue_bh_on::<Self, RECEIVE_WORK>(cpu, self),
        };
    }
}

impl<T: Transport> TimerOwner for Qp<T> {
    fn expired(self: ArcBorrow<'_, Self>) {
        let due = self.shared().wakes().due(Instant::from_nanos(now()));
        let counters = self.shared().port().counters();
        // Does not run an engine here: the timers of many QPs may expire together when their peer is gone, in
        // one softirq pass, and each may retransmit much. Work items yield to others.
        if let Some(why) = due.sender {
            counters.count(Counter::of_wake(why));
            self.defer_sender();
        }
        if let Some(why) = due.receiver {
            counters.count(Counter::of_wake(why));
            self.defer_receiver();
        }
        if let Some(at) = due.next {
            Timer::arm(self, at.as_nanos());
        }
    }
}
