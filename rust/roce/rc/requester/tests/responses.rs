// SPDX-License-Identifier: GPL-2.0

//! ACKs and READ data.

use super::*;

// ACKs.

#[test]
fn one_ack_completes_all_earlier_requests() {
    let mut bench = Bench::new();
    for length in [1, 300, 2] {
        bench.post(SEND, length);
    }
    bench.transmit();
    bench.receive(ack(101)).unwrap();
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
    bench.receive(ack(103)).unwrap();
    let done = [(300, WcStatus::Success), (2, WcStatus::Success)];
    assert_eq!(bench.completions(), done);
    assert_eq!(bench.requester.next_wake().at(), None);
}

#[test]
fn success_is_reported_only_for_signaled_requests() {
    let mut bench = Bench::new();
    let mut wr = request(SEND, 1);
    wr.signaled = false;
    bench.requester.post(wr).unwrap();
    bench.transmit();
    bench.receive(ack(100)).unwrap();
    let retired = bench.requester.poll_completion().unwrap();
    assert_eq!(retired.slot, SlotIndex(0));
    assert_eq!(retired.completion(), None);
}

#[test]
fn a_psn_that_was_never_sent_cannot_be_acknowledged() {
    let mut bench = Bench::new();
    bench.post(SEND, 256);
    bench.post(SEND, 256);
    let limit = BurstLimit {
        bytes: 1,
        packets: 1,
    };
    bench.transmit_up_to(limit);
    assert_eq!(bench.receive(ack(101)), Err(DropReason::StaleResponse));
    assert_eq!(bench.receive(ack(99)), Err(DropReason::StaleResponse));
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.receive(ack(100)), Err(DropReason::StaleResponse));
    assert_eq!(bench.requester.take_stats().stale_responses, 3);
}

#[test]
fn reserved_syndromes_are_dropped() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.transmit();
    let bad = Err(DropReason::BadSyndrome);
    assert_eq!(bench.receive(aeth_packet(100, Syndrome::Reserved)), bad);
    let rd = Syndrome::Nak(NakCode::InvalidRdRequest);
    assert_eq!(bench.receive(aeth_packet(100, rd)), bad);
    assert_eq!(bench.completions(), []);
}

// Read responses.

#[test]
fn the_psn_determines_the_offset_of_data() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(READ, 600);
    bench.transmit();
    for (psn, len) in [(101, 256), (102, 256), (103, 88)] {
        bench.receive_data(psn, len).unwrap();
    }
    assert_eq!(bench.placed, [(1, 0, 256), (1, 256, 256), (1, 512, 88)]);
    let done = [(1, WcStatus::Success), (600, WcStatus::Success)];
    assert_eq!(
        bench.completions(),
        done,
        "data acknowledges earlier requests"
    );
}

#[test]
fn an_empty_read_places_nothing() {
    let mut bench = Bench::new();
    bench.post(READ, 0);
    bench.transmit();
    bench.receive_data(100, 0).unwrap();
    assert_eq!(bench.placed, []);
    assert_eq!(bench.completions(), [(0, WcStatus::Success)]);
}

#[test]
fn data_of_the_wrong_length_is_fatal() {
    for (psn, len) in [(100, 255), (100, 257), (100, 0), (101, 256), (101, 43)] {
        let mut bench = Bench::new();
        bench.post(READ, 300);
        bench.post(SEND, 1);
        bench.transmit();
        if psn == 101 {
            bench.receive_data(100, 256).unwrap();
        }
        bench.receive_data(psn, len).unwrap();
        let done = [(300, WcStatus::BadRespErr), (1, WcStatus::WrFlushErr)];
        assert_eq!(bench.completions(), done, "{psn} {len}");
        assert_eq!(bench.requester.error(), Some(WcStatus::BadRespErr));
    }
}

#[test]
fn data_that_cannot_be_placed_is_fatal() {
    let mut bench = Bench::new();
    bench.post(READ, 300);
    bench.transmit();
    bench.place_error = Some(WcStatus::LocProtErr.into());
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.completions(), [(300, WcStatus::LocProtErr)]);
}

#[test]
fn data_is_placed_again_after_a_page_fault() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(READ, 300);
    bench.transmit();
    let data = Pkt::new(Operation::ReadResponse, Position::First, 101, 256);
    bench.place_error = Some(Obstacle::Absent);
    for _ in 0..3 {
        assert_eq!(bench.deliver(data), Ok(Taken::Paused));
    }
    assert_eq!(
        bench.completions(),
        [(1, WcStatus::Success)],
        "the earlier request completes"
    );
    bench.place_error = None;
    bench.receive(data).unwrap();
    bench.receive_data(102, 44).unwrap();
    assert_eq!(bench.placed, [(1, 0, 256), (1, 256, 44)]);
    assert_eq!(bench.completions(), [(300, WcStatus::Success)]);
}

#[test]
fn data_for_a_send_is_dropped() {
    let mut bench = Bench::new();
    bench.post(SEND, 256);
    bench.transmit();
    assert_eq!(bench.receive_data(100, 256), Err(DropReason::BadSequence));
    assert_eq!(bench.placed, []);
}

#[test]
fn missing_data_is_requested_again_at_once_and_only_once() {
    let mut bench = Bench::new();
    bench.post(READ, 4 * 256);
    bench.post(SEND, 1);
    bench.transmit();
    bench.receive_data(100, 256).unwrap();
    let gap = Err(DropReason::ResponseGap);
    assert_eq!(bench.receive_data(102, 256), gap);
    let again = Pkt::new(Operation::ReadRequest, Position::Only, 101, 0);
    assert_eq!(
        bench.transmit(),
        [
            again.with_reth(0x1100, 768).with_ack_request(),
            send_pkt(Position::Only, 104, 1).with_ack_request(),
        ],
        "only the missing data"
    );
    assert_eq!(bench.receive_data(103, 256), gap);
    assert_eq!(bench.receive(ack(104)), gap);
    assert_eq!(bench.transmit(), []);
    bench.receive_data(101, 256).unwrap();
    assert_eq!(bench.receive_data(103, 256), gap, "again after progress");
    assert_eq!(psns(&bench.transmit()), [102, 104]);
    assert_eq!(bench.requester.take_stats().implied_naks, 2);
}

#[test]
fn an_ack_past_a_read_shows_that_its_data_is_lost() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(READ, 256);
    bench.post(SEND, 2);
    bench.transmit();
    assert_eq!(bench.receive(ack(102)), Err(DropReason::ResponseGap));
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
    assert_eq!(psns(&bench.transmit()), [101, 102]);
}

#[test]
fn data_with_a_nak_syndrome_is_dropped() {
    let mut bench = Bench::new();
    bench.post(READ, 10);
    bench.transmit();
    for syndrome in [
        Syndrome::Reserved,
        Syndrome::Rnr { timer: 1 },
        Syndrome::Nak(NakCode::RemoteAccess),
    ] {
        let packet = Pkt {
            syndrome: Some(syndrome),
            ..Pkt::new(Operation::ReadResponse, Position::Only, 100, 10)
        };
        assert_eq!(bench.receive(packet), Err(DropReason::BadSyndrome));
    }
    assert_eq!(bench.placed, []);
    let good = Pkt::new(Operation::ReadResponse, Position::Only, 100, 10);
    assert_eq!(bench.receive(good), Ok(()));
    assert_eq!(bench.completions(), [(10, WcStatus::Success)]);
}

#[test]
fn responses_of_the_wrong_type_are_dropped() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.transmit();
    let atomic = Pkt::new(Operation::AtomicAcknowledge, Position::Only, 100, 0);
    assert_eq!(bench.receive(atomic), Err(DropReason::BadSequence));
    let request = Pkt::new(Operation::FetchAdd, Position::Only, 100, 0);
    assert_eq!(bench.receive(request), Err(DropReason::WrongService));
}
