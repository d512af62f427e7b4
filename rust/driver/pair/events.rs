// SPDX-License-Identifier: GPL-2.0

//! Where the turns of a queue pair begin that no system call and no packet begins.
//!
//! Owns what work items, the timer and the network's way of saying that it has room again call. Each gives
//! a half a turn; what that does is in [`pair`](super).

use super::{
    Pair,
    Service,
    RECEIVE,
    RECEIVE_PAGES,
    SEND,
    SEND_PAGES, //
};
use crate::half::bring;
use kernel::{
    sync::{
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        self,
        WorkItem, //
    }, //
};
use rdma::{
    net::flight::Resume,
    timer::TimerOwner, //
};

impl<T: Service> WorkItem<SEND> for Pair<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_sender();
    }
}

impl<T: Service> WorkItem<RECEIVE> for Pair<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.as_arc_borrow().run_receiver();
    }
}

impl<T: Service> WorkItem<SEND_PAGES> for Pair<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        bring(&this.sender, this.common(), || {
            this.as_arc_borrow().run_sender();
        });
    }
}

impl<T: Service> WorkItem<RECEIVE_PAGES> for Pair<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        bring(&this.receiver, this.common(), || {
            this.as_arc_borrow().run_receiver();
        });
    }
}

impl<T: Service> Resume for Pair<T> {
    fn resume(self: Arc<Self>) {
        // The reference goes along: the last one must not be dropped here, where nobody may sleep. Already queued
        // is as good.
        let _ = workqueue::system_bh().enqueue::<Arc<Self>, SEND>(self);
    }
}

impl<T: Service> TimerOwner for Pair<T> {
    fn expired(self: ArcBorrow<'_, Self>) {
        self.run_sender();
        if self.common().is_failed() {
            self.run_receiver();
        }
    }
}
