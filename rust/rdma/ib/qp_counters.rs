// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are counted apart from their port, by `rdma statistic qp bind` or `qp set ... auto`.
//!
//! Owns the list of them, how much of what each has counted was given to its counter, and the numbers of the
//! counters. The core adds all counters of a port to what the port says, so the port leaves out what is
//! counted here. Does not know what is counted.
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

/// Most counters of a queue pair.
pub const MAX_QP_COUNTERS: usize = 8;

/// Values of the counters of a queue pair, in the order of
/// [`Driver::QP_COUNTERS`](crate::ib::driver::Driver::QP_COUNTERS).
pub type QpCounts = [u64; MAX_QP_COUNTERS];

/// The queue pairs of a device that are counted apart.
#[pin_data]
pub struct QpCounters<Q> {
    #[pin]
    inner: Mutex<Inner<Q>>,
}

struct Inner<Q> {
    members: KVVec<CountedQp<Q>>,
    /// Counters that there are.
    counters: KVVec<CounterId>,
    /// The number that was given out last.
    last: u32,
    /// What was given to counters, those that are gone among them.
    given: QpCounts,
}

struct CountedQp<Q> {
    qp: Arc<Q>,
    /// Which counter it belongs to.
    counter: CounterId,
    /// What the queue pair had counted when its counter was given the last.
    last: QpCounts,
}

/// Which `struct rdma_counter` of the device it is: its `id`. The core leaves that to the driver, and keeps
/// counters by it. Not 0, which a counter has that is being made.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct CounterId(pub(crate) u32);

impl<Q> CountedQp<Q> {
    /// What is new since it was asked last.
    fn news(&mut self, now: QpCounts) -> QpCounts {
        let last = core::mem::replace(&mut self.last, now);
        minus(now, last)
    }
}

impl<Q> Inner<Q> {
    /// A number for a new counter: the next that no other has.
    fn new_counter(&mut self) -> Result<CounterId> {
        loop {
            self.last = self.last.wrapping_add(1);
            let id = CounterId(self.last);
            if self.last != 0 && !self.counters.contains(&id) {
                self.counters.push(id, gfp_user())?;
                return Ok(id);
            }
        }
    }
}

impl<Q> QpCounters<Q> {
    /// No queue pair.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(
                Inner {
                    members: KVVec::new(),
                    counters: KVVec::new(),
                    last: 0,
                    given: [0; MAX_QP_COUNTERS],
                },
                "rdma::QpCounters"
            ),
        })
    }

    /// `qp`, which has counted `now`, belongs to a counter from now on; `tell` hears which, while nobody else binds or
    /// unbinds. If it is `None` that it is to belong to, that is a new one, and [`QpCounters::end`] has to follow.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it belongs to one already. The core has looked, but two who bind it at a time both find that it does
    /// not. `ENOMEM`.
    pub(crate) fn bind(
        &self,
        counter: Option<CounterId>,
        qp: Arc<Q>,
        now: QpCounts,
        tell: impl FnOnce(CounterId),
    ) -> Result {
        let mut inner = self.inner.lock();
        if inner
            .members
            .iter()
            .any(|member| ptr::eq(&*member.qp, &*qp))
        {
            return Err(EINVAL);
        }
        // First, for the core does not end a counter that could not be made.
        inner.members.reserve(1, gfp_user())?;
        let counter = counter.map_or_else(|| inner.new_counter(), Ok)?;
        let member = CountedQp {
            qp,
            counter,
            last: now,
        };
        inner.members.push(member, gfp_user())?;
        tell(counter);
        Ok(())
    }

    /// A counter that no queue pair belongs to goes, and its number is free.
    pub(crate) fn end(&self, counter: CounterId) {
        let mut inner = self.inner.lock();
        if let Some(at) = inner.counters.iter().position(|other| *other == counter) {
            let _ = inner.counters.remove(at);
        }
    }

    /// `qp`, which has counted `now`, belongs to no counter any more. What is new goes to `give`, while nobody else
    /// binds or unbinds.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it does not belong to any. The core has looked, but two who unbind it at a time both find that it
    /// does.
    pub(crate) fn unbind(&self, qp: &Arc<Q>, now: QpCounts, give: impl FnOnce(QpCounts)) -> Result {
        let mut inner = self.inner.lock();
        let mut members = inner.members.iter();
        let at = members
            .position(|member| ptr::eq(&*member.qp, &**qp))
            .ok_or(EINVAL)?;
        let mut member = inner.members.remove(at).map_err(|_| EINVAL)?;
        let news = member.news(now);
        inner.given = plus(inner.given, news);
        give(news);
        Ok(())
    }

    /// Gives what is new of all that belong to a counter.
    pub(crate) fn update(
        &self,
        counter: CounterId,
        read: impl Fn(&Q) -> QpCounts,
        give: impl FnOnce(QpCounts),
    ) {
        let mut inner = self.inner.lock();
        let Inner { members, given, .. } = &mut *inner;
        let mut sum = [0; MAX_QP_COUNTERS];
        for member in members
            .iter_mut()
            .filter(|member| member.counter == counter)
        {
            let now = read(&member.qp);
            sum = plus(sum, member.news(now));
        }
        *given = plus(*given, sum);
        give(sum);
    }

    /// What was ever counted apart.
    pub(crate) fn total(&self, read: impl Fn(&Q) -> QpCounts) -> QpCounts {
        let inner = self.inner.lock();
        let news = |member: &CountedQp<Q>| minus(read(&member.qp), member.last);
        inner.members.iter().map(news).fold(inner.given, plus)
    }
}

/// The sum, counter by counter.
fn plus(a: QpCounts, b: QpCounts) -> QpCounts {
    each(a, b, u64::wrapping_add)
}

/// The difference, counter by counter.
fn minus(a: QpCounts, b: QpCounts) -> QpCounts {
    each(a, b, u64::wrapping_sub)
}

fn each(mut a: QpCounts, b: QpCounts, by: fn(u64, u64) -> u64) -> QpCounts {
    for (a, b) in a.iter_mut().zip(b) {
        *a = by(*a, b);
    }
    a
}
