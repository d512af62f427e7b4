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
    net::burst::Xmit,
    trace, //
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
    /// Packets that the local network stack refused; they count as lost.
    SendErrors = c"send_err",
    /// Packets at which a queue pushed back.
    Congested = c"tx_congested",
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
    DropReason::BadUdpLength,
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

    /// Notes a packet that was taken in.
    pub(crate) fn received(&self, bytes: usize) {
        let [count, sum] = &self.received;
        count.add(1, Relaxed);
        // CAST: At most 64 KiB.
        sum.add(bytes as i64, Relaxed);
    }

    /// Names and values.
    pub(crate) fn values(&self) -> [(&'static CStr, u64); 4] {
        let ([sent, sent_bytes], [received, received_bytes]) = (&self.sent, &self.received);
        // CAST: Count up from 0.
        let value = |counter: &Atomic<i64>| counter.load(Relaxed) as u64;
        [
            (c"sent_pkts", value(sent)),
            (c"sent_bytes", value(sent_bytes)),
            (c"rcvd_pkts", value(received)),
            (c"rcvd_bytes", value(received_bytes)),
        ]
    }
}

/// The counters of one device.
pub(crate) struct Counters([Atomic<i64>; COUNT]);

impl Counters {
    /// All at 0.
    pub(crate) fn new() -> Self {
        Self([const { Atomic::new(0) }; COUNT])
    }

    /// Value of the counter at `index`; 0 if there is none.
    pub(crate) fn value(&self, index: usize) -> u64 {
        self.0
            .get(index)
            // CAST: Counts up from 0.
            .map_or(0, |counter| counter.load(Relaxed) as u64)
    }

    /// Adds one.
    pub(crate) fn count(&self, what: Counter) {
        self.add(what as usize, 1);
    }

    /// Adds each number to its counter.
    pub(crate) fn count_all(&self, counts: &[(Counter, u32)]) {
        for &(what, count) in counts {
            if count != 0 {
                self.add(what as usize, i64::from(count));
            }
        }
    }

    /// Notes a packet that was dropped on arrival.
    pub(crate) fn dropped(&self, reason: DropReason) {
        trace::packet_drop(reason.c_name());
        self.add(OURS.len().wrapping_add(reason.index()), 1);
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

    /// Notes a packet that was taken in.
    pub(crate) fn received(&self, bytes: usize) {
        self.add(Counter::ReceivedPackets as usize, 1);
        // CAST: At most 64 KiB.
        self.add(Counter::ReceivedBytes as usize, bytes as i64);
    }

    /// Notes what became of a packet of `bytes` bytes.
    pub(crate) fn sent(&self, packets: u16, bytes: usize, result: Xmit) {
        match result {
            Xmit::Lost => return self.count(Counter::SendErrors),
            Xmit::Congested => self.count(Counter::Congested),
            Xmit::Sent => {}
        }
        self.add(Counter::SentPackets as usize, packets.into());
        // CAST: At most 64 KiB.
        self.add(Counter::SentBytes as usize, bytes as i64);
    }

    fn add(&self, index: usize, amount: i64) {
        if let Some(counter) = self.0.get(index) {
            counter.add(amount, Relaxed);
        }
    }
}
