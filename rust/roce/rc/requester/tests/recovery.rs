// SPDX-License-Identifier: GPL-2.0

//! Loss, silence, and a peer that is not ready.

use super::*;

// Loss.

#[test]
fn a_reported_loss_sends_everything_from_there_again() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(SEND, 600);
    bench.transmit();
    bench.receive(aeth_packet(102, SEQUENCE)).unwrap();
    assert_eq!(
        bench.completions(),
        [(1, WcStatus::Success)],
        "before it, all is well"
    );
    assert_eq!(
        bench.transmit(),
        [
            send_pkt(Position::Middle, 102, 256),
            send_pkt(Position::Last, 103, 88).with_ack_request(),
        ]
    );
}

#[test]
fn the_same_report_before_anything_is_sent_again_says_nothing_new() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.transmit();
    for expected in [Ok(()), Err(DropReason::StaleResponse)] {
        assert_eq!(bench.receive(aeth_packet(100, SEQUENCE)), expected);
    }
    assert_eq!(bench.requester.take_stats().sequence_naks, 1);
}

#[test]
fn reports_of_loss_count_as_retries() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    for _ in 0..3 {
        assert_eq!(psns(&bench.transmit()), [100]);
        bench.receive(aeth_packet(100, SEQUENCE)).unwrap();
    }
    assert_eq!(bench.completions(), [(1, WcStatus::RetryExcErr)]);
}

#[test]
fn silence_is_answered_by_sending_again_ever_more_slowly() {
    let mut bench = Bench::with(|config| config.retry_cnt = 4);
    bench.post(SEND, 1);
    for factor in [1, 2, 4, 4] {
        assert_eq!(psns(&bench.transmit()), [100]);
        assert!(!bench.wait(factor * (T - 1)), "too early");
        assert_eq!(bench.transmit(), []);
        assert!(bench.wait(factor));
    }
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(bench.wait(4 * T));
    assert_eq!(bench.completions(), [(1, WcStatus::RetryExcErr)]);
    assert_eq!(bench.requester.error(), Some(WcStatus::RetryExcErr));
    assert_eq!(bench.requester.poll_timeout(), None);
    assert_eq!(bench.requester.take_stats().timeouts, 5);
}

#[test]
fn a_timeout_that_is_set_late_runs_for_what_is_in_flight() {
    let mut bench = Bench::with(|config| config.ack_timeout = 0);
    bench.requester.set_ack_timeout(bench.now, 5);
    assert_eq!(bench.requester.poll_timeout(), None, "for nothing, none");
    bench.requester.set_ack_timeout(bench.now, 0);
    bench.post(SEND, 1);
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(!bench.wait(100 * T), "for ever");
    bench.requester.set_ack_timeout(bench.now, 5);
    assert!(!bench.wait(T - 1), "too early");
    assert!(bench.wait(1));
    assert_eq!(psns(&bench.transmit()), [100]);
}

#[test]
fn seven_retries_are_seven() {
    let mut bench = Bench::with(|config| config.retry_cnt = 7);
    bench.post(SEND, 1);
    let mut sent = 0;
    while bench.requester.error().is_none() {
        sent += bench.transmit().len();
        bench.wait(4 * T);
    }
    assert_eq!(sent, 8);
}

#[test]
fn progress_fills_the_retries_again() {
    let mut bench = Bench::new();
    bench.post(SEND, 10 * 256);
    for psn in 100..110 {
        bench.transmit();
        bench.wait(4 * T);
        bench.transmit();
        bench.wait(4 * T);
        bench.transmit();
        bench.receive(ack(psn)).unwrap();
    }
    assert_eq!(bench.completions(), [(2560, WcStatus::Success)]);
}

#[test]
fn without_a_timeout_it_waits_for_ever() {
    let mut bench = Bench::with(|config| config.ack_timeout = 0);
    bench.post(SEND, 1);
    bench.transmit();
    assert_eq!(bench.requester.poll_timeout(), None);
    assert!(!bench.wait(1 << 40));
}

#[test]
fn progress_moves_the_deadline() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.transmit();
    let timeout = crate::time::ack_timeout(5).unwrap();
    let deadline = |bench: &Bench| Some(bench.now.saturating_add(timeout));
    assert_eq!(bench.requester.poll_timeout(), deadline(&bench));
    bench.wait(T - 10);
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.requester.poll_timeout(), deadline(&bench));
    assert!(!bench.wait(T - 10));
    assert!(bench.wait(20));
}

#[test]
fn a_late_acknowledgement_saves_sending_again() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.transmit();
    bench.wait(T);
    let limit = BurstLimit {
        bytes: 1,
        packets: 1,
    };
    assert_eq!(psns(&bench.transmit_up_to(limit)), [100]);
    bench.receive(ack(101)).unwrap();
    assert_eq!(psns(&bench.transmit()), [102]);
    bench.receive(ack(102)).unwrap();
    assert_eq!(bench.completions(), [(600, WcStatus::Success)]);
}

#[test]
fn late_data_saves_asking_for_it_again() {
    let mut bench = Bench::new();
    bench.post(READ, 4 * 256);
    bench.transmit();
    bench.wait(T);
    bench.receive_data(100, 256).unwrap();
    bench.receive_data(101, 256).unwrap();
    let again = Pkt::new(Operation::ReadRequest, Position::Only, 102, 0);
    assert_eq!(
        bench.transmit(),
        [again.with_reth(0x1200, 512).with_ack_request()]
    );
}

// Not ready.

#[test]
fn a_pause_that_the_peer_asks_for_is_kept() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(SEND, 2);
    bench.transmit();
    bench
        .receive(aeth_packet(101, Syndrome::Rnr { timer: 12 }))
        .unwrap(); // 640 us
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
    assert_eq!(bench.transmit(), []);
    assert!(!bench.requester.has_work());
    assert!(!bench.wait(639));
    assert!(bench.wait(1));
    assert_eq!(psns(&bench.transmit()), [101]);
}

#[test]
fn the_same_pause_is_counted_once() {
    let mut bench = Bench::with(|config| config.rnr_retry = 1);
    bench.post(SEND, 1);
    bench.transmit();
    let rnr = aeth_packet(100, Syndrome::Rnr { timer: 1 });
    bench.receive(rnr).unwrap();
    assert_eq!(bench.receive(rnr), Err(DropReason::StaleResponse));
    bench.wait(10);
    bench.transmit();
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
}

#[test]
fn pauses_end_except_if_they_are_without_limit() {
    for (limit, refusals) in [(0, 1), (2, 3), (6, 7), (7, 100)] {
        let mut bench = Bench::with(|config| config.rnr_retry = limit);
        bench.post(SEND, 1);
        for refusal in 1..=refusals {
            assert_eq!(bench.requester.error(), None, "{limit} {refusal}");
            assert_eq!(psns(&bench.transmit()), [100]);
            bench
                .receive(aeth_packet(100, Syndrome::Rnr { timer: 1 }))
                .unwrap();
            // The longest that a short pause grows to.
            bench.wait(500);
        }
        let failed = (limit != 7).then_some(WcStatus::RnrRetryExcErr);
        assert_eq!(bench.requester.error(), failed);
    }
}

#[test]
fn what_is_withdrawn_is_sent_again_and_counts_as_no_retry() {
    let mut bench = Bench::with(|config| config.retry_cnt = 0);
    bench.post(SEND, 600);
    bench.post(READ, 300);
    let before = bench.transmit();
    assert_eq!(psns(&before), [100, 101, 102, 103]);
    assert!(bench.requester.in_flight() && !bench.requester.can_send());
    bench.receive(ack(100)).unwrap();
    bench.requester.rewind();
    assert!(!bench.requester.in_flight() && bench.requester.can_send());
    assert_eq!(
        psns(&bench.transmit()),
        [101, 102, 103],
        "but what is acknowledged"
    );
    assert_eq!(bench.requester.take_stats().retries, 0);
    bench.receive_data(103, 256).unwrap();
    bench.receive_data(104, 44).unwrap();
    let success = [(600, WcStatus::Success), (300, WcStatus::Success)];
    assert_eq!(bench.completions(), success);
}
