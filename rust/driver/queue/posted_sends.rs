// SPDX-License-Identifier: GPL-2.0

//! Send work requests of a consumer in the kernel, between post and turn.
//!
//! Owns copies of them. They are posted in any context, also with interrupts off, where no half can be
//! run; so they wait here for the queue pair's next turn. Does not know what they ask for.

use crate::{
    abi::{
        send_op::LocalRequest,
        wqe::{
            BodyLayout,
            WqeSge, //
        }, //
    },
    queue::posted::PostedFifo, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::ib::wr::{
    InlineData,
    SgeList, //
};
use roce::wr::SendWr;

/// Requests that wait; of connections unless told otherwise.
#[pin_data]
pub(crate) struct PostedSends<T = SendWr> {
    #[pin]
    queue: SpinLockIrq<Queue<T>>,
}

/// What the lock guards: each request, and where its data is.
type Queue<T> = PostedFifo<(T, BodyLayout)>;

impl<T> PostedSends<T> {
    /// Room for `max_wr` requests with up to `max_sge` entries each, or as many bytes of inline data as fit
    /// there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Arc<Self>> {
        let queue = Queue::new(max_wr, max_sge)?;
        Arc::pin_init(
            pin_init!(Self { queue <- new_spinlock_irq!(queue, "ferroce::PostedSends") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Adds the request that `request` makes of the length of its message, whose data is where `sges` says.
    /// `open`: whether requests are taken now. For any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not, or if the scatter list is too long, in entries or in bytes; `ENOMEM` when more are posted
    /// than the queue pair was created for.
    pub(crate) fn push(
        &self,
        open: impl FnOnce() -> bool,
        sges: &SgeList<'_>,
        request: impl FnOnce(u32) -> T,
    ) -> Result {
        // CAST: At most `max_sge`, a `u32`.
        let entries = sges.len() as u32;
        let push = |length| (request(length), BodyLayout::Scatter(entries));
        self.add(open, |queue| queue.push(sges, push))
    }

    /// Adds a request that takes `data` along. For any context.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_inline(
        &self,
        open: impl FnOnce() -> bool,
        data: &InlineData<'_>,
        request: impl FnOnce(u32) -> T,
    ) -> Result {
        let request = (request(data.len()), BodyLayout::Inline(data.len()));
        self.add(open, |queue| queue.push_inline(data, request))
    }

    /// Adds a request that is about keys. For any context.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_local(
        &self,
        open: impl FnOnce() -> bool,
        local: LocalRequest,
        request: T,
    ) -> Result {
        let request = (request, BodyLayout::LocalRequest(local));
        self.add(open, |queue| queue.push(&SgeList::default(), |_| request))
    }

    /// Asked in the order of posts and of what forgets them: one that comes after the change to RESET must not be the
    /// first of the next connection.
    fn add(
        &self,
        open: impl FnOnce() -> bool,
        add: impl FnOnce(&mut Queue<T>) -> Result,
    ) -> Result {
        let mut queue = self.queue.lock();
        if !open() {
            return Err(EINVAL);
        }
        add(&mut queue)
    }

    /// Takes the oldest request; its scatter list or data goes to the start of `room`. Returns it, and
    /// where its data is.
    pub(crate) fn take(&self, room: &mut [WqeSge]) -> Option<(T, BodyLayout)> {
        self.queue.lock().take(|entries| room.get_mut(..entries))
    }

    /// Forgets what waits.
    pub(crate) fn clear(&self) {
        self.queue.lock().clear();
    }
}
