// SPDX-License-Identifier: GPL-2.0

//! RNR NAKs for requests whose memory is absent for long.
//!
//! Called from a run of the receive engine, by its owner.

use crate::{
    mem::page_fault::FaultSide,
    packet::rx_parse::packet,
    qp::{
        actions::Actions,
        rc::responder::{
            send_response,
            RcRecvEngine, //
        },
        run::QpRun, //
    }, //
};
use rdma::{
    net::rx::{
        queue::SkbQueue,
        skb::RxSkb, //
    },
    sync::timer::now, //
};
use roce::{
    segmentation::tx_desc::TxDesc,
    status::DropReason,
    wake::Wake,
    wire::packet::MAX_HEADERS_LEN, //
};

/// Time after which an RNR NAK is tried again that had to wait for responses on another CPU, in nanoseconds.
const RETRY_NS: u64 = 1_000_000;

impl RcRecvEngine {
    /// Tells the peer to send again later what waits for memory, if that takes long.
    ///
    /// A request: as soon as it has waited for a while, with an RNR NAK, and each time that the peer sends it again.
    /// Requests behind it are dropped from the first NAK on, as the peer sends them again. A READ whose data waits:
    /// only when the peer asks for the data again. Other requests may have been executed since; and a peer that is
    /// content to wait may have no RNR retries.
    pub(super) fn delay_peer(&mut self, qp: &QpRun<'_>, inbox: &SkbQueue, actions: &mut Actions) {
        let rx_waits = self.core.waits.rx.is_waiting();
        // An RNR NAK must not overtake the responses of earlier requests, nor another NAK.
        let is_for_request = rx_waits && !self.responder.owes_response();
        let side = match is_for_request {
            true => FaultSide::Rx,
            false if self.responder.waits_for_memory() => FaultSide::Tx,
            false => return,
        };
        if !self.responder.is_in_sync() {
            return;
        }
        let (at_ns, before) = self.core.waits.side(side).next_nak();
        let now_ns = now();
        let is_first = is_for_request && before == 0;
        let repeated = rx_waits && before != 0 && self.drop_behind_first(qp, inbox);
        let asked_again = repeated || (!is_for_request && self.responder.stats().duplicates != 0);
        if !(is_first || asked_again) {
            return;
        }
        if now_ns < at_ns {
            // Copies that were under way before the peer could know.
            if is_first {
                actions.wake_at(Wake::FaultNak, at_ns);
            }
        } else if self.gate.is_ordered_here(qp) {
            let (rnr_nak, delay) = self.responder.fault_rnr_nak(before);
            self.core.waits.side(side).on_nak(now_ns, delay.as_nanos());
            self.send_alone(qp, &rnr_nak);
        } else if is_first {
            actions.wake_at(Wake::FaultNak, now_ns.saturating_add(RETRY_NS));
        }
    }

    /// Drops the packets behind the first one. Returns whether the peer has sent the first one again.
    fn drop_behind_first(&mut self, qp: &QpRun<'_>, inbox: &SkbQueue) -> bool {
        let expected = self.responder.expected_psn();
        let mut is_repeated = false;
        inbox.purge_rest(|skb: &RxSkb| {
            let mut header_copy = [0; MAX_HEADERS_LEN];
            let first = packet(qp.port(), &skb.current(), &mut header_copy);
            is_repeated |= self.is_sent_by_peer(skb)
                && first.is_ok_and(|packet| !packet.psn().is_after(expected));
            let counters = qp.port().counters();
            counters.dropped_all(DropReason::NotReady, skb.packets());
        });
        is_repeated
    }

    /// Returns whether the peer has sent a received buffer.
    fn is_sent_by_peer(&self, skb: &RxSkb) -> bool {
        let path = self.core.path.as_ref();
        path.is_some_and(|path| path.is_from_peer(&skb.addresses()))
    }

    /// Sends a response without payload. If there is no memory for it, it is lost.
    fn send_alone(&mut self, qp: &QpRun<'_>, desc: &TxDesc) {
        if let Some(path) = &mut self.core.path {
            let mtu = self.responder.path_mtu();
            path.set_detects_gso_loss(self.answers_unsplit);
            let _ = send_response((desc, mtu), path, (qp, None), &mut self.core.waits.tx);
            path.transmit_pending(qp.tx());
        }
    }
}
