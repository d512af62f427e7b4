// SPDX-License-Identifier: GPL-2.0

//! What has been given to the network and has not come out of it.
//!
//! Owns a number of bytes, how long they take, and who waits for them to become less. A burst that is
//! counted here counts until its buffers are freed: by the device that has sent them, or, on a link that ends
//! on this machine, by whoever has received them. So a sender that nobody acknowledges anything to can be held
//! back before it overruns queues of its own machine. Does not know who sends, nor how much is too much.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    sync::{
        quiesce::LiveRef,
        timer::now, //
    }, //
};
use kernel::{
    cpu::CpuId,
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        rcu,
        Arc,
        SpinLockIrq, //
    }, //
};

/// Somebody who has waited for the network.
pub trait Resume: Send + Sync {
    /// The network has room again; `cpu` is where it was waited for. Called in any context, with interrupts off and
    /// under a lock: for queueing something.
    fn resume(self: Arc<Self>, cpu: CpuId);
}

/// Who waits, and the CPU where. Whoever frees the last buffer may be on another.
type Waiter = (Arc<dyn Resume>, CpuId);

/// Bytes on their way.
#[pin_data]
pub struct TxInflight {
    bytes: Atomic<i64>,
    /// How long a buffer was on its way, the longest since somebody asked, in nanoseconds.
    delay: Atomic<u64>,
    /// Below how many bytes somebody wants to be resumed; 0 if nobody does.
    wanted: Atomic<i64>,
    #[pin]
    waiter: SpinLockIrq<Option<Waiter>>,
    /// The function that a buffer calls when it is freed is part of the module.
    _alive: LiveRef,
}

/// What a buffer knows of its flight.
struct Ticket {
    flight: Arc<TxInflight>,
    bytes: i64,
    /// When it was given to the network, in nanoseconds.
    since: u64,
}

impl TxInflight {
    /// Nothing on its way. The module stays for as long as `alive`, and so for as long as something is.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(alive: LiveRef) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                bytes: Atomic::new(0),
                delay: Atomic::new(0),
                wanted: Atomic::new(0),
                waiter <- new_spinlock_irq!(None, "rdma::TxInflight"),
                _alive: alive,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Bytes of memory on their way.
    #[inline]
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Relaxed)
    }

    /// Has `who` resumed when less than `bytes` are on their way, at once if that is so already. One waits
    /// at a time: who waited before is forgotten.
    pub fn resume_below(&self, bytes: i64, who: Arc<dyn Resume>) {
        let before = self.waiter.lock().replace((who, CpuId::current()));
        drop(before);
        // Full ordering, here and in `land`: either we see what has landed, or who lands sees the wish.
        self.wanted.xchg(bytes, Full);
        self.tell(self.bytes.fetch_add(0, Full));
    }

    /// Counts `skb` until it is freed. Without memory for that, it is not counted.
    ///
    /// # Safety
    ///
    /// The buffer is valid, the caller's, and has neither destructor nor socket.
    pub(super) unsafe fn board(self: &Arc<Self>, skb: *mut bindings::sk_buff, bytes: usize) {
        // CAST: At most some hundred kilobytes.
        let bytes = bytes as i64;
        let ticket = Ticket {
            flight: self.clone(),
            bytes,
            since: now(),
        };
        let Ok(ticket) = KBox::new(ticket, GFP_ATOMIC | __GFP_NOWARN) else {
            return;
        };
        self.bytes.add(bytes, Relaxed);
        // SAFETY: As the function requires. The ticket goes to `landed`.
        unsafe {
            bindings::ferroce_helper_skb_set_destructor(
                skb,
                Some(landed),
                KBox::into_raw(ticket).cast(),
            );
        }
    }

    /// How long a buffer was on its way, the longest of those that have landed since this was asked, in
    /// nanoseconds. `None`: none has landed.
    pub fn take_delay(&self) -> Option<u64> {
        if self.delay.load(Relaxed) == 0 {
            return None;
        }
        Some(self.delay.xchg(0, Relaxed))
    }

    fn land(&self, bytes: i64, since: u64) {
        let delay = now().saturating_sub(since).max(1);
        // Of two that land at once, either may stay.
        if delay > self.delay.load(Relaxed) {
            self.delay.store(delay, Relaxed);
        }
        self.tell(self.bytes.fetch_sub(bytes, Full).wrapping_sub(bytes));
    }

    /// Resumes who waits for less than `now`.
    fn tell(&self, now: i64) {
        if now >= self.wanted.load(Relaxed) {
            return;
        }
        let mut waiter = self.waiter.lock();
        self.wanted.store(0, Relaxed);
        if let Some((waiter, cpu)) = waiter.take() {
            waiter.resume(cpu);
        }
    }

    /// Nobody waits any more, whoever did: it has been resumed by now, or will not be. To be called before its queue
    /// pair ends, which would otherwise live until the network has room.
    pub fn cancel_waiter(&self) {
        let waiter = {
            let mut waiter = self.waiter.lock();
            self.wanted.store(0, Relaxed);
            waiter.take()
        };
        // Its last reference may be this one, so not under the lock.
        drop(waiter);
    }
}

/// `sk_buff.destructor` of a buffer that is counted.
///
/// # Safety
///
/// Called by C, once, with a buffer that went through [`TxInflight::board`].
unsafe extern "C" fn landed(skb: *mut bindings::sk_buff) {
    // Who waits for the module's last code waits for RCU, too.
    let _guard = rcu::read_lock();
    // SAFETY: As the function requires: the ticket is ours, and nobody uses it again.
    let ticket: KBox<Ticket> =
        unsafe { KBox::from_raw(bindings::ferroce_helper_skb_destructor_arg(skb).cast()) };
    ticket.flight.land(ticket.bytes, ticket.since);
}
