// SPDX-License-Identifier: GPL-2.0

//! The states of a QP: what a driver does to the two halves, and to what was posted, when one changes.
//!
//! Owns the attributes of the halves. Which transition is legal is the table's to say.

use super::*;
use roce::{
    id::{
        Pkey,
        Qpn, //
    },
    qp::state::{
        RecvAction,
        SendAction,
        Transition, //
    },
    rc::{
        requester::RequesterConfig,
        responder::ResponderConfig, //
    },
    wr::WcOpcode,
};

/// The number of the peer's QP, as host `which` knows it.
const fn peer_of(which: usize) -> Qpn {
    Qpn::new(0x11 + 1 - which as u32)
}

/// Returns the attributes of the half that sends.
pub(super) const fn requester_config(
    setup: &Setup,
    which: usize,
    first_psn: Psn,
) -> RequesterConfig {
    RequesterConfig {
        dest_qpn: peer_of(which),
        pkey: Pkey::DEFAULT,
        first_psn,
        path_mtu: setup.mtu,
        max_rd_atomic: setup.max_rd_atomic,
        ack_timeout: setup.ack_timeout,
        retry_cnt: setup.retry_cnt,
        rnr_retry: setup.rnr_retry,
        flow: setup.flow,
        initial_window: setup.flow.packets,
    }
}

/// Returns the attributes of the half that receives.
pub(super) const fn responder_config(
    setup: &Setup,
    which: usize,
    expected_psn: Psn,
) -> ResponderConfig {
    ResponderConfig {
        dest_qpn: peer_of(which),
        pkey: Pkey::DEFAULT,
        expected_psn,
        path_mtu: setup.mtu,
        access: setup.access,
        min_rnr_timer: setup.min_rnr_timer,
    }
}

impl End {
    /// Does what a transition of host `which` asks for. The PSNs count where a half starts.
    pub fn modify(
        &mut self,
        transition: Transition,
        which: usize,
        (send_psn, recv_psn): (Psn, Psn),
    ) {
        match transition.send {
            SendAction::Keep => {}
            SendAction::Reset => self.forget_sends(),
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

    /// Reports every receive that is not complete as flushed.
    pub fn flush_receives(&mut self) {
        self.responder.fail();
        let begun = self.responder.flush_receive();
        self.queue.in_progress = None;
        let posted = self.queue.posted.drain(..).map(|posted| {
            Completion::failed(posted.wr.wr_id, WcOpcode::Recv, WcStatus::WrFlushErr)
        });
        let flushed = begun.into_iter().chain(posted);
        self.received
            .extend(flushed.map(|completion| (completion, false)));
    }

    fn forget_sends(&mut self) {
        self.requester.reset();
        // What was posted and is not done with leaves the ring, as a driver clears it.
        let next = self.retired % self.setup.slots as u64;
        self.requester.align(SlotIndex(next as u32));
        self.backlog.clear();
        (self.by_wire, self.answered) = (false, false);
    }
}
