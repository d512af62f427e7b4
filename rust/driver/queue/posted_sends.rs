// SPDX-License-Identifier: GPL-2.0

//! Posted send work requests of a ULP, in order.
//!
//! ULPs post in any context, even with interrupts disabled, when the send engine must not run. The requests
//! wait here until the engine runs and takes them. A spinlock with interrupts disabled protects them.

use crate::{
    abi::{
        send_op::LocalRequest,
        wqe::{
            BodyLayout,
            WqeSge, //
        }, //
    },
    queue::posted_fifo::PostedFifo, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    }, //
};
use rdma::{
    ib::wr::{
        InlineData,
        SgeList, //
    },
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};
use roce::wr::SendWr;

/// Posted send requests: of a connected service by default.
#[pin_data]
pub(crate) struct PostedSends<T = SendWr> {
    #[pin]
    queue: SpinLockIrq<Queue<T>>,
}

/// State protected by the lock: the requests, and the kind and size of their bodies.
type Queue<T> = PostedFifo<(T, BodyLayout)>;

impl<T> PostedSends<T> {
    /// Creates a queue of `max_wr` requests, each with up to `max_sge` SGEs or the same number of bytes of
    /// inline data.
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

    /// Adds the request that `request` returns for the length of its message, with the list `sges`. `accepts`
    /// returns whether the QP accepts requests now. Callable from any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not, or if the list has too many SGEs or describes too many bytes; `ENOMEM` if the
    /// queue is full.
    pub(crate) fn push(
        &self,
        accepts: impl FnOnce() -> bool,
        sges: &SgeList<'_>,
        request: impl FnOnce(u32) -> T,
    ) -> Result {
        // CAST: At most `max_sge`, a `u32`.
        let entries = sges.len() as u32;
        let push = |length| (request(length), BodyLayout::Scatter(entries));
        self.push_with(accepts, |queue| queue.push(sges, push))
    }

    /// Adds a request with inline data. Callable from any context.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_inline(
        &self,
        accepts: impl FnOnce() -> bool,
        data: &InlineData<'_>,
        request: impl FnOnce(u32) -> T,
    ) -> Result {
        let request = (request(data.len()), BodyLayout::Inline(data.len()));
        self.push_with(accepts, |queue| queue.push_inline(data, request))
    }

    /// Adds an operation on memory keys. Callable from any context.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_local(
        &self,
        accepts: impl FnOnce() -> bool,
        local: LocalRequest,
        request: T,
    ) -> Result {
        let request = (request, BodyLayout::LocalRequest(local));
        self.push_with(accepts, |queue| {
            queue.push(&SgeList::default(), |_| request)
        })
    }

    /// Adds a request if `accepts` returns true. It is called under the lock, which orders it with
    /// [`clear`](Self::clear): a request posted after the change to RESET must not become the first of the
    /// next connection.
    fn push_with(
        &self,
        accepts: impl FnOnce() -> bool,
        push: impl FnOnce(&mut Queue<T>) -> Result,
    ) -> Result {
        let mut queue = self.queue.lock();
        if !accepts() {
            return Err(EINVAL);
        }
        push(&mut queue)
    }

    /// Takes the oldest request. Copies its scatter/gather list or inline data to the start of `storage`.
    /// Returns the request, and the kind and size of its body.
    pub(crate) fn take(&self, storage: &mut [WqeSge]) -> Option<(T, BodyLayout)> {
        self.queue.lock().take(|entries| storage.get_mut(..entries))
    }

    /// Discards all requests.
    pub(crate) fn clear(&self) {
        self.queue.lock().clear();
    }
}
