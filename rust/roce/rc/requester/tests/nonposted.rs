// SPDX-License-Identifier: GPL-2.0

//! Atomic operations, ATOMIC WRITEs, FLUSHes, and requests that invalidate keys.

use super::*;
use crate::{
    segmentation::tx_desc::TxDesc,
    wr::{
        AtomicOp,
        FlushScope,
        Placement, //
    }, //
};

const ADD: SendOp = SendOp::Atomic {
    remote: at(0x1008),
    op: AtomicOp::FetchAdd { add: 5 },
};

const SWAP: SendOp = SendOp::Atomic {
    remote: at(0x1010),
    op: AtomicOp::CompareSwap {
        compare: 1,
        swap: 2,
    },
};

const ATOMIC_WRITE: SendOp = SendOp::AtomicWrite {
    remote: at(0x1018),
    value: 0x0102_0304_0506_0708,
};

const FLUSH: SendOp = SendOp::Flush {
    remote: at(0x1000),
    scope: FlushScope::Range(99),
    placement: Placement::Both,
};

fn only(operation: Operation, psn: u32) -> Pkt {
    Pkt::new(operation, Position::Only, psn, 0).with_ack_request()
}

fn original(psn: u32, value: u64) -> Pkt {
    Pkt {
        original: Some(value),
        ..Pkt::new(Operation::AtomicAcknowledge, Position::Only, psn, 0)
    }
}

fn done(psn: u32) -> Pkt {
    Pkt::new(Operation::ReadResponse, Position::Only, psn, 0)
}

#[test]
fn an_atomic_operation_places_the_original_value() {
    let mut bench = Bench::new();
    bench.post(ADD, 8);
    bench.post(SWAP, 8);
    let (add, swap) = (
        only(Operation::FetchAdd, 100),
        only(Operation::CompareSwap, 101),
    );
    assert_eq!(
        bench.transmit(),
        [
            Pkt {
                atomic: Some((0x1008, 5, 0)),
                ..add
            },
            Pkt {
                atomic: Some((0x1010, 2, 1)),
                ..swap
            },
        ]
    );
    bench.receive(original(100, 77)).unwrap();
    bench.receive(original(101, 78)).unwrap();
    assert_eq!(bench.placed, [(0, u32::MAX, 77), (1, u32::MAX, 78)]);
    let next = bench.requester.poll_completion().unwrap();
    let completion = next.completion().unwrap();
    assert_eq!(
        (completion.opcode, completion.byte_len),
        (WcOpcode::FetchAdd, 8)
    );
    let next = bench.requester.poll_completion().unwrap();
    assert_eq!(next.completion().unwrap().opcode, WcOpcode::CompSwap);
}

#[test]
fn an_atomic_write_carries_an_immediate_value() {
    let mut bench = Bench::new();
    bench.post(ATOMIC_WRITE, 8);
    let segments: Vec<TxDesc> = bench.requester.burst(bench.now, ALL).collect();
    let [segment] = &segments[..] else {
        panic!("one packet: {segments:?}");
    };
    assert_eq!(segment.source, TxPayload::Value(0x0102_0304_0506_0708));
    assert_eq!(
        Pkt::of(segment),
        Pkt {
            len: 8,
            ..only(Operation::AtomicWrite, 100).with_reth(0x1018, 8)
        }
    );
    bench.receive(done(100)).unwrap();
    assert_eq!(bench.placed, [], "there is no payload to place");
    assert_eq!(bench.completions(), [(8, WcStatus::Success)]);
}

#[test]
fn a_flush_selects_range_or_region() {
    let mut bench = Bench::new();
    bench.post(FLUSH, 0);
    bench.post(
        SendOp::Flush {
            remote: at(0x1000),
            scope: FlushScope::Region,
            placement: Placement::Global,
        },
        0,
    );
    let range = only(Operation::Flush, 100).with_reth(0x1000, 99);
    let region = only(Operation::Flush, 101).with_reth(0x1000, 0);
    assert_eq!(
        bench.transmit(),
        [
            Pkt {
                feth: Some((3, 0)),
                ..range
            },
            Pkt {
                feth: Some((1, 1)),
                ..region
            },
        ]
    );
    bench.receive(done(100)).unwrap();
    assert_eq!(bench.completions(), [(0, WcStatus::Success)]);
}

#[test]
fn all_of_them_count_as_reads() {
    for op in [ADD, ATOMIC_WRITE, FLUSH, READ] {
        let mut bench = Bench::new();
        bench.post(op, 8);
        bench.post(READ, 1);
        bench.post(op, 8);
        assert_eq!(psns(&bench.transmit()), [100, 101], "two of three");
        assert_eq!(bench.requester.flight().reads, 2);
    }
}

#[test]
fn an_ack_does_not_complete_them() {
    for op in [ADD, ATOMIC_WRITE, FLUSH] {
        let mut bench = Bench::new();
        bench.post(op, 8);
        bench.transmit();
        assert_eq!(bench.receive(ack(100)), Err(DropReason::ResponseGap));
        assert_eq!(bench.completions(), []);
        assert_eq!(psns(&bench.transmit()), [100], "retransmitted at once");
    }
}

#[test]
fn the_wrong_kind_of_response_completes_nothing() {
    let mut bench = Bench::new();
    bench.post(ADD, 8);
    bench.post(READ, 8);
    bench.post(FLUSH, 0);
    bench.transmit();
    assert_eq!(bench.receive(done(100)), Err(DropReason::BadSequence));
    bench.receive(original(100, 1)).unwrap();
    assert_eq!(
        bench.receive(original(101, 1)),
        Err(DropReason::BadSequence)
    );
    bench.receive_data(101, 8).unwrap();
    bench.transmit();
    bench.receive_data(102, 8).unwrap();
    let status = WcStatus::BadRespErr;
    let done = WcStatus::Success;
    assert_eq!(bench.completions(), [(8, done), (8, done), (0, status)]);
}

#[test]
fn a_nak_fails_them_with_its_status() {
    for op in [ADD, ATOMIC_WRITE, FLUSH] {
        let mut bench = Bench::new();
        bench.post(SEND, 1);
        bench.post(op, 8);
        bench.transmit();
        let nak = Syndrome::Nak(NakCode::RemoteAccess);
        bench.receive(aeth_packet(101, nak)).unwrap();
        let status = WcStatus::RemAccessErr;
        assert_eq!(bench.completions(), [(1, WcStatus::Success), (8, status)]);
    }
}

#[test]
fn a_value_that_cannot_be_placed_fails_the_request() {
    let mut bench = Bench::new();
    bench.post(ADD, 8);
    bench.transmit();
    bench.place_error = Some(WcStatus::LocProtErr.into());
    bench.receive(original(100, 1)).unwrap();
    assert_eq!(bench.completions(), [(8, WcStatus::LocProtErr)]);
    assert_eq!(bench.requester.error(), Some(WcStatus::LocProtErr));
}

#[test]
fn a_value_is_placed_again_after_a_page_fault() {
    let mut bench = Bench::new();
    bench.post(ADD, 8);
    bench.transmit();
    bench.place_error = Some(Obstacle::Absent);
    assert_eq!(bench.deliver(original(100, 7)), Ok(Taken::Paused));
    assert_eq!(bench.completions(), []);
    bench.place_error = None;
    bench.receive(original(100, 7)).unwrap();
    assert_eq!(bench.placed, [(0, u32::MAX, 7)]);
    assert_eq!(bench.completions(), [(8, WcStatus::Success)]);
}

#[test]
fn a_send_with_invalidate_has_an_ieth_in_its_last_packet() {
    let mut bench = Bench::new();
    let rkey = Rkey::new(0x1234);
    bench.post(SendOp::SendInvalidate { rkey }, 300);
    bench.post(SendOp::SendInvalidate { rkey }, 0);
    let last = Pkt {
        ieth: Some(rkey),
        ..Pkt::new(Operation::SendInvalidate, Position::Last, 101, 44).with_ack_request()
    };
    assert_eq!(
        bench.transmit(),
        [
            send_pkt(Position::First, 100, 256),
            last,
            Pkt {
                position: Position::Only,
                psn: 102,
                len: 0,
                ..last
            },
        ]
    );
    bench.receive(ack(102)).unwrap();
    let done = WcStatus::Success;
    assert_eq!(bench.completions(), [(300, done), (0, done)]);
}

#[test]
fn a_read_with_invalidate_invalidates_after_its_last_data() {
    let mut bench = Bench::new();
    let rkey = Rkey::new(0x1234);
    let remote = at(0x1000);
    bench.post(SendOp::ReadInvalidate { remote, rkey }, 300);
    bench.transmit();
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.placed, [(0, 0, 256)]);
    bench.receive_data(101, 44).unwrap();
    let invalidated = (u32::MAX, 0x1234, 0);
    assert_eq!(bench.placed, [(0, 0, 256), (0, 256, 44), invalidated]);
    assert_eq!(bench.completions(), [(300, WcStatus::Success)]);
}

#[test]
fn they_are_retransmitted_unchanged_after_a_timeout() {
    let mut bench = Bench::new();
    bench.post(SWAP, 8);
    bench.post(ATOMIC_WRITE, 8);
    let first = bench.transmit();
    assert!(bench.wait(T));
    assert_eq!(bench.transmit(), first);
}
