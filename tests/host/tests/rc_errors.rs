// SPDX-License-Identifier: GPL-2.0

//! What goes wrong for good, as both consumers see it: the status of each request, what is
//! flushed, and what the responder raises. The memory of neither is touched.

use roce::{
    access::Access,
    id::Rkey,
    rc::responder::Fatal,
    segmentation::mtu::Mtu,
    status::WcStatus,
    wr::{
        SendOp,
        WcOpcode, //
    }, //
};
use roce_tests::pair::{
    pattern,
    remote,
    request,
    Pair,
    Setup,
    A,
    B, //
};

/// A good request, a bad one, and another, all of A; then what both ends tell.
fn statuses(pair: &mut Pair, bad: impl FnOnce(&mut Pair)) -> Vec<WcStatus> {
    pair.receive(B, 8);
    pair.send(A, &[1; 8], None);
    bad(pair);
    pair.send(A, &[3; 8], None);
    pair.drive(1000);
    let received = &pair.ends[B].received;
    assert_eq!(received[0].0.status, WcStatus::Success);
    pair.ends[A].sent.iter().map(|c| c.status).collect()
}

fn fails_with(status: WcStatus) -> Vec<WcStatus> {
    vec![WcStatus::Success, status, WcStatus::WrFlushErr]
}

fn pair() -> Pair {
    Pair::new(Setup {
        mtu: Mtu::Mtu256,
        ..Setup::default()
    })
}

#[test]
fn memory_that_is_not_granted_is_neither_read_nor_written() {
    let all = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    for (access, offset, len, key_off) in [
        (all, 0, 1000, 1),                 // no such key
        (all, -1, 1000, 0),                // starts before
        (all, 1, 1000, 0),                 // ends after
        (all, 0, 1001, 0),                 // is longer
        (Access::LOCAL_WRITE, 0, 1000, 0), // is not for peers
    ] {
        for write in [true, false] {
            let mut pair = pair();
            let va = pair.ends[B].memory.alloc(3000) + 1000;
            let rkey = pair.ends[B].memory.register(va, 1000, access);
            let place = remote(
                va.wrapping_add_signed(offset),
                Rkey::new(rkey.get() + key_off),
            );
            let statuses = statuses(&mut pair, |pair| match write {
                true => {
                    pair.write(A, place, &pattern(1, len), None);
                }
                false => {
                    pair.read(A, place, len);
                }
            });
            assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
            assert_eq!(pair.ends[B].fatal, Some(Fatal::AccessError));
            assert_eq!(pair.ends[B].memory.get(va - 1000, 3000), [0xaa; 3000]);
        }
    }
}

#[test]
fn ranges_at_both_ends_of_the_address_space_are_refused() {
    for va in [0, u64::MAX - 10, u64::MAX] {
        let mut pair = pair();
        let shared = pair.ends[B].memory.alloc(100);
        let rkey = pair.ends[B]
            .memory
            .register(shared, 100, Access::REMOTE_WRITE);
        let statuses = statuses(&mut pair, |pair| {
            pair.write(A, remote(va, rkey), &[1; 100], None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
    }
}

#[test]
fn memory_revoked_in_the_middle_ends_a_read() {
    let mut pair = pair();
    let va = pair.ends[B].memory.alloc(100_000);
    let rkey = pair.ends[B]
        .memory
        .register(va, 100_000, Access::REMOTE_READ);
    pair.read(A, remote(va, rkey), 100_000);
    pair.step();
    pair.ends[B].memory.revoke(rkey);
    pair.read(A, remote(va, rkey), 1);
    pair.drive(1000);
    let statuses: Vec<_> = pair.ends[A].sent.iter().map(|c| c.status).collect();
    assert_eq!(statuses.len(), 2);
    assert!(statuses.contains(&WcStatus::RemAccessErr), "{statuses:?}");
    assert_eq!(pair.ends[B].fatal, Some(Fatal::AccessError));
}

#[test]
fn a_message_longer_than_its_receive_fails_at_both_ends() {
    for (room, len) in [(0, 1), (99, 100), (700, 701), (256, 512)] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            let (_, va) = pair.receive(B, room);
            let guard = pair.ends[B].memory.alloc(300);
            assert_eq!(guard, va + room as u64);
            pair.send(A, &pattern(1, len), None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemInvReqErr));
        let (received, _) = pair.ends[B].received[1];
        assert_eq!(received.status, WcStatus::LocLenErr);
        assert_eq!(pair.ends[B].fatal, Some(Fatal::LocalError));
    }
}

#[test]
fn a_receive_that_cannot_be_used_fails_at_both_ends() {
    for status in [WcStatus::LocQpOpErr, WcStatus::LocProtErr] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            pair.ends[B].post_receive(77, 0, 100, Some(status));
            pair.send(A, &[1; 100], None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemOpErr));
        let (received, _) = pair.ends[B].received[1];
        assert_eq!((received.wr_id, received.status), (77, status));
    }
}

#[test]
fn what_cannot_be_read_locally_fails_locally() {
    for len in [1, 1000] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            pair.post(A, request(SendOp::Send { imm: None }, len), None);
        });
        assert_eq!(statuses, fails_with(WcStatus::LocProtErr));
        assert_eq!(pair.ends[A].requester.error(), Some(WcStatus::LocProtErr));
        assert_eq!(pair.ends[B].fatal, None);
        assert_eq!(pair.ends[B].received.len(), 1);
    }
}

#[test]
fn where_data_cannot_be_placed_a_read_fails() {
    let mut pair = pair();
    let va = pair.ends[B].memory.alloc(1000);
    let rkey = pair.ends[B].memory.register(va, 1000, Access::REMOTE_READ);
    let op = SendOp::Read {
        remote: remote(va, rkey),
    };
    let statuses = statuses(&mut pair, |pair| {
        pair.post(A, request(op, 1000), None);
    });
    assert_eq!(statuses, fails_with(WcStatus::LocProtErr));
}

#[test]
fn a_request_that_makes_no_sense_fails_in_its_turn() {
    let mut pair = pair();
    let statuses = statuses(&mut pair, |pair| {
        let status = WcStatus::LocQpOpErr;
        pair.ends[A].requester.reject(9, WcOpcode::BindMw, status);
    });
    assert_eq!(statuses, fails_with(WcStatus::LocQpOpErr));
    assert_eq!(pair.ends[A].sent[1].wr_id, 9);
}

#[test]
fn what_the_peers_qp_does_not_allow_is_an_invalid_request() {
    let mut pair = pair();
    pair.ends[B].responder.set_access(Access::REMOTE_READ);
    let va = pair.ends[B].memory.alloc(100);
    let rkey = pair.ends[B].memory.register(va, 100, Access::REMOTE_WRITE);
    let statuses = statuses(&mut pair, |pair| {
        pair.write(A, remote(va, rkey), &[1; 100], None);
    });
    assert_eq!(statuses, fails_with(WcStatus::RemInvReqErr));
    assert_eq!(pair.ends[B].fatal, Some(Fatal::RequestError));
    assert_eq!(pair.ends[B].memory.get(va, 100), [0xaa; 100]);
}

#[test]
fn one_direction_goes_on_when_the_other_has_failed() {
    let mut pair = pair();
    let (_, va) = pair.receive(A, 8);
    let statuses = statuses(&mut pair, |pair| {
        pair.read(A, remote(1, Rkey::new(1)), 1);
    });
    assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
    // The halves share nothing; that the QP is in error is for the driver to carry over.
    pair.send(B, b"the end.", None);
    pair.drive(1000);
    assert_eq!(pair.ends[A].memory.get(va, 8), b"the end.");
}
