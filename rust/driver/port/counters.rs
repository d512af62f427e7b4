// SPDX-License-Identifier: GPL-2.0

//! Statistics of a port and of a QP, for `rdma statistic`.
//!
//! The counters of rdma_rxe keep their names; a further counter exists for each drop reason. Any context may count. The
//! counters of a port are per CPU; those of a QP are kept by the owners of its engines. Neither takes a lock.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};
use rdma::{
    ib::{
        qp_counters::QpCounts,
        trace, //
    },
    net::tx::output::Xmit,
    sync::percpu_counter::PercpuCounters, //
};
use roce::{
    pma::Counts,
    status::DropReason,
    wake::Wake, //
};

/// Declares [`Counter`], each variant with its name.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $counter:ident = $name:literal,)+) => {
        /// A counter of events other than dropped packets.
        #[derive(Clone, Copy)]
        pub(crate) enum Counter {
            $($(#[doc = $doc])+ $counter,)+
        }

        /// Names of the counters, in the order of the variants.
        const EVENT_NAMES: &[&CStr] = &[$($name,)+];
    };
}

counters! {
    /// Packets sent, over the network or by loopback.
    SentPackets = c"sent_pkts",
    /// Packets received, in both ways.
    ReceivedPackets = c"rcvd_pkts",
    /// Bytes of UDP payload sent.
    SentBytes = c"sent_bytes",
    /// Bytes of UDP payload received.
    ReceivedBytes = c"rcvd_bytes",
    /// Packets that the local stack dropped or that could not be allocated. The transport treats them as lost.
    SendErrors = c"send_err",
    /// Packets of `SentPackets` that went to a local peer by loopback.
    LoopbackPackets = c"local_pkts",
    /// Transmissions for which a queue reported congestion.
    Congested = c"tx_congested",
    /// Buffers received with several packets.
    ReceivedGsoLists = c"rcvd_bursts",
    /// SENDs completed.
    SendsCompleted = c"rdma_sends",
    /// Receives completed with a message.
    RecvsCompleted = c"rdma_recvs",
    /// Responses passed to their requester. Nothing is deferred; the name is rdma_rxe's.
    Responses = c"ack_deferred",
    /// Duplicate requests received.
    Duplicates = c"duplicate_request",
    /// Requests received after a gap.
    OutOfSequence = c"out_of_seq_request",
    /// RC packets that arrived before earlier ones and were kept.
    ReorderedPackets = c"reordered_pkts",
    /// RNR NAKs sent.
    SentRnrNaks = c"send_rnr_err",
    /// RNR NAKs received.
    ReceivedRnrNaks = c"rcvd_rnr_err",
    /// NAKs received for a PSN sequence error.
    ReceivedSequenceNaks = c"rcvd_seq_err",
    /// Retransmissions.
    Retries = c"completer_retry_err",
    /// ACK timeouts.
    Timeouts = c"ack_timeouts",
    /// Runs of an engine for [`Wake::AckTimeout`].
    WakeAckTimeout = c"wake_ack_timeout",
    /// Runs of an engine for [`Wake::RnrDelay`].
    WakeRnrDelay = c"wake_rnr_delay",
    /// Runs of an engine for [`Wake::AckRequest`].
    WakeAckRequest = c"wake_ack_request",
    /// Runs of an engine for [`Wake::Pace`].
    WakePace = c"wake_pace",
    /// Runs of an engine for [`Wake::LocalStack`].
    WakeLocalStack = c"wake_local_stack",
    /// Runs of an engine for [`Wake::Gap`].
    WakeGap = c"wake_gap",
    /// Runs of an engine for [`Wake::FaultNak`].
    WakeFaultNak = c"wake_fault_nak",
    /// Runs of an engine for [`Wake::RingPoll`].
    WakeRingPoll = c"wake_ring_poll",
    /// Packets received that a queue on the way had marked (ECN, congestion experienced).
    MarkedPackets = c"np_ecn_marked_roce_packets",
    /// CNPs sent.
    SentCnps = c"np_cnp_sent",
    /// CNPs received that reduced the rate of a QP.
    HandledCnps = c"rp_cnp_handled",
    /// Packets sent that an impairment has changed or lost.
    ImpairedPackets = c"impaired_pkts",
    /// Times that the link went down.
    LinkDowned = c"link_downed",
    /// QPs that failed because the retries were exhausted.
    RetryExceeded = c"retry_exceeded_err",
    /// QPs that failed because the RNR retries were exhausted.
    RnrRetryExceeded = c"retry_rnr_exceeded_err",
}

impl Counter {
    /// Returns the counter of runs for this reason.
    pub(crate) const fn of_wake(why: Wake) -> Self {
        match why {
            Wake::AckTimeout => Self::WakeAckTimeout,
            Wake::RnrDelay => Self::WakeRnrDelay,
            Wake::AckRequest => Self::WakeAckRequest,
            Wake::Pace => Self::WakePace,
            Wake::LocalStack => Self::WakeLocalStack,
            Wake::Gap => Self::WakeGap,
            Wake::FaultNak => Self::WakeFaultNak,
            Wake::RingPoll => Self::WakeRingPoll,
        }
    }
}

/// Drop reasons of damaged or malformed packets.
const RECEIVE_ERRORS: &[DropReason] = &[
    DropReason::TooShort,
    DropReason::UnknownOpcode,
    DropReason::BadVersion,
    DropReason::BadPad,
    DropReason::BadIpHeader,
    DropReason::BadIcrc,
];

/// Number of counters of a device.
const NUM_COUNTERS: usize = EVENT_NAMES.len() + DropReason::COUNT;

/// Names of all counters: those of [`Counter`], then one for each drop reason.
pub(crate) const COUNTER_NAMES: [&CStr; NUM_COUNTERS] = {
    let mut names = [c""; NUM_COUNTERS];
    let mut at = 0;
    while at < NUM_COUNTERS {
        names[at] = match at.checked_sub(EVENT_NAMES.len()) {
            None => EVENT_NAMES[at],
            Some(reason) => DropReason::ALL[reason].c_name(),
        };
        at += 1;
    }
    names
};

/// Indices of the counters that each QP has as well, in the order of [`Traffic::counts`].
pub(crate) const PER_QP_COUNTERS: [usize; 4] = [
    Counter::SentPackets as usize,
    Counter::SentBytes as usize,
    Counter::ReceivedPackets as usize,
    Counter::ReceivedBytes as usize,
];

/// Packets and bytes that one engine of a QP has sent and received.
///
/// Only the owner of the engine counts, so no addition is lost although none is atomic.
#[repr(align(64))]
pub(crate) struct EngineTraffic([Atomic<i64>; 4]);

impl EngineTraffic {
    fn new() -> Self {
        Self([const { Atomic::new(0) }; 4])
    }

    /// Counts packets sent, and their bytes of UDP payload.
    #[inline]
    pub(crate) fn sent(&self, packets: u16, bytes: usize) {
        let [count, sum, ..] = &self.0;
        Self::add(count, sum, packets, bytes);
    }

    /// Counts packets received, and their bytes of UDP payload.
    #[inline]
    pub(crate) fn received(&self, packets: u16, bytes: usize) {
        let [.., count, sum] = &self.0;
        Self::add(count, sum, packets, bytes);
    }

    #[inline]
    fn add(count: &Atomic<i64>, sum: &Atomic<i64>, packets: u16, bytes: usize) {
        count.store(count.load(Relaxed).wrapping_add(packets.into()), Relaxed);
        // CAST: The packets of one engine run have far less than 2^63 bytes.
        sum.store(sum.load(Relaxed).wrapping_add(bytes as i64), Relaxed);
    }
}

/// Packets and bytes that one QP has sent and received.
pub(crate) struct Traffic {
    /// Counted by the owner of the send engine.
    pub(crate) sender: EngineTraffic,
    /// Counted by the owner of the receive engine.
    pub(crate) receiver: EngineTraffic,
    /// Packets and bytes that were received while no engine ran.
    dropped: [Atomic<i64>; 2],
}

impl Traffic {
    /// Creates counters at 0.
    pub(crate) fn new() -> Self {
        Self {
            sender: EngineTraffic::new(),
            receiver: EngineTraffic::new(),
            dropped: [const { Atomic::new(0) }; 2],
        }
    }

    /// Counts packets that were received and dropped before an engine saw them, and their bytes of UDP payload. For any
    /// context.
    pub(crate) fn dropped(&self, packets: u16, bytes: usize) {
        let [count, sum] = &self.dropped;
        count.add(packets.into(), Relaxed);
        // CAST: A buffer has far less than 2^63 bytes.
        sum.add(bytes as i64, Relaxed);
    }

    /// Returns the values, in the order of [`PER_QP_COUNTERS`].
    pub(crate) fn counts(&self) -> QpCounts {
        let mut counts = QpCounts::default();
        let engines = self.sender.0.iter().zip(&self.receiver.0);
        for (total, (sender, receiver)) in counts.iter_mut().zip(engines) {
            // CAST: The counters start at 0 and only increase.
            *total = sender.load(Relaxed).wrapping_add(receiver.load(Relaxed)) as u64;
        }
        for (total, dropped) in counts.iter_mut().skip(2).zip(&self.dropped) {
            // CAST: As above.
            *total = total.wrapping_add(dropped.load(Relaxed) as u64);
        }
        counts
    }

    /// Returns names and values.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static CStr, u64)> {
        let names = PER_QP_COUNTERS
            .iter()
            .filter_map(|&index| COUNTER_NAMES.get(index).copied());
        names.zip(self.counts())
    }
}

/// The counters of one device.
pub(crate) struct Counters(PercpuCounters);

impl Counters {
    /// Creates counters at 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        PercpuCounters::new(NUM_COUNTERS).map(Self)
    }

    /// Returns the value of the counter at `index`; 0 if there is none.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.0.sum(index)
    }

    /// Adds one.
    pub(crate) fn count(&self, counter: Counter) {
        self.0.add(counter as usize, 1);
    }

    /// Adds each number to its counter.
    pub(crate) fn count_all(&self, counts: &[(Counter, u32)]) {
        for &(counter, count) in counts {
            if count != 0 {
                self.0.add(counter as usize, count.into());
            }
        }
    }

    /// Counts a received packet that is dropped.
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.dropped_all(reason, 1);
    }

    /// Counts received packets that are dropped together.
    pub(crate) fn dropped_all(&self, reason: DropReason, packets: u16) {
        trace::packet_drop(reason.c_name());
        let index = EVENT_NAMES.len().wrapping_add(reason.index());
        self.0.add(index, packets.into());
    }

    /// Returns the number of received packets dropped for `reason`.
    pub(crate) fn dropped_for(&self, reason: DropReason) -> u64 {
        self.value(EVENT_NAMES.len().wrapping_add(reason.index()))
    }

    /// Returns the port counters of the performance management agent.
    pub(crate) fn pma_counts(&self) -> Counts {
        let value = |counter: Counter| self.value(counter as usize);
        let dropped = |&reason: &DropReason| self.dropped_for(reason);
        Counts {
            sent_bytes: value(Counter::SentBytes),
            received_bytes: value(Counter::ReceivedBytes),
            sent_packets: value(Counter::SentPackets),
            received_packets: value(Counter::ReceivedPackets),
            send_discards: value(Counter::SendErrors),
            receive_errors: RECEIVE_ERRORS
                .iter()
                .map(dropped)
                .fold(0, u64::wrapping_add),
            link_downed: value(Counter::LinkDowned),
        }
    }

    /// Counts packets received, and their bytes of UDP payload.
    pub(crate) fn received(&self, packets: u16, bytes: usize) {
        self.0
            .add(Counter::ReceivedPackets as usize, packets.into());
        // CAST: `usize` has 64 bits.
        self.0.add(Counter::ReceivedBytes as usize, bytes as u64);
    }

    /// Counts packets given to the stack, with `bytes` of UDP payload in all and the stack's `result`.
    pub(crate) fn sent(&self, packets: u16, bytes: usize, result: Xmit) {
        match result {
            Xmit::Lost => return self.not_sent(packets.into()),
            Xmit::Congested => self.count(Counter::Congested),
            Xmit::Sent => {}
        }
        self.0.add(Counter::SentPackets as usize, packets.into());
        // CAST: `usize` has 64 bits.
        self.0.add(Counter::SentBytes as usize, bytes as u64);
    }

    /// Counts packets that did not reach the network.
    pub(crate) fn not_sent(&self, packets: u32) {
        self.count_all(&[(Counter::SendErrors, packets)]);
    }

    /// Counts packets passed to a local peer by loopback.
    pub(crate) fn sent_loopback(&self, packets: u16, bytes: usize) {
        self.0
            .add(Counter::LoopbackPackets as usize, packets.into());
        self.sent(packets, bytes, Xmit::Sent);
    }
}
