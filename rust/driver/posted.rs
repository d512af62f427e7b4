// SPDX-License-Identifier: GPL-2.0

//! Datagrams of consumers in the kernel, between post and turn.
//!
//! Owns copies of them. They are posted in any context, also with interrupts off, where the
//! network stack may not be entered; so they wait here for the queue pair's next turn.

use crate::{
    abi::Sge,
    ah::Ah,
    fifo::Fifo, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::wr::SgeList;
use roce::ud::DatagramWr;

/// Most entries of a scatter list: what the MAD layer and connection managers need, and some.
pub(crate) const MAX_SGE: usize = 4;

/// A short scatter list.
#[derive(Clone, Copy, Default)]
pub(crate) struct ShortList {
    entries: [Sge; MAX_SGE],
    used: usize,
}

impl ShortList {
    /// A copy of `list`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too long.
    pub(crate) fn new(list: &SgeList<'_>) -> Result<Self> {
        let mut short = Self::default();
        for (to, from) in short.entries.iter_mut().zip(list.iter()) {
            *to = Sge {
                addr: from.addr,
                length: from.length,
                lkey: from.lkey,
            };
        }
        if list.len() > MAX_SGE {
            return Err(EINVAL);
        }
        short.used = list.len();
        Ok(short)
    }

    /// Bytes of all entries together; `None` if there are more than can be counted.
    pub(crate) fn length(&self) -> Option<u32> {
        let mut lengths = self.entries().iter().map(|sge| sge.length);
        lengths.try_fold(0u32, u32::checked_add)
    }

    /// The entries.
    pub(crate) fn entries(&self) -> &[Sge] {
        self.entries.get(..self.used).unwrap_or_default()
    }
}

/// A datagram to be sent.
pub(crate) struct PostedSend {
    /// The request.
    pub(crate) wr: DatagramWr,
    /// Where it goes.
    pub(crate) ah: Arc<Ah>,
    /// Where its payload stands.
    pub(crate) list: ShortList,
}

/// Work requests that wait.
#[pin_data]
pub(crate) struct Posted<T> {
    #[pin]
    queue: SpinLockIrq<Fifo<T>>,
}

impl<T> Posted<T> {
    /// Room for `capacity` requests.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: u32) -> Result<impl PinInit<Self>> {
        let fifo = Fifo::new(capacity)?;
        Ok(pin_init!(Self { queue <- new_spinlock_irq!(fifo) }))
    }

    /// Adds a request. For any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when more are posted than the queue pair was created for.
    pub(crate) fn push(&self, request: T) -> Result {
        self.queue.lock().push(request).map_err(|_| ENOMEM)
    }

    /// Takes the oldest request.
    pub(crate) fn pop(&self) -> Option<T> {
        self.queue.lock().pop()
    }
}
