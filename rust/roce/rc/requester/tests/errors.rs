// SPDX-License-Identifier: GPL-2.0

//! Failure, flush and reset.

use super::*;

#[test]
fn a_nak_fails_its_request_and_flushes_the_rest() {
    for (code, status) in [
        (NakCode::InvalidRequest, WcStatus::RemInvReqErr),
        (NakCode::RemoteAccess, WcStatus::RemAccessErr),
        (NakCode::RemoteOperational, WcStatus::RemOpErr),
    ] {
        let mut bench = Bench::new();
        for length in [1, 600, 2] {
            bench.post(SEND, length);
        }
        bench.transmit();
        bench
            .receive(aeth_packet(102, Syndrome::Nak(code)))
            .unwrap();
        let done = [
            (1, WcStatus::Success),
            (600, status),
            (2, WcStatus::WrFlushErr),
        ];
        assert_eq!(bench.completions(), done);
        assert_eq!(bench.requester.error(), Some(status));
        bench.post(SEND, 3);
        assert_eq!(bench.completions(), [(3, WcStatus::WrFlushErr)]);
        assert_eq!(bench.transmit(), []);
        assert_eq!(bench.receive(ack(103)), Err(DropReason::WrongQpState));
    }
}

#[test]
fn a_rejected_request_completes_in_order() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    let status = WcStatus::LocQpOpErr;
    let slot = bench.requester.reject(9, WcOpcode::BindMw, status);
    assert_eq!(slot, Some(SlotIndex(1)));
    bench.post(SEND, 2);
    assert_eq!(psns(&bench.transmit()), [100], "no later request is sent");
    assert_eq!(bench.completions(), []);
    assert_eq!(bench.requester.error(), None);
    bench.receive(ack(100)).unwrap();
    let done = [
        (1, WcStatus::Success),
        (9, status),
        (2, WcStatus::WrFlushErr),
    ];
    assert_eq!(bench.completions(), done);
    assert_eq!(bench.requester.error(), Some(status));
}

#[test]
fn an_unsupported_request_fails_in_order() {
    let mut bench = Bench::with(|config| config.max_rd_atomic = 0);
    bench.post(SEND, 1);
    bench.post(READ, 8);
    bench.post(SEND, 2);
    assert_eq!(psns(&bench.transmit()), [100], "no later request is sent");
    assert_eq!(bench.completions(), []);
    assert!(!bench.requester.has_work(), "it waits for the SEND");
    bench.receive(ack(100)).unwrap();
    let done = [
        (1, WcStatus::Success),
        (8, WcStatus::LocQpOpErr),
        (2, WcStatus::WrFlushErr),
    ];
    assert_eq!(bench.completions(), done);
    assert_eq!(bench.requester.error(), Some(WcStatus::LocQpOpErr));
}

#[test]
fn a_begun_read_continues_after_max_rd_atomic_becomes_zero() {
    let mut bench = Bench::new();
    bench.post(READ, 8);
    bench.transmit();
    bench.requester.drain();
    bench.requester.set_max_rd_atomic(0);
    bench.post(READ, 9);
    assert!(bench.wait(T));
    assert_eq!(psns(&bench.transmit()), [100], "retransmitted");
    bench.receive_data(100, 8).unwrap();
    assert_eq!(bench.completions(), [(8, WcStatus::Success)]);
    bench.requester.resume();
    assert!(bench.requester.has_work(), "to fail the other READ");
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.completions(), [(9, WcStatus::LocQpOpErr)]);
}

#[test]
fn a_too_long_message_is_rejected() {
    let mut bench = Bench::new();
    bench.post(SEND, MAX_MESSAGE_BYTES + 1);
    assert_eq!(bench.transmit(), []);
    let id = u64::from(MAX_MESSAGE_BYTES + 1);
    assert_eq!(bench.completions(), [(id, WcStatus::LocLenErr)]);
}

#[test]
fn an_aborted_request_lets_earlier_ones_complete() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    let slot = bench.post(SEND, 600);
    bench.post(SEND, 2);
    let limit = BurstLimit {
        bytes: 1000,
        packets: 2,
    };
    assert_eq!(psns(&bench.transmit_up_to(limit)), [100, 101]);
    bench.requester.abort(slot, WcStatus::LocProtErr);
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.completions(), []);
    bench.wait(T);
    assert_eq!(
        psns(&bench.transmit()),
        [100],
        "the earlier request is retransmitted"
    );
    bench.receive(ack(101)).unwrap();
    let done = [
        (1, WcStatus::Success),
        (600, WcStatus::LocProtErr),
        (2, WcStatus::WrFlushErr),
    ];
    assert_eq!(bench.completions(), done);
}

#[test]
fn a_complete_request_cannot_be_aborted() {
    let mut bench = Bench::new();
    let slot = bench.post(SEND, 1);
    bench.transmit();
    bench.receive(ack(100)).unwrap();
    bench.requester.abort(slot, WcStatus::LocProtErr);
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
    bench.requester.abort(slot, WcStatus::LocProtErr);
    bench.post(SEND, 2);
    assert_eq!(psns(&bench.transmit()), [101]);
}

#[test]
fn a_flush_keeps_earlier_completions() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(SEND, 2);
    bench.transmit();
    bench.receive(ack(100)).unwrap();
    bench.requester.fail();
    assert!(bench.requester.has_work());
    let done = [(1, WcStatus::Success), (2, WcStatus::WrFlushErr)];
    assert_eq!(bench.completions(), done);
    assert!(!bench.requester.has_work());
    assert_eq!(
        bench.requester.error(),
        None,
        "the error state was requested"
    );
}

#[test]
fn a_reset_drops_requests_and_keeps_the_ring_position() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.transmit();
    bench.requester.reset();
    assert_eq!(bench.completions(), []);
    assert_eq!(bench.requester.next_wake().at(), None);
    assert_eq!(bench.receive(ack(100)), Err(DropReason::WrongQpState));
    bench.requester.init();
    bench.requester.start();
    assert_eq!(bench.transmit(), [], "no request is left");
    assert_eq!(bench.requester.free_slots(), 8);
    assert_eq!(bench.post(SEND, 1), SlotIndex(1));
    bench.requester.align(SlotIndex(6));
    assert_eq!(bench.post(SEND, 1), SlotIndex(6));
}
