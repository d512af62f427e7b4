// SPDX-License-Identifier: GPL-2.0

//! QPs that are bound to an `rdma_counter` (`rdma statistic qp bind`, `rdma statistic qp set ... auto`).
//!
//! The list of these QPs, the values that were added to their counters, and the ids of the counters. The core adds
//! the counters of a port to the values that the driver reports for the port, so the port's values exclude those of
//! bound QPs ([`QpCounters::total`]). Called by the core's counter operations, in process context, under the core's
//! locks; [`QpCounters`] has a mutex, under which no other lock is taken.
//!
//! C header: [`include/rdma/rdma_counter.h`](srctree/include/rdma/rdma_counter.h)

use crate::util::alloc::gfp_user;
use core::ptr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Maximum number of counters that a QP maintains.
pub const MAX_QP_COUNTERS: usize = 8;

/// Values of the counters of a QP, in the order of [`Driver::QP_COUNTERS`](crate::ib::driver::Driver::QP_COUNTERS).
pub type QpCounts = [u64; MAX_QP_COUNTERS];

/// The QPs of a device that are bound to an `rdma_counter`.
#[pin_data]
pub struct QpCounters<Q> {
    #[pin]
    bound: Mutex<BoundQps<Q>>,
}

struct BoundQps<Q> {
    qps: KVVec<BoundQp<Q>>,
    /// Ids in use.
    counter_ids: KVVec<CounterId>,
    /// The last id that was allocated.
    last_id: u32,
    /// Sum of all values that were added to counters, including deleted ones.
    reported: QpCounts,
}

struct BoundQp<Q> {
    qp: Arc<Q>,
    /// The counter that the QP is bound to.
    counter: CounterId,
    /// Values of the QP at the last update of its counter.
    last_counts: QpCounts,
}

/// Id of a `struct rdma_counter` in its device. The core leaves the id to the driver, and looks counters up by it.
/// 0 is the id of a counter that has no QP yet.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct CounterId(pub(crate) u32);

impl<Q> BoundQp<Q> {
    /// Returns the increase since the last call.
    fn delta(&mut self, now: QpCounts) -> QpCounts {
        let last_counts = core::mem::replace(&mut self.last_counts, now);
        minus(now, last_counts)
    }
}

impl<Q> BoundQps<Q> {
    /// Allocates an id for a new counter: the next unused one.
    fn new_counter(&mut self) -> Result<CounterId> {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = CounterId(self.last_id);
            if self.last_id != 0 && !self.counter_ids.contains(&id) {
                self.counter_ids.push(id, gfp_user())?;
                return Ok(id);
            }
        }
    }
}

impl<Q> QpCounters<Q> {
    /// Creates an empty list.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            bound <- new_mutex!(
                BoundQps {
                    qps: KVVec::new(),
                    counter_ids: KVVec::new(),
                    last_id: 0,
                    reported: [0; MAX_QP_COUNTERS],
                },
                "rdma::QpCounters"
            ),
        })
    }

    /// Binds `qp`, whose values are `now`, to a counter. `None` stands for a new counter, for which
    /// [`QpCounters::remove`] must follow. Calls `set_counter` with the id, while the mutex excludes other binds
    /// and unbinds.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP is bound already: the core checks this, but not under a lock, so two binds may pass its
    /// check. `ENOMEM`.
    pub(crate) fn bind(
        &self,
        counter: Option<CounterId>,
        qp: Arc<Q>,
        now: QpCounts,
        set_counter: impl FnOnce(CounterId),
    ) -> Result {
        let mut bound = self.bound.lock();
        if bound.qps.iter().any(|entry| ptr::eq(&*entry.qp, &*qp)) {
            return Err(EINVAL);
        }
        // Reserve first: if the bind fails, the core does not delete the new counter, and its id would leak.
        bound.qps.reserve(1, gfp_user())?;
        let counter = counter.map_or_else(|| bound.new_counter(), Ok)?;
        let entry = BoundQp {
            qp,
            counter,
            last_counts: now,
        };
        bound.qps.push(entry, gfp_user())?;
        set_counter(counter);
        Ok(())
    }

    /// Frees the id of a counter to which no QP is bound.
    pub(crate) fn remove(&self, counter: CounterId) {
        let mut bound = self.bound.lock();
        if let Some(at) = bound.counter_ids.iter().position(|other| *other == counter) {
            let _ = bound.counter_ids.remove(at);
        }
    }

    /// Unbinds `qp`, whose values are `now`. Calls `add` with the increase since the last update, while the mutex
    /// excludes other binds and unbinds.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the QP is not bound: the core checks this, but not under a lock, so two unbinds may pass its
    /// check.
    pub(crate) fn unbind(&self, qp: &Arc<Q>, now: QpCounts, add: impl FnOnce(QpCounts)) -> Result {
        let mut bound = self.bound.lock();
        let mut qps = bound.qps.iter();
        let at = qps
            .position(|entry| ptr::eq(&*entry.qp, &**qp))
            .ok_or(EINVAL)?;
        let mut entry = bound.qps.remove(at).map_err(|_| EINVAL)?;
        let delta = entry.delta(now);
        bound.reported = plus(bound.reported, delta);
        add(delta);
        Ok(())
    }

    /// Calls `add` with the increase of all QPs that are bound to `counter`.
    pub(crate) fn update(
        &self,
        counter: CounterId,
        read: impl Fn(&Q) -> QpCounts,
        add: impl FnOnce(QpCounts),
    ) {
        let mut bound = self.bound.lock();
        let BoundQps { qps, reported, .. } = &mut *bound;
        let mut sum = [0; MAX_QP_COUNTERS];
        for entry in qps.iter_mut().filter(|entry| entry.counter == counter) {
            let now = read(&entry.qp);
            sum = plus(sum, entry.delta(now));
        }
        *reported = plus(*reported, sum);
        add(sum);
    }

    /// Returns the sum of all values that were counted for bound QPs, ever.
    pub(crate) fn total(&self, read: impl Fn(&Q) -> QpCounts) -> QpCounts {
        let bound = self.bound.lock();
        let delta = |entry: &BoundQp<Q>| minus(read(&entry.qp), entry.last_counts);
        bound.qps.iter().map(delta).fold(bound.reported, plus)
    }
}

/// Returns the sums, counter by counter.
fn plus(a: QpCounts, b: QpCounts) -> QpCounts {
    each(a, b, u64::wrapping_add)
}

/// Returns the differences, counter by counter.
fn minus(a: QpCounts, b: QpCounts) -> QpCounts {
    each(a, b, u64::wrapping_sub)
}

/// Applies `op` counter by counter.
fn each(mut a: QpCounts, b: QpCounts, op: fn(u64, u64) -> u64) -> QpCounts {
    for (a, b) in a.iter_mut().zip(b) {
        *a = op(*a, b);
    }
    a
}
