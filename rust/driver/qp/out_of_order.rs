// SPDX-License-Identifier: GPL-2.0

//! Packets that an engine keeps because they arrived early; see [`roce::rc::reorder`]. Only RC keeps any.
//!
//! Off unless the module parameter `reorder_us` is set.

use crate::{
    port::{
        counters::Counter,
        state::Port, //
    },
    qp::actions::Actions, //
};
use kernel::prelude::*;
use rdma::{
    net::rx::{
        packet::RxPacket,
        queue::KeptSkb,
        skb::RxSkb, //
    },
    sync::timer::now, //
};
use roce::{
    psn::Psn,
    rc::reorder::{
        Admission,
        EarlySize,
        EarlySlot,
        GapWait,
        ReorderBuffer,
        REORDER_SLOTS, //
    },
    status::DropReason,
    time::{
        Duration,
        Instant, //
    },
    wake::Wake, //
};

/// The buffer of early packets of an engine. `None`: reordering counts as loss.
pub(crate) struct EarlyPackets(Option<KBox<ReorderBuffer<KeptSkb, KVec<EarlySlot<KeptSkb>>>>>);

impl EarlyPackets {
    /// Keeps nothing.
    pub(crate) const OFF: Self = Self(None);

    /// Returns whether packets are kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Creates the buffer of an engine of a QP of `port`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(port: &Port) -> Result<Self> {
        match port.reorder_wait() {
            Duration::ZERO => Ok(Self::OFF),
            wait => Self::with_buffer(wait),
        }
    }

    fn with_buffer(wait: Duration) -> Result<Self> {
        // An array would be made on the stack, which is small.
        let mut slots = KVec::with_capacity(REORDER_SLOTS, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..REORDER_SLOTS {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        let buffer = ReorderBuffer::with_slots(slots, wait);
        Ok(Self(Some(KBox::new(buffer, GFP_KERNEL_ACCOUNT)?)))
    }

    /// Returns whether to call [`keep`](Self::keep) with the buffer of the packet `psn`, instead of handling it.
    ///
    /// # Errors
    ///
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn admit(
        &self,
        (psn, packet): (Psn, &RxPacket<'_>),
        is_early: impl FnOnce() -> bool,
    ) -> Result<bool, DropReason> {
        match &self.0 {
            Some(buffer) if is_early() => match buffer.admission(psn, size_of(packet)) {
                Admission::Keep => Ok(true),
                Admission::Repeated => Err(DropReason::AheadOfSequence),
                Admission::Full => Ok(false),
            },
            _ => Ok(false),
        }
    }

    /// Keeps `skb`, whose next packet has this PSN. Without memory it is lost.
    #[cold]
    pub(crate) fn keep(&mut self, port: &Port, psn: Psn, skb: RxSkb) {
        let size = size_of(&skb.current());
        // CAST: A buffer has at most 64 packets.
        let packets = size.packets as u16;
        match (&mut self.0, KeptSkb::new(skb)) {
            (Some(buffer), Some(skb)) => {
                buffer.keep(psn, size, skb);
                let kept = [(Counter::ReorderedPackets, packets.into())];
                port.counters().count_all(&kept);
            }
            _ => port.counters().dropped_all(DropReason::QueueFull, packets),
        }
    }

    /// Returns a buffer whose next packet is no longer early.
    #[inline]
    pub(crate) fn take(&mut self, is_early: impl Fn(Psn) -> bool) -> Option<RxSkb> {
        let buffer = self.0.as_mut()?;
        buffer.take(is_early).map(KeptSkb::into_skb)
    }

    /// Returns whether the packet `missing`, the first one that has not arrived, must be reported as lost. If not yet,
    /// the engine runs again when it must.
    #[inline]
    pub(crate) fn is_gap_over(&mut self, missing: Psn, actions: &mut Actions) -> bool {
        let Some(buffer) = &mut self.0 else {
            return false;
        };
        // The clock is read only if it matters.
        let now = match buffer.is_empty() {
            true => Instant::default(),
            false => Instant::from_nanos(now()),
        };
        match buffer.gap_wait(missing, now) {
            GapWait::Done => false,
            GapWait::Until(at) => {
                actions.wake_at(Wake::Gap, at.as_nanos());
                false
            }
            GapWait::Over => true,
        }
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        if let Some(buffer) = &mut self.0 {
            buffer.clear();
        }
    }
}

/// Returns what the buffer of `packet` counts, whose packets before that one are handled.
fn size_of(packet: &RxPacket<'_>) -> EarlySize {
    EarlySize {
        packets: packet.packets_left().into(),
        bytes: packet.skb().memory().unsigned_abs(),
    }
}
