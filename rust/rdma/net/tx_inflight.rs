// SPDX-License-Identifier: GPL-2.0

//! Bytes in flight in the local stack: sent, and not freed yet (like TCP small queues).
//!
//! A counted skb counts until it is freed: by the driver that transmitted it or, on a local route, by the
//! receiver. Packets that nothing acknowledges (UC and UD requests, RC read responses) are limited by it, so that
//! they do not overrun the queues of this host. The caller chooses the limit.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    sync::{
        new_spinlock_irq,
        quiesce::LiveRef,
        timer::now,
        SpinLockIrq, //
    }, //
};
use kernel::{
    cpu::CpuId,
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
        Arc, //
    }, //
};

/// A sender that waits until fewer bytes are in flight.
pub trait Resume: Send + Sync {
    /// Resumes the sender; `cpu` is the one on which it began to wait. Called in any context, with interrupts
    /// disabled and a lock held, so it may only queue work.
    fn resume(self: Arc<Self>, cpu: CpuId);
}

/// The waiting sender and its CPU. The last skb may be freed on another one.
type Waiter = (Arc<dyn Resume>, CpuId);

/// A count of bytes in flight.
#[pin_data]
pub struct TxInflight {
    bytes: Atomic<i64>,
    /// Longest time that an skb was in flight since the last [`TxInflight::take_delay`], in nanoseconds; 0 if
    /// none was freed.
    max_delay_ns: Atomic<u64>,
    /// The waiter is resumed when fewer bytes are in flight; 0 without a waiter.
    resume_below_bytes: Atomic<i64>,
    #[pin]
    waiter: SpinLockIrq<Option<Waiter>>,
    /// Keeps the module loaded: the destructor of an skb is its code.
    _live_ref: LiveRef,
}

/// Charge of one skb, passed to its destructor.
struct SkbCharge {
    inflight: Arc<TxInflight>,
    bytes: i64,
    /// When it was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    sent_at_ns: u64,
}

impl TxInflight {
    /// Creates an empty count. The module stays loaded while `live_ref` exists, so while any skb is counted.
    pub fn new(live_ref: LiveRef) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                bytes: Atomic::new(0),
                max_delay_ns: Atomic::new(0),
                resume_below_bytes: Atomic::new(0),
                waiter <- new_spinlock_irq!(None, "rdma::TxInflight"),
                _live_ref: live_ref,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the bytes of memory in flight.
    #[inline]
    pub fn bytes(&self) -> i64 {
        self.bytes.load(Relaxed)
    }

    /// Resumes `waiter` when fewer than `bytes` are in flight; at once if that is so already. There is one
    /// waiter at a time; a previous one is dropped without a call.
    pub fn resume_below(&self, bytes: i64, waiter: Arc<dyn Resume>) {
        let before = self.waiter.lock().replace((waiter, CpuId::current()));
        drop(before);
        // Both this function and `uncharge` access `bytes` and `resume_below_bytes` in opposite order, and
        // fully ordered. So either we see the decrement, or `uncharge` sees the waiter.
        self.resume_below_bytes.xchg(bytes, Full);
        self.resume_if_below(self.bytes.fetch_add(0, Full));
    }

    /// Counts `skb` until it is freed. Does not count it if memory is short.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, owned by the caller, and have neither destructor nor socket.
    pub(super) unsafe fn charge(self: &Arc<Self>, skb: *mut bindings::sk_buff, bytes: usize) {
        // CAST: At most some hundred kilobytes.
        let bytes = bytes as i64;
        let charge = SkbCharge {
            inflight: self.clone(),
            bytes,
            sent_at_ns: now(),
        };
        let Ok(charge) = KBox::new(charge, GFP_ATOMIC | __GFP_NOWARN) else {
            return;
        };
        self.bytes.add(bytes, Relaxed);
        // SAFETY: By the function's contract the skb is owned and has no destructor. C calls `skb_destructor`
        // once, with the pointer that `into_raw` returned.
        unsafe {
            bindings::ferroce_helper_skb_set_destructor(
                skb,
                Some(skb_destructor),
                KBox::into_raw(charge).cast(),
            );
        }
    }

    /// Returns the longest time that an skb was in flight, of those freed since the last call, in
    /// nanoseconds. `None` if none was freed.
    pub fn take_delay(&self) -> Option<u64> {
        if self.max_delay_ns.load(Relaxed) == 0 {
            return None;
        }
        Some(self.max_delay_ns.xchg(0, Relaxed))
    }

    fn uncharge(&self, bytes: i64, sent_at_ns: u64) {
        let delay_ns = now().saturating_sub(sent_at_ns).max(1);
        // If two skbs are freed at the same time, either value may be stored.
        if delay_ns > self.max_delay_ns.load(Relaxed) {
            self.max_delay_ns.store(delay_ns, Relaxed);
        }
        self.resume_if_below(self.bytes.fetch_sub(bytes, Full).wrapping_sub(bytes));
    }

    /// Resumes the waiter if `bytes` is below its threshold.
    fn resume_if_below(&self, bytes: i64) {
        if bytes >= self.resume_below_bytes.load(Relaxed) {
            return;
        }
        let mut waiter = self.waiter.lock();
        self.resume_below_bytes.store(0, Relaxed);
        if let Some((waiter, cpu)) = waiter.take() {
            waiter.resume(cpu);
        }
    }

    /// Drops the waiter: it was resumed before, or will not be. Must be called before a QP ends, which would
    /// otherwise exist until enough bytes were freed.
    pub fn cancel_waiter(&self) {
        let waiter = {
            let mut waiter = self.waiter.lock();
            self.resume_below_bytes.store(0, Relaxed);
            waiter.take()
        };
        // Without the lock, because this may be the last reference.
        drop(waiter);
    }
}

/// `sk_buff.destructor` of a counted skb.
///
/// # Safety
///
/// Only C may call this, once, with an skb that was passed to [`TxInflight::charge`].
unsafe extern "C" fn skb_destructor(skb: *mut bindings::sk_buff) {
    // Module exit waits for RCU readers after the last reference, so this function finishes before the code
    // is unloaded.
    let _guard = rcu::read_lock();
    // SAFETY: By the function's contract the argument is the pointer that `charge` got from `into_raw`, and
    // it is used once.
    let charge: KBox<SkbCharge> =
        unsafe { KBox::from_raw(bindings::ferroce_helper_skb_destructor_arg(skb).cast()) };
    charge.inflight.uncharge(charge.bytes, charge.sent_at_ns);
}
