// SPDX-License-Identifier: GPL-2.0

//! State transitions of a QP: applies the actions of a transition to both engines and to the posted
//! WRs.

use super::*;
use roce::{
    congestion::Algorithm,
    id::Qpn,
    message::connection::Connection,
    qp::state::{
        RecvAction,
        SendAction,
        Transition, //
    },
    rc::{
        requester::RequesterConfig,
        responder::ResponderConfig, //
    },
    wire::opcode::Service,
    wr::WcOpcode, //
};

/// QP number of the peer of host `which`.
const fn peer_of(which: usize) -> Qpn {
    Qpn::new(0x11 + 1 - which as u32)
}

/// Returns the attributes of the send engine.
pub(super) const fn requester_config(
    setup: &Setup,
    which: usize,
    first_psn: Psn,
) -> RequesterConfig {
    RequesterConfig {
        connection: Connection::new(Service::Rc, peer_of(which)),
        first_psn,
        path_mtu: setup.mtu,
        max_rd_atomic: setup.max_rd_atomic,
        ack_timeout: setup.ack_timeout,
        retry_cnt: setup.retry_cnt,
        rnr_retry: setup.rnr_retry,
        flow: setup.flow,
        initial_window: setup.flow.packets,
        congestion: Algorithm::Window,
    }
}

/// Returns the attributes of the receive engine.
pub(super) const fn responder_config(
    setup: &Setup,
    which: usize,
    expected_psn: Psn,
) -> ResponderConfig {
    ResponderConfig {
        connection: Connection::new(Service::Rc, peer_of(which)),
        expected_psn,
        path_mtu: setup.mtu,
        access: setup.access,
        min_rnr_timer: setup.min_rnr_timer,
    }
}

impl Host {
    /// Applies a transition of host `which`. The PSNs are used when an engine starts.
    pub fn modify(
        &mut self,
        transition: Transition,
        which: usize,
        (send_psn, recv_psn): (Psn, Psn),
    ) {
        match transition.send {
            SendAction::Keep => {}
            SendAction::Reset => self.reset_sends(),
            SendAction::Init => self.requester.init(),
            SendAction::Start => {
                let config = requester_config(&self.setup, which, send_psn);
                self.requester.configure(&config);
                self.requester.start();
            }
            SendAction::Drain => self.requester.drain(),
            SendAction::Resume => self.requester.resume(),
            SendAction::Fail => self.requester.fail(),
        }
        match transition.recv {
            RecvAction::Keep => {}
            RecvAction::Reset => {
                self.responder.reset();
                self.forget_early_requests();
                self.queue = ReceiveQueue::default();
                self.fatal = None;
            }
            RecvAction::Init => self.responder.init(),
            RecvAction::Start => {
                let config = responder_config(&self.setup, which, recv_psn);
                self.responder.configure(&config);
                self.responder.start();
            }
            RecvAction::Fail => self.flush_receives(),
        }
    }

    /// Completes all receives as flushed.
    pub fn flush_receives(&mut self) {
        self.responder.fail();
        let in_progress = self.responder.flush_receive();
        self.queue.in_progress = None;
        let posted = self.queue.posted.drain(..).map(|posted| {
            Completion::failed(posted.wr.wr_id, WcOpcode::Recv, WcStatus::WrFlushErr)
        });
        let flushed = in_progress.into_iter().chain(posted);
        self.received
            .extend(flushed.map(|completion| (completion, false)));
    }

    fn reset_sends(&mut self) {
        self.requester.reset();
        self.forget_early_responses();
        // Requests that are not complete leave the ring, as in the driver.
        let next = self.retired % self.setup.slots as u64;
        self.requester.align(SlotIndex(next as u32));
        self.waiting.clear();
        (self.requests_in_network, self.responses_in_network) = (false, false);
    }
}
