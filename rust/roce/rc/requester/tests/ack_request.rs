// SPDX-License-Identifier: GPL-2.0

//! Who asks for an acknowledgement, and when, if not everybody does.

use super::*;
use crate::wr::LocalOp;

/// How long an acknowledgement may go unasked, in microseconds.
const PATIENCE: u64 = 1_000;

/// A requester that has 64 slots and waits for an answer for as long as `code` says. The peer has acknowledged one
/// message; the next PSN is 100.
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

/// One that waits for 67 ms.
fn with_long_timeout() -> Bench {
    established(14)
}

/// One that waits for 67 ms, and has sent so many messages, none of which asks.
fn with_unrequested(messages: u32) -> Bench {
    let mut bench = with_long_timeout();
    bench.post_stream(messages, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench
}

impl Bench {
    /// Posts a request that is not signaled.
    fn post_unsignaled(&mut self, op: SendOp, length: u32) {
        let wr = request(op, length);
        let signaled = false;
        self.requester.post(SendWr { signaled, ..wr }).unwrap();
    }

    /// Posts requests that are not signaled.
    fn post_stream(&mut self, messages: u32, length: u32) {
        for _ in 0..messages {
            self.post_unsignaled(SEND, length);
        }
    }

    /// Sends all there is, sparing of questions. Returns the packets.
    fn transmit_sparse(&mut self) -> Vec<Pkt> {
        let burst = self
            .requester
            .burst(self.now, ALL)
            .sparse_ack_requests(true);
        burst.map(|segment| Pkt::of(&segment)).collect()
    }

    /// As [`transmit_sparse`](Self::transmit_sparse); returns the PSNs of the packets that ask.
    fn psns_with_ack_request(&mut self) -> Vec<u32> {
        let sent = self.transmit_sparse();
        let asking = sent.iter().filter(|packet| packet.ack_request);
        asking.map(|packet| packet.psn).collect()
    }
}

/// The packet that only asks, when everything before PSN `una` is acknowledged.
fn probe(una: u32) -> Pkt {
    send_pkt(Position::Only, una - 1, 0).with_ack_request()
}

#[test]
fn a_quarter_of_the_queue_or_of_the_window_is_not_sent_unasked() {
    let mut bench = with_long_timeout();
    bench.post_stream(40, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [115, 131],
        "each sixteenth request"
    );

    let mut bench = with_long_timeout();
    bench.requester.config.flow.packets = 40;
    bench.post_stream(1, 256 * 30);
    assert_eq!(
        bench.psns_with_ack_request(),
        [109, 119, 129],
        "each tenth packet"
    );

    let mut bench = with_long_timeout();
    bench.requester.config.flow.bytes = 256 * 12;
    bench.post_stream(2, 256 * 6);
    assert_eq!(
        bench.psns_with_ack_request(),
        [102, 105, 108, 111],
        "each third by its bytes"
    );
}

#[test]
fn who_is_waited_for_asks() {
    let mut bench = with_long_timeout();
    bench.post_stream(2, 8);
    bench.post(SEND, 300);
    assert_eq!(
        bench.psns_with_ack_request(),
        [103],
        "the last packet of what is signaled"
    );
    bench.post_stream(1, 8);
    bench.post(READ, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [105],
        "what is answered anyway"
    );
    bench.post_stream(2, 8);
    bench.post(SendOp::Local(LocalOp::Invalidate), 0);
    assert_eq!(
        bench.psns_with_ack_request(),
        [107],
        "what a local operation has to wait for"
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
        "the last before the queue is drained"
    );
}

#[test]
fn a_stream_that_stops_is_asked_for_by_a_probe_of_the_past() {
    let mut bench = with_long_timeout();
    bench.post_stream(3, 300);
    assert_eq!(bench.psns_with_ack_request(), []);
    let flight = bench.requester.flight();
    assert!(!bench.wait(PATIENCE - 1));
    assert!(bench.wait(1));
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
    assert_eq!(bench.transmit_sparse(), [], "once");
    assert_eq!(bench.requester.flight(), flight, "it is not in flight");
    assert!(!bench.wait(60_000));

    bench.receive(ack(103)).unwrap();
    let stats = bench.requester.take_stats();
    assert_eq!((stats.retries, stats.timeouts), (0, 0));
    assert!(!bench.wait(5_000), "two packets were not answered");
    assert!(bench.wait(63_000), "and that counts from the last answer");
    assert_eq!(psns(&bench.transmit_sparse()), [104, 105]);
}

#[test]
fn what_comes_in_time_asks_instead() {
    let mut bench = with_unrequested(2);
    bench.now = micros(500);
    bench.post(SEND, 8);
    assert_eq!(bench.psns_with_ack_request(), [102]);
    assert!(!bench.wait(PATIENCE), "asked already");

    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench.receive(ack(103)).unwrap();
    assert_eq!(bench.requester.poll_timeout(), None, "answered unasked");

    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), []);
    bench.wait(PATIENCE);
    bench.post_stream(1, 8);
    let sent = bench.transmit_sparse();
    assert_eq!(
        sent,
        [send_pkt(Position::Only, 105, 8).with_ack_request()],
        "no probe"
    );
}

#[test]
fn who_begins_to_wait_has_it_asked_for_at_once() {
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
        "nobody waits for a registration"
    );
}

#[test]
fn a_question_that_did_not_leave_is_asked_again() {
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
            done.push(retired.completion.map(|completion| completion.status));
        }
        assert_eq!(done, [None, None, None, Some(WcStatus::LocProtErr)]);
    }
}

#[test]
fn time_that_passes_before_a_question_is_not_the_peers() {
    let mut bench = with_unrequested(3);
    bench.post(SEND, 9);
    assert_eq!(bench.psns_with_ack_request(), [103]);
    bench.requester.unsend(1);
    assert!(!bench.wait(100_000), "memory was absent for long");
    let stats = bench.requester.take_stats();
    assert_eq!((stats.timeouts, stats.retries), (0, 0));
    assert_eq!(bench.psns_with_ack_request(), [103]);
    assert!(!bench.wait(67_000));
    assert!(bench.wait(200));
    assert_eq!(bench.requester.take_stats().timeouts, 1, "now it is");

    let mut bench = with_unrequested(3);
    assert!(bench.wait(100_000), "the turn comes late");
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
    assert_eq!(bench.requester.take_stats().timeouts, 0);
}

#[test]
fn who_was_asked_by_nothing_that_left_is_not_waited_for() {
    let mut bench = Bench::of(64, |config| {
        (config.ack_timeout, config.retry_cnt) = (14, 0);
    });
    bench.post(SEND, 600);
    assert_eq!(bench.psns_with_ack_request(), [102]);
    bench.requester.unsend(2);
    assert_eq!(bench.requester.poll_timeout(), None);
    assert!(!bench.wait(100_000), "memory was absent for long");
    assert_eq!(bench.psns_with_ack_request(), [101, 102]);
    assert!(!bench.wait(67_000));
    assert!(bench.wait(200));
    assert_eq!(bench.requester.error(), Some(WcStatus::RetryExcErr));
}

#[test]
fn who_has_acknowledged_nothing_yet_is_not_probed() {
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
fn what_is_no_stream_asks() {
    let mut bench = with_long_timeout();
    for psn in 100..110 {
        bench.wait(PATIENCE + 1);
        bench.post_stream(1, 8);
        assert_eq!(bench.psns_with_ack_request(), [psn]);
    }
    bench.post_stream(1, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [],
        "but this follows at once"
    );
}

#[test]
fn after_silence_everything_asks() {
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
fn nobody_probes_while_data_is_on_its_way() {
    let mut bench = with_long_timeout();
    bench.post(READ, 600);
    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), [100]);
    bench.wait(PATIENCE);
    assert_eq!(bench.transmit_sparse(), []);
    for psn in 100..102 {
        bench.receive_data(psn, 256).unwrap();
        assert_eq!(bench.transmit_sparse(), []);
    }
    bench.receive_data(102, 88).unwrap();
    assert_eq!(bench.transmit_sparse(), [probe(103)]);
}

#[test]
fn what_is_sent_again_asks_at_the_end_of_each_message() {
    let mut bench = with_unrequested(4);
    bench.receive(aeth_packet(102, SEQUENCE)).unwrap();
    assert_eq!(bench.psns_with_ack_request(), [102, 103]);
    bench.post_stream(1, 8);
    assert_eq!(bench.psns_with_ack_request(), [], "it is new");
}

#[test]
fn a_peer_that_has_no_time_is_always_asked() {
    let mut bench = established(5);
    bench.post_stream(2, 8);
    assert_eq!(bench.psns_with_ack_request(), [100, 101]);
    let mut bench = established(0);
    bench.post_stream(2, 8);
    assert_eq!(
        bench.psns_with_ack_request(),
        [],
        "it has all the time there is"
    );
    assert!(bench.wait(PATIENCE));
    assert_eq!(bench.transmit_sparse(), [probe(100)]);
}

#[test]
fn nobody_asks_for_what_was_given_up() {
    let mut bench = with_unrequested(1);
    bench.requester.fail();
    assert!(!bench.requester.can_send());
    bench.wait(PATIENCE);
    assert_eq!(bench.transmit_sparse(), []);

    let mut bench = with_unrequested(1);
    bench
        .receive(aeth_packet(100, Syndrome::Rnr { timer: 30 }))
        .unwrap();
    assert!(!bench.wait(PATIENCE), "the peer wants a pause");
    assert_eq!(bench.transmit_sparse(), []);
}

#[test]
fn what_went_unasked_is_asked_for_when_there_is_room_for_no_more() {
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
    let asked: Vec<_> = burst.map(|segment| Pkt::of(&segment).ack_request).collect();
    assert_eq!(asked.iter().position(|asks| *asks), Some(9));
    bench.requester.config.flow.packets = 4;
    bench.receive(ack(109)).unwrap();
    assert_eq!(bench.transmit_sparse(), []);
    assert!(bench.wait(PATIENCE));
    assert_eq!(bench.transmit_sparse(), [probe(110)]);
}
