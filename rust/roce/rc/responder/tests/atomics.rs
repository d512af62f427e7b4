// SPDX-License-Identifier: GPL-2.0

//! Atomic operations, ATOMIC WRITEs, FLUSHes, and SENDs with invalidate.

use super::*;

/// A responder that grants all access.
fn bench() -> Bench {
    Bench::with(|config| config.access = Access::from_bits(u32::MAX))
}

fn add(psn: u32, va: u64, summand: u64) -> Pkt {
    Pkt {
        atomic: Some((va, summand, 0)),
        ..Pkt::new(Operation::FetchAdd, Position::Only, psn, 0)
    }
}

fn swap(psn: u32, va: u64) -> Pkt {
    Pkt {
        atomic: Some((va, 2, 1)),
        ..Pkt::new(Operation::CompareSwap, Position::Only, psn, 0)
    }
}

fn atomic_write(psn: u32, va: u64) -> Pkt {
    Pkt::new(Operation::AtomicWrite, Position::Only, psn, 8).with_reth(va, 8)
}

fn flush(psn: u32, feth: (u8, u8), len: u32) -> Pkt {
    Pkt {
        feth: Some(feth),
        ..Pkt::new(Operation::Flush, Position::Only, psn, 0).with_reth(0x2000, len)
    }
}

fn original(psn: u32, value: u64) -> Pkt {
    Pkt {
        syndrome: Some(Syndrome::ACK_UNLIMITED),
        original: Some(value),
        ..Pkt::new(Operation::AtomicAcknowledge, Position::Only, psn, 0)
    }
}

#[test]
fn an_atomic_operation_is_executed_with_a_response() {
    let mut bench = bench();
    bench
        .receive(add(100, 0x1008, 5).with_ack_request())
        .unwrap();
    bench.receive(swap(101, 0x1010).with_ack_request()).unwrap();
    let swapped = AtomicOp::CompareSwap {
        compare: 1,
        swap: 2,
    };
    assert_eq!(
        bench.host_calls(),
        [
            HostCall::Atomic(0x1008, AtomicOp::FetchAdd { add: 5 }),
            HostCall::Atomic(0x1010, swapped)
        ]
    );
    assert_eq!(bench.transmit(), [original(100, 1), original(101, 2)]);
    assert_eq!(bench.transmit(), [], "no ACK besides the response");
}

#[test]
fn a_duplicate_gets_its_response_without_execution() {
    let mut bench = bench();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(swap(101, 0x1010)).unwrap();
    bench.transmit();
    bench.host_calls();
    bench.receive(swap(101, 0x1010)).unwrap();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    assert_eq!(bench.transmit(), [original(100, 1), original(101, 2)]);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

#[test]
fn a_different_request_with_the_same_psn_gets_no_response() {
    let unknown = Err(DropReason::UnknownDuplicate);
    let mut bench = bench();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(atomic_write(101, 0x1008)).unwrap();
    bench.transmit();
    bench.host_calls();
    for other in [
        add(100, 0x1008, 6),
        add(100, 0x1010, 5),
        swap(100, 0x1008),
        read(100, 0x1008, 0),
        atomic_write(100, 0x1008),
        atomic_write(101, 0x1010),
        flush(101, (1, 0), 8),
        add(99, 0x1008, 5),
    ] {
        assert_eq!(bench.receive(other), unknown, "{other:?}");
    }
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.host_calls(), []);
}

#[test]
fn the_oldest_entry_is_dropped_when_the_buffer_is_full() {
    let mut bench = bench();
    for psn in [100, 101] {
        bench.receive(add(psn, 0x1008, 5)).unwrap();
        bench.transmit();
    }
    bench.receive(read(102, 0, 1)).unwrap();
    bench.transmit();
    let unknown = Err(DropReason::UnknownDuplicate);
    assert_eq!(bench.receive(add(100, 0x1008, 5)), unknown);
    bench.receive(add(101, 0x1008, 5)).unwrap();
    assert_eq!(bench.transmit(), [original(101, 2)]);
}

#[test]
fn too_many_outstanding_requests_are_not_executed() {
    for request in [
        add(102, 0x1008, 5),
        atomic_write(102, 8),
        flush(102, (1, 0), 8),
    ] {
        let mut bench = bench();
        bench.receive(add(100, 0x1008, 5)).unwrap();
        bench.receive(read(101, 0, 1)).unwrap();
        bench.host_calls();
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), []);
        assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
        // The earlier responses are still sent.
        assert_eq!(bench.transmit().last(), Some(&aeth_packet(102, INVALID)));
    }
}

#[test]
fn without_storage_none_is_executed() {
    for request in [
        add(100, 0x1008, 5),
        atomic_write(100, 8),
        flush(100, (1, 0), 8),
    ] {
        let mut bench = bench();
        bench.responder.replace_storage(vec![]);
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), []);
        bench.assert_fatal_nak(100, INVALID, Fatal::RequestError);
    }
}

#[test]
fn an_atomic_write_is_executed_with_a_response() {
    let mut bench = bench();
    bench.receive(atomic_write(100, 0x1008)).unwrap();
    assert_eq!(bench.host_calls(), [HostCall::AtomicWritten(0x1008)]);
    let response = data(Position::Only, 100, 0);
    assert_eq!(bench.transmit(), [response]);
    bench.receive(atomic_write(100, 0x1008)).unwrap();
    assert_eq!(bench.transmit(), [response]);
    assert_eq!(bench.host_calls(), []);
}

#[test]
fn a_flush_is_executed_with_a_response() {
    let mut bench = bench();
    let (range, region) = (FlushScope::Range(8), FlushScope::Region);
    bench.receive(flush(100, (1, 0), 8)).unwrap();
    bench.receive(flush(101, (2, 1), 8)).unwrap();
    assert_eq!(
        bench.host_calls(),
        [
            HostCall::Flushed(0x2000, range, Placement::Global),
            HostCall::Flushed(0x2000, region, Placement::Persistent)
        ]
    );
    assert_eq!(
        bench.transmit(),
        [data(Position::Only, 100, 0), data(Position::Only, 101, 0)]
    );
    bench.receive(flush(102, (3, 0), 0)).unwrap();
    assert_eq!(bench.host_calls(), [], "no key is checked for length 0");
    assert_eq!(bench.transmit(), [data(Position::Only, 102, 0)]);
}

#[test]
fn a_duplicate_flush_gets_its_response_without_execution() {
    let mut bench = bench();
    bench.receive(flush(100, (1, 0), 8)).unwrap();
    bench.receive(flush(101, (2, 1), 8)).unwrap();
    let responses = [data(Position::Only, 100, 0), data(Position::Only, 101, 0)];
    assert_eq!(bench.transmit(), responses);
    bench.host_calls();
    bench.receive(flush(100, (1, 0), 8)).unwrap();
    bench.receive(flush(101, (2, 1), 8)).unwrap();
    assert_eq!(bench.transmit(), responses);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

#[test]
fn invalid_requests_are_not_executed() {
    for request in [
        add(100, 0x1001, 5),
        swap(100, 0x1004),
        Pkt {
            len: 8,
            ..add(100, 0x1008, 5)
        },
        atomic_write(100, 0x1004),
        Pkt {
            len: 4,
            ..atomic_write(100, 0x1008)
        },
        Pkt {
            len: 0,
            ..atomic_write(100, 0x1008)
        },
        atomic_write(100, 0x1008).with_reth(0x1008, 16),
        flush(100, (0, 0), 8),
        flush(100, (4, 0), 8),
        flush(100, (1, 2), 8),
        flush(100, (1, 3), 8),
        Pkt {
            len: 4,
            ..flush(100, (1, 0), 8)
        },
    ] {
        let mut bench = bench();
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), [], "{request:?}");
        bench.assert_fatal_nak(100, INVALID, Fatal::RequestError);
    }
}

#[test]
fn none_is_valid_within_a_message() {
    for request in [
        add(101, 0x1008, 5),
        atomic_write(101, 8),
        flush(101, (1, 0), 8),
    ] {
        let mut bench = bench();
        bench.post(300);
        bench.receive(send(Position::First, 100, 256)).unwrap();
        bench.host_calls();
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), []);
        bench.assert_fatal_nak(101, INVALID, Fatal::RequestError);
    }
}

#[test]
fn access_that_the_qp_does_not_grant_is_invalid() {
    for (request, right) in [
        (add(100, 0x1008, 5), Access::REMOTE_ATOMIC),
        (swap(100, 0x1008), Access::REMOTE_ATOMIC),
        (atomic_write(100, 0x1008), Access::REMOTE_WRITE),
        (flush(100, (1, 0), 8), Access::FLUSH_GLOBAL),
        (flush(100, (2, 0), 8), Access::FLUSH_PERSISTENT),
        (flush(100, (3, 1), 8), Access::FLUSH_PERSISTENT),
    ] {
        let others = Access::from_bits(!right.bits());
        let mut bench = Bench::with(|config| config.access = others);
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), [], "{request:?}");
        bench.assert_fatal_nak(100, INVALID, Fatal::RequestError);
    }
}

#[test]
fn access_that_the_key_does_not_grant_is_an_access_error() {
    for request in [
        add(100, 0x1008, 5),
        atomic_write(100, 8),
        flush(100, (1, 0), 8),
        flush(100, (1, 1), 0),
    ] {
        let mut bench = bench();
        bench.host.access_fault = Some(AccessError::Rights);
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), []);
        bench.assert_fatal_nak(100, ACCESS, Fatal::AccessError);
    }
}

#[test]
fn after_a_page_fault_a_request_is_executed_once() {
    for (request, response) in [
        (add(100, 0x1008, 5), original(100, 1)),
        (flush(100, (2, 1), 0), data(Position::Only, 100, 0)),
    ] {
        let mut bench = bench();
        bench.host.absent = true;
        assert_eq!(bench.deliver(request), Ok(Taken::Paused));
        assert_eq!(bench.host_calls(), []);
        assert_eq!(bench.transmit(), []);
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls().len(), 1);
        assert_eq!(bench.transmit(), [response]);
    }
}

#[test]
fn a_send_with_invalidate_reports_the_key() {
    let mut bench = bench();
    let rkey = Rkey::new(0x4321);
    bench.post(300);
    bench.receive(send(Position::First, 100, 256)).unwrap();
    let last = Pkt {
        ieth: Some(rkey),
        ..Pkt::new(Operation::SendInvalidate, Position::Last, 101, 44)
    };
    bench.receive(last.with_ack_request()).unwrap();
    assert_eq!(
        bench.host_calls(),
        [
            HostCall::Received(0, 256),
            HostCall::Received(256, 44),
            HostCall::Invalidated(0x4321),
            HostCall::Completed(300, WcStatus::Success, 300)
        ]
    );
    assert_eq!(bench.host.completions[0].0.invalidated, Some(rkey));
    assert_eq!(bench.transmit(), [ack(101)]);
    bench.receive(last).unwrap();
    assert_eq!(bench.host_calls(), [], "once");
}

#[test]
fn a_failed_invalidation_fails_receive_and_send() {
    let mut bench = bench();
    bench.post(8);
    bench.host.access_fault = Some(AccessError::Key);
    let only = Pkt {
        ieth: Some(Rkey::new(1)),
        ..Pkt::new(Operation::SendInvalidate, Position::Only, 100, 0)
    };
    bench.receive(only).unwrap();
    let failed = HostCall::Completed(8, WcStatus::RemInvReqErr, 0);
    assert_eq!(bench.host_calls(), [failed]);
    bench.assert_fatal_nak(100, ACCESS, Fatal::LocalError);
}

#[test]
fn a_request_after_a_gap_is_not_executed() {
    let mut bench = bench();
    let early = Err(DropReason::AheadOfSequence);
    assert_eq!(bench.receive(add(101, 0x1008, 5)), early);
    assert_eq!(bench.transmit(), [aeth_packet(100, SEQUENCE)]);
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(add(101, 0x1008, 5)).unwrap();
    assert_eq!(bench.host_calls().len(), 2);
    assert_eq!(bench.transmit(), [original(100, 1), original(101, 2)]);
}
