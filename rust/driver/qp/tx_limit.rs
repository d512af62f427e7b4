// SPDX-License-Identifier: GPL-2.0

//! What holds a sender back whom nobody acknowledges anything.
//!
//! Owns how much an unreliable queue pair may have under way on its own machine, how long it pauses after
//! the network has refused something, and that packets do not overtake each other. A peer that is too slow
//! on another machine is none of its business: such a service loses packets.

use crate::qp::{
    actions::Actions,
    shared::QpShared, //
};
use kernel::cpu::CpuId;
use rdma::sync::timer::now;

/// Most memory of packets that the network may hold, in bytes: some ten bursts.
const MOST: i64 = 1 << 20;

/// What it may hold of one that has just begun.
const FIRST: i64 = MOST / 16;

/// What it may hold on the slowest link. A turn may add one burst.
const LEAST: i64 = 16 << 10;

/// How long packets may be under way on this machine, in nanoseconds. The queue of an interface (fq_codel) begins
/// to drop where they wait for 5 ms, and tells nobody.
const SLOW: u64 = 2_000_000;

/// How long to wait when the network has refused a burst, in nanoseconds.
const REFUSED: u64 = 100_000;

/// The longest wait for the network to let go of what it holds, in nanoseconds. What is stuck there, or in
/// the queue of a receiver that waits for memory, may be stuck for long, and the consumer wants to hear
/// that its requests are done.
const PATIENCE: u64 = 20_000_000;

/// When a sender may go on.
pub(crate) struct TxLimit {
    /// Bytes that may be under way: fewer while they take long.
    most: i64,
    /// What lands before this time was sent before that was changed.
    changed_until: u64,
    /// Not before this time, whatever happens.
    not_before: Option<u64>,
    /// At this time, even if what is under way has not become less.
    patience: Option<u64>,
    /// If the order matters, the CPU that has sent what is under way.
    sent_by: Option<u32>,
}

impl Default for TxLimit {
    fn default() -> Self {
        Self {
            most: FIRST,
            changed_until: 0,
            not_before: None,
            patience: None,
            sent_by: None,
        }
    }
}

impl TxLimit {
    /// Pacing of packets that have to arrive in order. A link within the machine keeps those of one CPU in
    /// order, and no others: each CPU has a backlog of its own.
    pub(crate) fn in_order() -> Self {
        Self {
            sent_by: Some(CpuId::current().as_u32()),
            ..Self::default()
        }
    }

    /// Whether to send nothing now. Then it is in `actions` when to look again.
    pub(crate) fn holds(&mut self, qp: &QpShared, actions: &mut Actions) -> bool {
        let under_way = qp.tx_inflight().bytes();
        self.adapt(qp, under_way);
        let here = CpuId::current().as_u32();
        let overtakes = under_way > 0 && self.sent_by.is_some_and(|cpu| cpu != here);
        let full = overtakes || under_way >= self.most;
        if !full && self.not_before.is_none() {
            self.goes_on(here);
            return false;
        }
        let now = now();
        if let Some(time) = self.not_before.filter(|&time| now < time) {
            actions.wake_at = Some(time);
            return true;
        }
        self.not_before = None;
        let patience = match full {
            true => *self.patience.get_or_insert(now.saturating_add(PATIENCE)),
            false => now,
        };
        if now >= patience {
            self.goes_on(here);
            return false;
        }
        actions.wake_at = Some(patience);
        actions.resume_below = Some(if overtakes { 1 } else { self.most / 2 });
        true
    }

    /// Lets more or less be under way, by how long it has taken. More than keeps the link busy is of no use: when the
    /// link stops for a while, all of it waits.
    fn adapt(&mut self, qp: &QpShared, under_way: i64) {
        let Some(delay) = qp.tx_inflight().take_delay() else {
            return;
        };
        let idle = under_way == 0 && delay < SLOW / 2;
        if idle || delay < SLOW / 8 {
            self.most = self.most.saturating_add(LEAST).min(MOST);
        } else if delay > SLOW {
            let now = now();
            if now >= self.changed_until {
                self.most = (self.most / 2).max(LEAST);
                self.changed_until = now.saturating_add(delay);
            }
        }
    }

    /// Packets are sent, by the CPU `here`.
    fn goes_on(&mut self, here: u32) {
        self.patience = None;
        self.sent_by = self.sent_by.map(|_| here);
    }

    /// The network has taken what it was given, or has `refused` some of it.
    pub(crate) fn sent(&mut self, refused: bool) {
        if refused {
            self.not_before = Some(now().saturating_add(REFUSED));
        }
    }
}
