// SPDX-License-Identifier: GPL-2.0

//! Atomic operations and writes, flushes, and keys that the peer has taken back.

use super::*;

/// Everything that a peer can be allowed.
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

fn write_whole(psn: u32, va: u64) -> Pkt {
    Pkt::new(Operation::AtomicWrite, Position::Only, psn, 8).with_reth(va, 8)
}

fn flush(psn: u32, feth: (u8, u8), len: u32) -> Pkt {
    Pkt {
        feth: Some(feth),
        ..Pkt::new(Operation::Flush, Position::Only, psn, 0).with_reth(0x2000, len)
    }
}

fn found(psn: u32, value: u64) -> Pkt {
    Pkt {
        syndrome: Some(Syndrome::ACK_UNLIMITED),
        found: Some(value),
        ..Pkt::new(Operation::AtomicAcknowledge, Position::Only, psn, 0)
    }
}

#[test]
fn an_atomic_operation_is_carried_out_and_answered() {
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
    assert_eq!(bench.transmit(), [found(100, 1), found(101, 2)]);
    assert_eq!(bench.transmit(), [], "no acknowledgement beside the answer");
}

#[test]
fn one_that_comes_again_gets_its_answer_and_is_not_carried_out() {
    let mut bench = bench();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(swap(101, 0x1010)).unwrap();
    bench.transmit();
    bench.host_calls();
    bench.receive(swap(101, 0x1010)).unwrap();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    assert_eq!(bench.transmit(), [found(100, 1), found(101, 2)]);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

#[test]
fn one_that_comes_again_and_is_another_gets_nothing() {
    let unknown = Err(DropReason::UnknownDuplicate);
    let mut bench = bench();
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(write_whole(101, 0x1008)).unwrap();
    bench.transmit();
    bench.host_calls();
    for other in [
        add(100, 0x1008, 6),
        add(100, 0x1010, 5),
        swap(100, 0x1008),
        read(100, 0x1008, 0),
        write_whole(100, 0x1008),
        write_whole(101, 0x1010),
        flush(101, (1, 0), 8),
        add(99, 0x1008, 5),
    ] {
        assert_eq!(bench.receive(other), unknown, "{other:?}");
    }
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.host_calls(), []);
}

#[test]
fn it_is_forgotten_when_as_many_later_ones_came_as_may_be_outstanding() {
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
    assert_eq!(bench.transmit(), [found(101, 2)]);
}

#[test]
fn more_than_may_be_outstanding_are_not_carried_out() {
    for request in [
        add(102, 0x1008, 5),
        write_whole(102, 8),
        flush(102, (1, 0), 8),
    ] {
        let mut bench = bench();
        bench.receive(add(100, 0x1008, 5)).unwrap();
        bench.receive(read(101, 0, 1)).unwrap();
        bench.host_calls();
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls(), []);
        assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
        // What was answered before still is.
        assert_eq!(bench.transmit().last(), Some(&aeth_packet(102, INVALID)));
    }
}

#[test]
fn without_room_for_any_none_is_carried_out() {
    for request in [
        add(100, 0x1008, 5),
        write_whole(100, 8),
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
fn an_atomic_write_is_done_as_a_whole_and_answered() {
    let mut bench = bench();
    bench.receive(write_whole(100, 0x1008)).unwrap();
    assert_eq!(bench.host_calls(), [HostCall::WrittenWhole(0x1008)]);
    let answer = data(Position::Only, 100, 0);
    assert_eq!(bench.transmit(), [answer]);
    bench.receive(write_whole(100, 0x1008)).unwrap();
    assert_eq!(bench.transmit(), [answer]);
    assert_eq!(bench.host_calls(), []);
}

#[test]
fn a_flush_is_carried_out_and_answered() {
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
    assert_eq!(bench.host_calls(), [], "of no bytes, no key is looked at");
    assert_eq!(bench.transmit(), [data(Position::Only, 102, 0)]);
}

#[test]
fn a_flush_that_comes_again_gets_its_answer_and_is_not_carried_out() {
    let mut bench = bench();
    bench.receive(flush(100, (1, 0), 8)).unwrap();
    bench.receive(flush(101, (2, 1), 8)).unwrap();
    let answers = [data(Position::Only, 100, 0), data(Position::Only, 101, 0)];
    assert_eq!(bench.transmit(), answers);
    bench.host_calls();
    bench.receive(flush(100, (1, 0), 8)).unwrap();
    bench.receive(flush(101, (2, 1), 8)).unwrap();
    assert_eq!(bench.transmit(), answers);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

#[test]
fn what_makes_no_sense_is_refused_and_not_carried_out() {
    for request in [
        add(100, 0x1001, 5),
        swap(100, 0x1004),
        Pkt {
            len: 8,
            ..add(100, 0x1008, 5)
        },
        write_whole(100, 0x1004),
        Pkt {
            len: 4,
            ..write_whole(100, 0x1008)
        },
        Pkt {
            len: 0,
            ..write_whole(100, 0x1008)
        },
        write_whole(100, 0x1008).with_reth(0x1008, 16),
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
fn none_may_come_within_a_message() {
    for request in [
        add(101, 0x1008, 5),
        write_whole(101, 8),
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
fn what_the_queue_pair_does_not_grant_is_invalid() {
    for (request, right) in [
        (add(100, 0x1008, 5), Access::REMOTE_ATOMIC),
        (swap(100, 0x1008), Access::REMOTE_ATOMIC),
        (write_whole(100, 0x1008), Access::REMOTE_WRITE),
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
fn what_the_key_does_not_grant_is_an_access_error() {
    for request in [
        add(100, 0x1008, 5),
        write_whole(100, 8),
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
fn one_that_has_to_wait_is_carried_out_and_answered_once() {
    for (request, answer) in [
        (add(100, 0x1008, 5), found(100, 1)),
        (flush(100, (2, 1), 0), data(Position::Only, 100, 0)),
    ] {
        let mut bench = bench();
        bench.host.absent = true;
        assert_eq!(bench.deliver(request), Ok(Taken::Paused));
        assert_eq!(bench.host_calls(), []);
        assert_eq!(bench.transmit(), []);
        bench.receive(request).unwrap();
        assert_eq!(bench.host_calls().len(), 1);
        assert_eq!(bench.transmit(), [answer]);
    }
}

#[test]
fn a_send_takes_a_key_back_and_its_completion_says_so() {
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
fn a_key_that_cannot_be_taken_back_fails_receive_and_send() {
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
fn a_gap_before_it_keeps_it_from_being_carried_out() {
    let mut bench = bench();
    let early = Err(DropReason::AheadOfSequence);
    assert_eq!(bench.receive(add(101, 0x1008, 5)), early);
    assert_eq!(bench.transmit(), [aeth_packet(100, SEQUENCE)]);
    bench.receive(add(100, 0x1008, 5)).unwrap();
    bench.receive(add(101, 0x1008, 5)).unwrap();
    assert_eq!(bench.host_calls().len(), 2);
    assert_eq!(bench.transmit(), [found(100, 1), found(101, 2)]);
}
