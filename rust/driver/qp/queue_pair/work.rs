// SPDX-License-Identifier: GPL-2.0

//! Where the turns of a queue pair begin that no system call and no packet begins.
//!
//! Owns what work items, the timer, the network's way of saying that it has room again and the end of the netdev
//! call. Each gives a half a turn; what that does is in [`pair`](super).

use crate::qp::queue_pair::{
    Direction,
    Qp,
    Transport, //
};
use crate::{
    packet::path::Path,
    qp::engine::{
        service_fault,
        Engine, //
    }, //
};
use kernel::{
    cpu::CpuId,
    impl_has_work,
    sync::{
        atomic::ordering::Relaxed,
        rcu,
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
        timer::TimerOwner,
        work::enqueue_bh_on, //
    }, //
};

/// Number of the sender's work item.
pub(super) const SEND: u64 = 0;

/// Number of the receiver's work item.
pub(super) const RECEIVE: u64 = 1;

/// Number of the work item that brings the sender's memory.
pub(super) const SEND_FAULT: u64 = 2;

/// Number of the work item that brings the receiver's memory.
pub(super) const RECEIVE_FAULT: u64 = 3;

/// Number of the work item of a thread that queues the receiver's.
pub(super) const RECEIVE_YIELD: u64 = 4;

impl_has_work! {
    impl{T: Transport} HasWork<Self, SEND> for Qp<T> { self.send_work }
    impl{T: Transport} HasWork<Self, RECEIVE> for Qp<T> { self.receive_work }
    impl{T: Transport} HasWork<Self, SEND_FAULT> for Qp<T> { self.send_fault }
    impl{T: Transport} HasWork<Self, RECEIVE_FAULT> for Qp<T> { self.receive_fault }
    impl{T: Transport} HasWork<Self, RECEIVE_YIELD> for Qp<T> { self.receive_yield }
}

impl<T: Transport> Qp<T> {
    /// The port has let go of its netdev, whose namespace may go before the queue pair does: so do routes.
    pub(crate) fn forget_routes(self: ArcBorrow<'_, Self>) {
        let forget = |path: Option<&mut Path>| path.map(Path::forget_route);
        let (_, sends) = self.sender.enter(|engine| forget(engine.path()));
        let (_, receives) = self.receiver.enter(|engine| forget(engine.path()));
        // In RESET there is nothing to do. Who destroys the queue pair goes there, and waits for RCU before it takes
        // back what is queued, so nothing may be queued later.
        let _guard = rcu::read_lock();
        if self.shared().state() == IbQpState::Reset {
            return;
        }
        // Who came meanwhile has left it to us. There may be many queue pairs, and RTNL is held.
        if sends == Pending::Work {
            self.defer_sender();
        }
        if receives == Pending::Work {
            self.defer_receiver();
        }
    }
}

impl<T: Transport> WorkItem<SEND> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_sender();
    }
}

impl<T: Transport> WorkItem<RECEIVE> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.receive_deferred.store(false, Relaxed);
        this.as_arc_borrow().run_receiver();
    }
}

impl<T: Transport> WorkItem<RECEIVE_YIELD> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // No turn here: softirqs would come in between at each packet, and the answers of others in them.
        let _ = this.receiver.enter(Engine::on_yield);
        // Also if somebody came meanwhile and has left it to us.
        this.as_arc_borrow().defer_receiver();
    }
}

impl<T: Transport> WorkItem<SEND_FAULT> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        service_fault(&this.sender, this.shared(), || {
            this.as_arc_borrow().run_sender();
        });
    }
}

impl<T: Transport> WorkItem<RECEIVE_FAULT> for Qp<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        service_fault(&this.receiver, this.shared(), || {
            this.as_arc_borrow().run_receiver();
        });
    }
}

impl<T: Transport> Resume for Qp<T> {
    fn resume(self: Arc<Self>, cpu: CpuId) {
        // The reference goes along: the last one must not be dropped here, where nobody may sleep. Where it was before,
        // since what is still on its way from there could be overtaken. Already queued is as good.
        let _ = match T::RESUMED {
            Direction::Send => enqueue_bh_on::<Self, SEND>(cpu, self),
            Direction::Receive => enqueue_bh_on::<Self, RECEIVE>(cpu, self),
        };
    }
}

impl<T: Transport> TimerOwner for Qp<T> {
    fn expired(self: ArcBorrow<'_, Self>) {
        // Not here, where all timers that have expired are served in one go: with a peer that has gone, those of many
        // queue pairs expire together, and each sends again what may be much. Work items make way for others.
        self.defer_sender();
        // The receiver's answers may wait for the network, or it has receives to flush.
        self.defer_receiver();
    }
}
