// SPDX-License-Identifier: GPL-2.0

//! The producing end of the ring of a kernel consumer.
//!
//! A kernel consumer posts WQEs to a ring, as a process does, but no process maps that ring: the driver writes it. It
//! may post in any context, also with interrupts off, when no engine may run: the requests wait in the ring. Posting
//! allocates nothing.

use crate::{
    abi::Abi,
    mem::sge::{
        self,
        Sge, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    errno::EOPNOTSUPP,
    ib::{
        ring::Ring,
        wr::{
            InlineData,
            KernelRecvWr,
            KernelSendWr,
            SgeList, //
        },
        wr_op::WrArgs, //
    },
    sync::{
        new_spinlock_irq,
        SpinLockIrq, //
    }, //
};
use roce::wr::ATOMIC_BYTES;

/// Bytes of inline data that are copied at a time.
const INLINE_CHUNK: usize = 64;

/// The producing end of a ring. The owner locks it.
pub(crate) struct Producer {
    ring: Arc<Ring>,
    /// Next element to write, masked. The ring holds the published copy.
    next: u32,
    /// Requests that the consumer may have in the ring. It may have room for more.
    max_wr: u32,
    max_sge: u32,
}

/// The message of a send request.
enum Body<'a> {
    List(SgeList<'a>),
    Inline(InlineData<'a>),
}

impl Producer {
    /// Creates the producing end of `ring`, whose next element to write is `next`, for up to `max_wr` requests with up
    /// to `max_sge` SGEs each, or the same number of bytes of inline data.
    pub(crate) fn new(ring: Arc<Ring>, next: u32, (max_wr, max_sge): (u32, u32)) -> Self {
        Self {
            ring,
            next,
            max_wr,
            max_sge,
        }
    }

    /// Posts the send request `wr`. `keep` receives the number by which the WQE names the AH of a datagram.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for an unknown opcode; `EINVAL` for too many SGEs or bytes, or an atomic with too few bytes;
    /// `ENOMEM` if the queue is full.
    fn post_send<A>(&mut self, wr: &KernelSendWr<'_, A>, keep: impl FnOnce(u32)) -> Result {
        let fields = wr.fields().ok_or(EOPNOTSUPP)?;
        let message = match fields.args {
            WrArgs::Invalidate | WrArgs::Register { .. } => Body::List(SgeList::default()),
            // The data of READs and atomics is scattered, never inline.
            WrArgs::Read(_) | WrArgs::Atomic { .. } => Body::List(wr.sges()),
            _ => match wr.inline_data() {
                Some(data) => Body::Inline(data),
                None => Body::List(wr.sges()),
            },
        };
        let (num_sge, bytes) = match &message {
            Body::List(list) => self.check_list(list)?,
            Body::Inline(data) => (0, data.len()),
        };
        // CAST: At most `MAX_SGE`.
        let max_inline = self.max_sge.saturating_mul(size_of::<Sge>() as u32);
        let is_long = num_sge == 0 && bytes > max_inline;
        let is_short = matches!(fields.args, WrArgs::Atomic { .. }) && bytes < ATOMIC_BYTES;
        if is_long || is_short {
            return Err(EINVAL);
        }
        self.post(|ring, index| {
            let at = Abi::write_send(ring, index, &fields, (num_sge, bytes));
            match &message {
                Body::List(list) => write_list(ring, index, at, list),
                Body::Inline(data) => write_inline(ring, index, at, data),
            }
            keep(index);
        })
    }

    /// Posts the receive `wr`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its list has too many SGEs or describes too many bytes; `ENOMEM` if the queue is full.
    pub(crate) fn post_recv(&mut self, wr: &KernelRecvWr<'_>) -> Result {
        let list = wr.sges();
        let (num_sge, _) = self.check_list(&list)?;
        self.post(|ring, index| {
            let at = Abi::write_recv(ring, index, wr.wr_id(), num_sge);
            write_list(ring, index, at, &list);
        })
    }

    /// Returns the number of SGEs and bytes of `list`.
    fn check_list(&self, list: &SgeList<'_>) -> Result<(u32, u32)> {
        let num_sge = u32::try_from(list.len()).map_err(|_| EINVAL)?;
        let bytes = sge::total_length(list.iter()).filter(|_| num_sge <= self.max_sge);
        Ok((num_sge, bytes.ok_or(EINVAL)?))
    }

    fn post(&mut self, write: impl FnOnce(&Ring, u32)) -> Result {
        let ring = &*self.ring;
        if ring.distance(ring.consumer(), self.next) >= self.max_wr {
            return Err(ENOMEM);
        }
        let pushed = ring.push(&mut self.next, |index| write(ring, index));
        pushed.ok_or(ENOMEM)
    }
}

fn write_list(ring: &Ring, index: u32, offset: usize, list: &SgeList<'_>) {
    let mut at = offset;
    for sge in list.iter() {
        ring.write_at(index, at, sge.as_bytes());
        at = at.wrapping_add(size_of::<Sge>());
    }
}

fn write_inline(ring: &Ring, index: u32, offset: usize, data: &InlineData<'_>) {
    let mut at = offset;
    let mut bytes = data.pieces().flatten();
    loop {
        let mut chunk = [0u8; INLINE_CHUNK];
        let mut filled = 0usize;
        for (to, from) in chunk.iter_mut().zip(bytes.by_ref()) {
            *to = *from;
            filled = filled.wrapping_add(1);
        }
        if filled == 0 {
            return;
        }
        ring.write_at(index, at, &chunk);
        at = at.wrapping_add(INLINE_CHUNK);
    }
}

/// The producing end of a queue of one QP: the kernel consumer posts, and an engine consumes.
#[pin_data]
pub(crate) struct Posts {
    #[pin]
    producer: SpinLockIrq<Producer>,
}

impl Posts {
    /// Creates the producing end of the empty `ring`, as [`Producer::new`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: Arc<Ring>, limits: (u32, u32)) -> Result<Arc<Self>> {
        let producer = Producer::new(ring, 0, limits);
        Arc::pin_init(
            pin_init!(Self { producer <- new_spinlock_irq!(producer, "ferroce::Posts") }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Posts the send request `wr`. `accepts` returns whether the QP accepts it now, and `keep` receives the number of
    /// the AH of a datagram. Callable from any context.
    ///
    /// `accepts` is called under the lock, which orders it with [`settle`](Self::settle): a request posted after the
    /// change to RESET must not become the first of the next connection.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP does not accept it; those of [`Producer`].
    pub(crate) fn post_send<A>(
        &self,
        accepts: impl FnOnce() -> bool,
        wr: &KernelSendWr<'_, A>,
        keep: impl FnOnce(u32),
    ) -> Result {
        let mut producer = self.producer.lock();
        match accepts() {
            true => producer.post_send(wr, keep),
            false => Err(EINVAL),
        }
    }

    /// Posts the receive `wr`, as [`post_send`](Self::post_send).
    ///
    /// # Errors
    ///
    /// As [`post_send`](Self::post_send).
    pub(crate) fn post_recv(
        &self,
        accepts: impl FnOnce() -> bool,
        wr: &KernelRecvWr<'_>,
    ) -> Result {
        let mut producer = self.producer.lock();
        match accepts() {
            true => producer.post_recv(wr),
            false => Err(EINVAL),
        }
    }

    /// Waits for a post that found the QP in its last state.
    pub(crate) fn settle(&self) {
        drop(self.producer.lock());
    }
}
