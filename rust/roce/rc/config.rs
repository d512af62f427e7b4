// SPDX-License-Identifier: GPL-2.0

//! Modifying a requester: which attribute goes where.
//!
//! Owns the setters. What the attributes are is in `attributes`; which of them may be set in which
//! state is for the caller to know (`ib_modify_qp_is_ok`).

use super::{
    ack_policy::AckRequests,
    attributes::{
        Config,
        FlowLimit,
        RequesterConfig, //
    },
    requester::Requester,
    slot::Slot, //
};
use crate::congestion::{
    rtt::RttEstimator,
    window::CongestionWindow, //
};
use crate::{
    id::Pkey,
    time::Instant, //
};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Sets every attribute, and the PSN. Only before [`start`](Self::start).
    pub fn configure(&mut self, config: &RequesterConfig) {
        self.config = Config {
            dest_qpn: config.dest_qpn,
            pkey: config.pkey,
            max_rd_atomic: config.max_rd_atomic,
            flow: config.flow,
        };
        self.window.configure(config.first_psn, config.path_mtu);
        self.questions = AckRequests::new(config.first_psn);
        self.cwnd = CongestionWindow::with_initial(config.initial_window);
        self.rerouted();
        self.retry.clear();
        self.retry.set_timeout(config.ack_timeout);
        self.set_retry_cnt(config.retry_cnt);
        self.set_rnr_retry(config.rnr_retry);
    }

    /// Says that there is another way to the peer.
    pub fn rerouted(&mut self) {
        self.rtt = RttEstimator::UNKNOWN;
    }

    /// Sets the local ACK timeout, a code of five bits, from the next packet on; and if so far there was none, for
    /// what is in flight at `now`.
    pub fn set_ack_timeout(&mut self, now: Instant, code: u8) {
        self.retry.set_timeout(code);
        if self.is_answer_due() {
            self.retry.is_due(now);
        }
    }

    /// Sets how often to send again before giving up.
    pub fn set_retry_cnt(&mut self, count: u8) {
        self.retry.set_limit(count);
    }

    /// Sets how often to send again to a peer that is not ready.
    pub fn set_rnr_retry(&mut self, count: u8) {
        self.retry.set_rnr_limit(count);
    }

    /// Sets how many READs the peer is ready to serve at a time.
    pub fn set_max_rd_atomic(&mut self, count: u8) {
        self.config.max_rd_atomic = count;
    }

    /// Sets the partition key to send.
    pub fn set_pkey(&mut self, pkey: Pkey) {
        self.config.pkey = pkey;
    }

    /// Sets how much may be in flight.
    pub fn set_flow(&mut self, flow: FlowLimit) {
        self.config.flow = flow;
    }
}
