// SPDX-License-Identifier: GPL-2.0

//! ACK requests and probes in the sparse mode.

use super::*;
use crate::{
    congestion::{
        dcqcn::DcqcnConfig,
        pacer::Rate, //
    },
    wr::LocalOp, //
};

const ADD: SendOp = SendOp::Atomic {
    remote: at(0x1000),
    op: crate::wr::AtomicOp::FetchAdd { add: 1 },
};

/// Longest time without an ACK request, in microseconds.
const MAX_DELAY_US: u64 = 1_000;

/// A requester with 64 slots and this ACK timeout code. The peer has acknowledged one message; the
/// next PSN is 100.
fn established(code: u8) -> Bench {
    let mut bench = Bench::of(64, |config| {
        config.first_psn = Psn::new(99);
        config.ack_timeout = code;
    });
    bench.post(SEND, 8);
    assert_eq!(bench.psns_with_ack_request(), [99]);
    bench.receive(ack(99)).unwrap();
    assert_eq!(bench.completions(), [(8, WcStatus::Success)]);
    bench
}

/// A requester with an ACK timeout of 67 ms.
fn with_long_timeout() -> Bench {
    established(14)
}

/// A requester with an ACK timeout of 67 ms that has sent `messages` messages without ACK request.
fn with_unrequested(messages: u32) -> Bench {
    let mut bench = with_long_timeout();
    bench.post_stream(messages, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench
}

impl Bench {
    /// Posts an unsignaled request.
    fn post_unsignaled(&mut self, op: SendOp, length: u32) {
        let wr = request(op, length);
        let signaled = false;
        self.requester.post(SendWr { signaled, ..wr }).unwrap();
    }

    /// Posts unsignaled SENDs.
    fn post_stream(&mut self, messages: u32, length: u32) {
        for _ in 0..messages {
            self.post_unsignaled(SEND, length);
        }
    }

    /// Sends all packets in the sparse mode and returns them.
    fn transmit_sparse(&mut self) -> Vec<Pkt> {
        let burst = self
            .requester
            .burst(self.now, ALL)
            .sparse_ack_requests(true);
        burst.map(|segment| Pkt::of(&segment)).collect()
    }

    /// As [`transmit_sparse`](Self::transmit_sparse), but returns the PSNs with an ACK request.
    fn psns_with_ack_request(&mut self) -> Vec<u32> {
        let sent = self.transmit_sparse();
        let requesting = sent.iter().filter(|packet| packet.ack_request);
        requesting.map(|packet| packet.psn).collect()
    }
}

/// The ACK probe when `una` is the oldest unacknowledged PSN.
fn probe(una: u32) -> Pkt {
    send_pkt(Position::Only, una - 1, 0).with_ack_request()
}

#[test]
fn sparse_requests_are_a_quarter_of_queue_or_window_apart_at_most() {
    let mut bench = with_long_timeout();
    bench.post_stream(40, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [115, 131],
        "every 16th request"
    );

    let mut bench = with_long_timeout();
    bench.requester.config.flow.packets = 40;
    bench.post_stream(1, 256 * 30);
    assert_eq!(
        bench.psns_with_ack_request(),
        [109, 119, 129],
        "every 10th packet"
    );

    let mut bench = with_long_timeout();
    bench.requester.config.flow.bytes = 256 * 12;
    bench.post_stream(2, 256 * 6);
    assert_eq!(
        bench.psns_with_ack_request(),
        [102, 105, 108, 111],
        "every third, limited by bytes"
    );
}

#[test]
fn packets_that_something_waits_for_request_an_ack() {
    let mut bench = with_long_timeout();
    bench.post_stream(2, 8);
    bench.post(SEND, 300);
    assert_eq!(
        bench.psns_with_ack_request(),
        [103],
        "the last packet of a signaled request"
    );
    bench.post_stream(1, 8);
    bench.post(READ, 8);
    assert_eq!(bench.psns_with_ack_request(), [105], "a READ");
    bench.post_stream(2, 8);
    bench.post(SendOp::Local(LocalOp::Invalidate), 0);
    assert_eq!(
        bench.psns_with_ack_request(),
        [107],
        "a local operation waits for it"
    );

    let mut bench = with_long_timeout();
    bench.post_stream(1, 600);
    bench.transmit_up_to(BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    });
    bench.requester.drain();
    assert_eq!(
        bench.psns_with_ack_request(),
        [102],
        "the last packet before the queue is drained"
    );
}

#[test]
fn the_last_signaled_message_of_a_burst_requests_the_ack() {
    let mut bench = with_long_timeout();
    for _ in 0..3 {
        bench.post(SEND, 300);
        bench.post_unsignaled(SendOp::Local(LocalOp::Register), 0);
    }
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.extend(bench.psns_with_ack_request());
        bench.requester.perform_local(|_, _| Ok(()));
    }
    assert_eq!(requests, [105], "registrations between them do not matter");
    bench.receive(ack(105)).unwrap();
    assert!(!bench.requester.in_flight());

    let two = |second: fn(&mut Bench), limit| {
        let mut bench = with_long_timeout();
        bench.post(SEND, 300);
        second(&mut bench);
        let burst = bench.requester.burst(bench.now, limit);
        let first = burst.sparse_ack_requests(true).take(2).last();
        first.is_some_and(|segment| Pkt::of(&segment).ack_request)
    };
    assert!(!two(|bench| _ = bench.post(SEND, 300), ALL));
    assert!(two(|bench| bench.post_unsignaled(SEND, 300), ALL));
    assert!(
        two(|bench| _ = bench.post(READ, 300), ALL),
        "a READ may have to wait"
    );
    let invalidate = |bench: &mut Bench| {
        bench.post_unsignaled(SendOp::Local(LocalOp::Invalidate), 0);
        bench.post(SEND, 300);
    };
    assert!(two(invalidate, ALL), "it waits for the first message");
    for limit in [
        BurstLimit { packets: 3, ..ALL },
        BurstLimit { bytes: 599, ..ALL },
    ] {
        assert!(two(|bench| _ = bench.post(SEND, 300), limit), "{limit:?}");
    }
    let invalid = |bench: &mut Bench| {
        let bad = bench.post(SEND, 300);
        bench.requester.abort(bad, WcStatus::LocQpOpErr);
    };
    assert!(two(invalid, ALL));
    let small_window = |bench: &mut Bench| {
        bench.requester.config.flow.packets = 3;
        bench.post(SEND, 300);
    };
    assert!(two(small_window, ALL));
}

/// The message that was to request the ACK does not leave.
#[test]
fn a_message_whose_successor_waits_is_probed() {
    let mut bench = with_long_timeout();
    bench.post(SEND, 8);
    bench.post(SEND, 9);
    assert_eq!(bench.psns_with_ack_request(), [101]);
    bench.requester.await_memory(1);
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.completions(), [(8, WcStatus::Success)]);
}

#[test]
fn a_message_behind_which_a_registration_fails_is_probed() {
    let mut bench = with_long_timeout();
    bench.post(SEND, 8);
    bench.post_unsignaled(SendOp::Local(LocalOp::Register), 0);
    bench.post(SEND, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench
        .requester
        .perform_local(|_, _| Err(WcStatus::MwBindErr));
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
}

#[test]
fn a_message_whose_successor_a_rate_may_hold_back_requests_its_ack() {
    let mut bench = with_long_timeout();
    let algorithm = Algorithm::Dcqcn(DcqcnConfig::new(Rate::from_mbit_s(20)));
    *bench.requester.congestion() = congestion::Sender::new(algorithm, u32::MAX);
    let two = |bench: &mut Bench| {
        bench.post(SEND, 8);
        bench.post(SEND, 8);
        bench.psns_with_ack_request()
    };
    assert_eq!(two(&mut bench), [101], "the rate is that of the link");
    bench.requester.congestion().on_cnp(bench.now);
    assert_eq!(two(&mut bench), [102, 103]);
}

#[test]
fn a_message_requests_the_ack_before_a_probe_would() {
    let mut bench = with_long_timeout();
    let mut requests = Vec::new();
    for _ in 0..20 {
        bench.post_stream(1, 8);
        requests.extend(bench.psns_with_ack_request());
        assert!(!bench.wait(100));
    }
    assert_eq!(requests, [105, 111, 117], "every 500 us");
}

#[test]
fn a_probe_requests_the_ack_when_a_stream_stops() {
    let mut bench = with_long_timeout();
    bench.post_stream(3, 300);
    assert_eq!(bench.psns_with_ack_request(), []);
    let flight = bench.requester.flight();
    assert!(!bench.wait(MAX_DELAY_US - 1));
    assert!(bench.wait(1));
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
    assert_eq!(bench.transmit_sparse(), [], "once");
    assert_eq!(
        bench.requester.flight(),
        flight,
        "the probe is not in flight"
    );
    assert!(!bench.wait(60_000));

    bench.receive(ack(103)).unwrap();
    let stats = bench.requester.take_stats();
    assert_eq!((stats.retries, stats.timeouts), (0, 0));
    assert!(!bench.wait(5_000), "two packets are unacknowledged");
    assert!(bench.wait(63_000), "the timeout runs from the last ACK");
    assert_eq!(psns(&bench.transmit_sparse()), [104, 105]);
}

/// Some peers look a duplicate up among their responses, whatever its opcode.
#[test]
fn a_read_is_not_probed_but_the_last_packet_is_sent_again() {
    for (op, operation) in [
        (READ, Operation::ReadResponse),
        (ADD, Operation::AtomicAcknowledge),
    ] {
        let mut bench = with_long_timeout();
        bench.post(op, 8);
        bench.post_stream(2, 300);
        assert_eq!(bench.psns_with_ack_request(), [100]);
        let response = Pkt::new(operation, Position::Only, 100, 8);
        bench
            .receive(match operation {
                Operation::ReadResponse => response,
                _ => Pkt {
                    len: 0,
                    original: Some(0),
                    ..response
                },
            })
            .unwrap();
        let flight = bench.requester.flight();
        assert!(bench.wait(MAX_DELAY_US));
        let last = send_pkt(Position::Last, 104, 44).with_ack_request();
        assert_eq!(bench.transmit_sparse(), [last]);
        assert_eq!(bench.transmit_sparse(), [], "once");
        assert_eq!(bench.requester.flight(), flight);

        bench.receive(ack(102)).unwrap();
        assert_eq!(bench.requester.take_stats().retries, 0);
        bench.requester.require_ack_request();
        assert_eq!(bench.transmit_sparse(), [probe(103)], "102 was a SEND");
        bench.receive(ack(104)).unwrap();
        assert!(!bench.requester.in_flight());
    }
}

#[test]
fn the_packet_sent_again_precedes_an_aborted_request() {
    let mut bench = with_long_timeout();
    bench.post(READ, 8);
    bench.post_stream(2, 9);
    let bad = bench.post(SEND, 600);
    assert_eq!(bench.psns_with_ack_request(), [100, 105]);
    bench.requester.abort(bad, WcStatus::LocProtErr);
    assert_eq!(bench.transmit_sparse(), [], "a READ is in flight");
    bench.receive_data(100, 8).unwrap();
    let again = send_pkt(Position::Only, 102, 9).with_ack_request();
    assert_eq!(bench.transmit_sparse(), [again]);
    bench.receive(ack(102)).unwrap();
    assert_eq!(bench.requester.error(), Some(WcStatus::LocProtErr));
}

#[test]
fn a_later_packet_replaces_the_probe() {
    let mut bench = with_unrequested(2);
    bench.now = micros(500);
    bench.post(SEND, 8);
    assert_eq!(bench.psns_with_ack_request(), [102]);
    assert!(!bench.wait(MAX_DELAY_US), "already requested");

    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench.receive(ack(103)).unwrap();
    assert_eq!(
        bench.requester.next_wake().at(),
        None,
        "acknowledged without a request"
    );

    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench.wait(MAX_DELAY_US);
    bench.post_stream(1, 8);
    let sent = bench.transmit_sparse();
    assert_eq!(
        sent,
        [send_pkt(Position::Only, 105, 8).with_ack_request()],
        "no probe"
    );
}

#[test]
fn a_new_waiter_triggers_a_probe_at_once() {
    for wait in [
        |bench: &mut Bench| {
            bench.post(SendOp::Local(LocalOp::Bind), 0);
        },
        |bench: &mut Bench| bench.requester.drain(),
    ] {
        let mut bench = with_unrequested(2);
        wait(&mut bench);
        bench.requester.perform_local(|_, _| Ok(()));
        assert!(bench.requester.has_work());
        assert_eq!(bench.transmit_sparse(), [probe(100)]);
        assert!(!bench.requester.has_work());
    }

    let mut bench = with_unrequested(2);
    bench.post_unsignaled(SendOp::Local(LocalOp::Register), 0);
    bench.requester.perform_local(|_, _| Ok(()));
    assert_eq!(
        bench.transmit_sparse(),
        [],
        "an unsignaled registration does not wait"
    );
}

#[test]
fn an_ack_request_that_was_not_sent_is_repeated() {
    for code in [0, 14] {
        let mut bench = established(code);
        bench.post_stream(3, 8);
        let bad = bench.post(SEND, 9);
        assert_eq!(bench.psns_with_ack_request(), [103]);
        bench.requester.abort(bad, WcStatus::LocProtErr);
        assert!(bench.requester.has_work());
        assert_eq!(bench.transmit_sparse(), [probe(100)]);
        bench.receive(ack(102)).unwrap();
        let mut done = Vec::new();
        while let Some(retired) = bench.requester.poll_completion() {
            done.push(retired.completion().map(|completion| completion.status));
        }
        assert_eq!(done, [None, None, None, Some(WcStatus::LocProtErr)]);
    }
}

#[test]
fn the_ack_timeout_starts_with_the_ack_request() {
    let mut bench = with_unrequested(3);
    bench.post(SEND, 9);
    assert_eq!(bench.psns_with_ack_request(), [103]);
    bench.requester.unsend(1);
    assert!(!bench.wait(100_000), "a long page fault does not count");
    let stats = bench.requester.take_stats();
    assert_eq!((stats.timeouts, stats.retries), (0, 0));
    assert_eq!(bench.psns_with_ack_request(), [103]);
    assert!(!bench.wait(67_000));
    assert!(bench.wait(200));
    assert_eq!(
        bench.requester.take_stats().timeouts,
        1,
        "after the full timeout"
    );

    let mut bench = with_unrequested(3);
    assert!(bench.wait(100_000), "the engine runs late");
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
    assert_eq!(bench.requester.take_stats().timeouts, 0);
}

#[test]
fn no_timeout_runs_if_no_ack_request_was_sent() {
    let mut bench = Bench::of(64, |config| {
        (config.ack_timeout, config.retry_cnt) = (14, 0);
    });
    bench.post(SEND, 600);
    assert_eq!(bench.psns_with_ack_request(), [102]);
    bench.requester.unsend(2);
    assert_eq!(bench.requester.next_wake().at(), None);
    assert!(!bench.wait(100_000), "a long page fault does not count");
    assert_eq!(bench.psns_with_ack_request(), [101, 102]);
    assert!(!bench.wait(67_000));
    assert!(bench.wait(200));
    assert_eq!(bench.requester.error(), Some(WcStatus::RetryExcErr));
}

#[test]
fn a_peer_without_a_first_ack_is_not_probed() {
    let mut bench = Bench::of(64, |config| config.ack_timeout = 14);
    bench.post(READ, 8);
    assert_eq!(bench.psns_with_ack_request(), [100]);
    bench.receive_data(100, 8).unwrap();
    bench.post_stream(3, 8);
    assert_eq!(bench.psns_with_ack_request(), [101, 102, 103]);
    bench.receive(ack(103)).unwrap();
    bench.post_stream(3, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
}

#[test]
fn packets_outside_a_stream_request_acks() {
    let mut bench = with_long_timeout();
    for psn in 100..110 {
        bench.wait(MAX_DELAY_US + 1);
        bench.post_stream(1, 8);
        assert_eq!(bench.psns_with_ack_request(), [psn]);
    }
    bench.post_stream(1, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [],
        "this one follows at once"
    );
}

#[test]
fn after_a_timeout_all_messages_request_acks() {
    let mut bench = with_long_timeout();
    bench.post(SEND, 8);
    assert_eq!(bench.psns_with_ack_request(), [100]);
    assert!(bench.wait(68_000));
    assert_eq!(bench.psns_with_ack_request(), [100]);
    bench.receive(ack(100)).unwrap();
    bench.post_stream(2, 8);
    assert_eq!(bench.psns_with_ack_request(), [101, 102]);
}

#[test]
fn no_probe_is_sent_while_a_read_is_in_flight() {
    let mut bench = with_long_timeout();
    bench.post(READ, 600);
    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), [100]);
    bench.wait(MAX_DELAY_US);
    assert_eq!(bench.transmit_sparse(), []);
    for psn in 100..102 {
        bench.receive_data(psn, 256).unwrap();
        assert_eq!(bench.transmit_sparse(), []);
    }
    bench.receive_data(102, 88).unwrap();
    let again = send_pkt(Position::Only, 103, 8).with_ack_request();
    assert_eq!(
        bench.transmit_sparse(),
        [again],
        "the PSN before it is the READ's"
    );
}

#[test]
fn retransmitted_messages_request_acks() {
    let mut bench = with_unrequested(4);
    bench.receive(aeth_packet(102, SEQUENCE)).unwrap();
    assert_eq!(bench.psns_with_ack_request(), [102, 103]);
    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), [], "a new packet");
}

#[test]
fn with_a_short_timeout_all_messages_request_acks() {
    let mut bench = established(5);
    bench.post_stream(2, 8);
    assert_eq!(bench.psns_with_ack_request(), [100, 101]);
    let mut bench = established(0);
    bench.post_stream(2, 8);
    assert_eq!(bench.psns_with_ack_request(), [], "no ACK timeout");
    assert!(bench.wait(MAX_DELAY_US));
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
}

#[test]
fn no_probe_in_the_error_state_or_an_rnr_delay() {
    let mut bench = with_unrequested(1);
    bench.requester.fail();
    assert!(!bench.requester.can_send());
    bench.wait(MAX_DELAY_US);
    assert_eq!(bench.transmit_sparse(), []);

    let mut bench = with_unrequested(1);
    bench
        .receive(aeth_packet(100, Syndrome::Rnr { timer: 30 }))
        .unwrap();
    assert!(!bench.wait(MAX_DELAY_US), "the RNR delay is in progress");
    assert_eq!(bench.transmit_sparse(), []);
}

#[test]
fn a_probe_requests_the_ack_when_the_window_is_full() {
    let mut bench = with_long_timeout();
    bench.requester.config.flow.packets = 40;
    bench.post_stream(1, 256 * 100);
    let some = BurstLimit {
        bytes: u32::MAX,
        packets: 15,
    };
    let burst = bench
        .requester
        .burst(bench.now, some)
        .sparse_ack_requests(true);
    let requests: Vec<_> = burst.map(|segment| Pkt::of(&segment).ack_request).collect();
    assert_eq!(
        requests.iter().position(|ack_request| *ack_request),
        Some(9)
    );
    bench.requester.config.flow.packets = 4;
    bench.receive(ack(109)).unwrap();
    assert_eq!(bench.transmit_sparse(), []);
    assert!(bench.wait(MAX_DELAY_US));
    assert_eq!(bench.transmit_sparse(), [probe(110)]);
}
