// SPDX-License-Identifier: GPL-2.0

//! RNR NAKs for requests whose memory is absent for long.
//!
//! Called from a run of the receive engine, by its owner.

use crate::qp::{
    actions::Actions,
    rc::responder::RcRecvEngine,
    run::QpRun, //
};
use rdma::{
    net::rx::queue::SkbQueue,
    sync::timer::now, //
};
use roce::status::DropReason;

impl RcRecvEngine {
    /// Tells the peer to send again later what waits for memory, if that takes long.
    ///
    /// A request: as soon as it has waited for a while, with an RNR NAK. Requests behind it are dropped then, as the
    /// peer sends them again. A READ whose data waits: only when the peer asks for the data again. Other requests may
    /// have been executed since; and a peer that is content to wait may have no RNR retries.
    pub(super) fn delay_peer(&mut self, qp: &QpRun<'_>, inbox: &SkbQueue, actions: &mut Actions) {
        let rx_waits = self.waits.rx.is_waiting();
        // An RNR NAK must not overtake the responses of earlier requests.
        let is_for_request = rx_waits && !self.responder.owes_response();
        let asked_again =
            (rx_waits && inbox.buffers() > 1) || self.responder.stats().duplicates != 0;
        let wait = match is_for_request {
            true => &mut self.waits.rx,
            false if self.waits.tx.is_waiting() => &mut self.waits.tx,
            false => return,
        };
        let (at_ns, before) = wait.next_nak();
        let now_ns = now();
        let is_due = asked_again || (is_for_request && before == 0);
        if is_due && now_ns >= at_ns {
            let (rnr_nak, delay) = self.responder.fault_rnr_nak(before);
            wait.on_nak(now_ns, delay.as_nanos());
            self.send_alone(qp, &rnr_nak);
        } else if is_for_request && before == 0 {
            actions.wake_at(at_ns);
        } else if rx_waits && before != 0 {
            qp.port()
                .counters()
                .dropped_all(DropReason::NotReady, inbox.purge_rest());
        }
    }
}
