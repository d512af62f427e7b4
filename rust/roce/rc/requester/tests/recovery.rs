// SPDX-License-Identifier: GPL-2.0

//! Loss, timeouts and RNR NAKs.

use super::*;

// Loss.

#[test]
fn a_sequence_nak_retransmits_from_its_psn() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(SEND, 600);
    bench.transmit();
    bench.receive(aeth_packet(102, SEQUENCE)).unwrap();
    assert_eq!(
        bench.completions(),
        [(1, WcStatus::Success)],
        "earlier requests complete"
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
fn a_second_sequence_nak_before_retransmission_is_stale() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.transmit();
    for expected in [Ok(()), Err(DropReason::StaleResponse)] {
        assert_eq!(bench.receive(aeth_packet(100, SEQUENCE)), expected);
    }
    assert_eq!(bench.requester.take_stats().sequence_naks, 1);
}

#[test]
fn sequence_naks_count_as_retries() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    for _ in 0..3 {
        assert_eq!(psns(&bench.transmit()), [100]);
        bench.receive(aeth_packet(100, SEQUENCE)).unwrap();
    }
    assert_eq!(bench.completions(), [(1, WcStatus::RetryExcErr)]);
}

#[test]
fn timeouts_retransmit_with_backoff() {
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
    assert_eq!(bench.requester.next_wake().at(), None);
    assert_eq!(bench.requester.take_stats().timeouts, 5);
}

#[test]
fn a_timeout_set_late_applies_to_packets_in_flight() {
    let mut bench = Bench::with(|config| config.ack_timeout = 0);
    bench.requester.set_ack_timeout(bench.now, 5);
    assert_eq!(
        bench.requester.next_wake().at(),
        None,
        "no packet is in flight"
    );
    bench.requester.set_ack_timeout(bench.now, 0);
    bench.post(SEND, 1);
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(!bench.wait(100 * T), "no timeout");
    bench.requester.set_ack_timeout(bench.now, 5);
    assert!(!bench.wait(T - 1), "too early");
    assert!(bench.wait(1));
    assert_eq!(psns(&bench.transmit()), [100]);
}

#[test]
fn a_retry_count_of_seven_is_a_limit() {
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
fn progress_resets_the_retry_count() {
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
fn a_timeout_of_zero_never_expires() {
    let mut bench = Bench::with(|config| config.ack_timeout = 0);
    bench.post(SEND, 1);
    bench.transmit();
    assert_eq!(bench.requester.next_wake().at(), None);
    assert!(!bench.wait(1 << 40));
}

#[test]
fn progress_restarts_the_timeout() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.transmit();
    let timeout = crate::time::ack_timeout(5).unwrap();
    let deadline = |bench: &Bench| Some(bench.now.saturating_add(timeout));
    assert_eq!(bench.requester.next_wake().at(), deadline(&bench));
    bench.wait(T - 10);
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.requester.next_wake().at(), deadline(&bench));
    assert!(!bench.wait(T - 10));
    assert!(bench.wait(20));
}

#[test]
fn a_late_ack_shortens_the_retransmission() {
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
fn late_data_shortens_the_retransmission() {
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

// RNR.

#[test]
fn an_rnr_delay_is_observed() {
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
fn a_repeated_rnr_nak_is_counted_once() {
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
fn rnr_retries_are_limited_except_with_a_count_of_seven() {
    for (limit, naks) in [(0, 1), (2, 3), (6, 7), (7, 100)] {
        let mut bench = Bench::with(|config| config.rnr_retry = limit);
        bench.post(SEND, 1);
        for nak in 1..=naks {
            assert_eq!(bench.requester.error(), None, "{limit} {nak}");
            assert_eq!(psns(&bench.transmit()), [100]);
            bench
                .receive(aeth_packet(100, Syndrome::Rnr { timer: 1 }))
                .unwrap();
            // The upper limit of a short delay.
            bench.wait(500);
        }
        let failed = (limit != 7).then_some(WcStatus::RnrRetryExcErr);
        assert_eq!(bench.requester.error(), failed);
    }
}

#[test]
fn a_rewind_retransmits_and_counts_no_retry() {
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
        "except the acknowledged packet"
    );
    assert_eq!(bench.requester.take_stats().retries, 0);
    bench.receive_data(103, 256).unwrap();
    bench.receive_data(104, 44).unwrap();
    let success = [(600, WcStatus::Success), (300, WcStatus::Success)];
    assert_eq!(bench.completions(), success);
}
