// SPDX-License-Identifier: GPL-2.0

//! What a device counts: the port statistics of `rdma statistic`.
//!
//! Owns the counters and their names: one for each reason to drop a packet, and those that
//! rdma_rxe has, under the same names. Does not decide what is counted.

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
    net::tx::gso_list::Xmit,
    sync::percpu_counter::PercpuCounters, //
};
use roce::{
    pma::Counts,
    status::DropReason, //
};

/// Declares [`Counter`], so that a variant cannot exist without its name.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $counter:ident = $name:literal,)+) => {
        /// What is counted besides dropped packets.
        #[derive(Clone, Copy)]
        pub(crate) enum Counter {
            $($(#[doc = $doc])+ $counter,)+
        }

        /// Their names, in the order of the variants.
        const OURS: &[&CStr] = &[$($name,)+];
    };
}

counters! {
    /// Packets given to the network.
    SentPackets = c"sent_pkts",
    /// Packets that were taken in.
    ReceivedPackets = c"rcvd_pkts",
    /// Bytes of UDP payload given to the network.
    SentBytes = c"sent_bytes",
    /// Bytes of UDP payload that were taken in.
    ReceivedBytes = c"rcvd_bytes",
    /// Packets that the local network stack refused, or that there was no memory for; they count as lost.
    SendErrors = c"send_err",
    /// Packets that were handed to a peer on this machine, without a network in between; they count as sent,
    /// too.
    HandedOver = c"local_pkts",
    /// Packets at which a queue pushed back.
    Congested = c"tx_congested",
    /// Buffers with several packets that were taken in as one.
    ReceivedBursts = c"rcvd_bursts",
    /// SENDs that are complete.
    Sends = c"rdma_sends",
    /// Receives that got a message.
    RecvQueue = c"rdma_recvs",
    /// Responses that were handed to whoever waits for them; what the name says is rdma_rxe's matter.
    Responses = c"ack_deferred",
    /// Requests that came again.
    Duplicates = c"duplicate_request",
    /// Requests that came too early: one before them was missing.
    OutOfSequence = c"out_of_seq_request",
    /// Requests of peers that found no receive posted.
    SentRnr = c"send_rnr_err",
    /// Requests of ours that found no receive posted.
    ReceivedRnr = c"rcvd_rnr_err",
    /// Reports of peers that a request of ours is missing.
    ReceivedSequence = c"rcvd_seq_err",
    /// Times that requests were sent again.
    Retries = c"completer_retry_err",
    /// Times that a peer did not answer.
    Timeouts = c"ack_timeouts",
    /// Times that the link went down.
    LinkDowned = c"link_downed",
    /// Queue pairs that gave up after too many retries.
    RetryExceeded = c"retry_exceeded_err",
    /// Queue pairs that gave up because the peer was never ready.
    RnrRetryExceeded = c"retry_rnr_exceeded_err",
}

/// What says that a packet was damaged, or made no sense.
const DAMAGED: &[DropReason] = &[
    DropReason::TooShort,
    DropReason::UnknownOpcode,
    DropReason::BadVersion,
    DropReason::BadPad,
    DropReason::BadIpHeader,
    DropReason::BadIcrc,
];

/// Number of counters of a device.
const COUNT: usize = OURS.len() + DropReason::COUNT;

/// The names of all counters: ours, then one for each reason to drop a packet.
pub(crate) const NAMES: [&CStr; COUNT] = {
    let mut names = [c""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = match at.checked_sub(OURS.len()) {
            None => OURS[at],
            Some(reason) => DropReason::ALL[reason].c_name(),
        };
        at += 1;
    }
    names
};

/// What a queue pair counts for itself, in the order of [`Traffic::counts`].
pub(crate) const OF_QP: [usize; 4] = [
    Counter::SentPackets as usize,
    Counter::SentBytes as usize,
    Counter::ReceivedPackets as usize,
    Counter::ReceivedBytes as usize,
];

/// What one queue pair has sent and received.
pub(crate) struct Traffic {
    sent: [Atomic<i64>; 2],
    received: [Atomic<i64>; 2],
}

impl Traffic {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            sent: [const { Atomic::new(0) }; 2],
            received: [const { Atomic::new(0) }; 2],
        }
    }

    /// Notes packets given to the network, and their bytes.
    pub(crate) fn sent(&self, packets: u16, bytes: usize) {
        let [count, sum] = &self.sent;
        count.add(packets.into(), Relaxed);
        // CAST: At most 64 KiB.
        sum.add(bytes as i64, Relaxed);
    }

    /// Notes packets that were taken in, and their bytes.
    pub(crate) fn received(&self, packets: u16, bytes: usize) {
        let [count, sum] = &self.received;
        count.add(packets.into(), Relaxed);
        // CAST: Far below 2^63.
        sum.add(bytes as i64, Relaxed);
    }

    /// Values, in the order of [`OF_QP`].
    pub(crate) fn counts(&self) -> QpCounts {
        let ([sent, sent_bytes], [received, received_bytes]) = (&self.sent, &self.received);
        let mut counts = QpCounts::default();
        let counters = [sent, sent_bytes, received, received_bytes];
        for (count, counter) in counts.iter_mut().zip(counters) {
            // CAST: Counts up from 0.
            *count = counter.load(Relaxed) as u64;
        }
        counts
    }

    /// Names and values.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static CStr, u64)> {
        let names = OF_QP.iter().filter_map(|&index| NAMES.get(index).copied());
        names.zip(self.counts())
    }
}

/// The counters of one device.
pub(crate) struct Counters(PercpuCounters);

impl Counters {
    /// All at 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        PercpuCounters::new(COUNT).map(Self)
    }

    /// Value of the counter at `index`; 0 if there is none.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.0.sum(index)
    }

    /// Adds one.
    pub(crate) fn count(&self, what: Counter) {
        self.0.add(what as usize, 1);
    }

    /// Adds each number to its counter.
    pub(crate) fn count_all(&self, counts: &[(Counter, u32)]) {
        for &(what, count) in counts {
            if count != 0 {
                self.0.add(what as usize, count.into());
            }
        }
    }

    /// Notes a packet that was dropped on arrival.
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.dropped_all(reason, 1);
    }

    /// Notes packets that were dropped on arrival, all at once.
    pub(crate) fn dropped_all(&self, reason: DropReason, packets: u16) {
        trace::packet_drop(reason.c_name());
        let index = OURS.len().wrapping_add(reason.index());
        self.0.add(index, packets.into());
    }

    /// How many packets were dropped on arrival for that reason.
    pub(crate) fn dropped_for(&self, reason: DropReason) -> u64 {
        self.value(OURS.len().wrapping_add(reason.index()))
    }

    /// What performance management tells of the port.
    pub(crate) fn summary(&self) -> Counts {
        let value = |what: Counter| self.value(what as usize);
        let damaged = |&reason: &DropReason| self.dropped_for(reason);
        Counts {
            sent_bytes: value(Counter::SentBytes),
            received_bytes: value(Counter::ReceivedBytes),
            sent_packets: value(Counter::SentPackets),
            received_packets: value(Counter::ReceivedPackets),
            send_discards: value(Counter::SendErrors),
            receive_errors: DAMAGED.iter().map(damaged).fold(0, u64::wrapping_add),
            link_downed: value(Counter::LinkDowned),
        }
    }

    /// Notes packets that were taken in, and their bytes.
    pub(crate) fn received(&self, packets: u16, bytes: usize) {
        self.0
            .add(Counter::ReceivedPackets as usize, packets.into());
        // CAST: `usize` to `u64`.
        self.0.add(Counter::ReceivedBytes as usize, bytes as u64);
    }

    /// Notes what became of a packet of `bytes` bytes.
    pub(crate) fn sent(&self, packets: u16, bytes: usize, result: Xmit) {
        match result {
            Xmit::Lost => return self.not_sent(packets.into()),
            Xmit::Congested => self.count(Counter::Congested),
            Xmit::Sent => {}
        }
        self.0.add(Counter::SentPackets as usize, packets.into());
        // CAST: `usize` to `u64`.
        self.0.add(Counter::SentBytes as usize, bytes as u64);
    }

    /// Notes packets that never got as far as the network.
    pub(crate) fn not_sent(&self, packets: u32) {
        self.count_all(&[(Counter::SendErrors, packets)]);
    }

    /// Notes packets that were handed to a peer on this machine.
    pub(crate) fn handed_over(&self, packets: u16, bytes: usize) {
        self.0.add(Counter::HandedOver as usize, packets.into());
        self.sent(packets, bytes, Xmit::Sent);
    }
}
