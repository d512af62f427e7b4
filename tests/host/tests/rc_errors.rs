// SPDX-License-Identifier: GPL-2.0

//! Fatal errors as both consumers see them: the status of each request, flushed requests, and the
//! event of the responder. No memory may change.

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

/// Posts a valid request, the request `bad` and another valid one at A. Returns the status of each.
fn statuses(pair: &mut Pair, bad: impl FnOnce(&mut Pair)) -> Vec<WcStatus> {
    pair.receive(B, 8);
    pair.send(A, &[1; 8], None);
    bad(pair);
    pair.send(A, &[3; 8], None);
    pair.drive(1000);
    let received = &pair.hosts[B].received;
    assert_eq!(received[0].0.status, WcStatus::Success);
    pair.hosts[A].sent.iter().map(|c| c.status).collect()
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
fn memory_is_accessed_only_if_granted() {
    let all = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    for (access, offset, len, key_off) in [
        (all, 0, 1000, 1),                 // unknown key
        (all, -1, 1000, 0),                // starts too early
        (all, 1, 1000, 0),                 // hosts after
        (all, 0, 1001, 0),                 // is too long
        (Access::LOCAL_WRITE, 0, 1000, 0), // grants no remote access
    ] {
        for write in [true, false] {
            let mut pair = pair();
            let va = pair.hosts[B].memory.alloc(3000) + 1000;
            let rkey = pair.hosts[B].memory.register(va, 1000, access);
            let target = remote(
                va.wrapping_add_signed(offset),
                Rkey::new(rkey.get() + key_off),
            );
            let statuses = statuses(&mut pair, |pair| match write {
                true => {
                    pair.write(A, target, &pattern(1, len), None);
                }
                false => {
                    pair.read(A, target, len);
                }
            });
            assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
            assert_eq!(pair.hosts[B].fatal, Some(Fatal::AccessError));
            assert_eq!(pair.hosts[B].memory.get(va - 1000, 3000), [0xaa; 3000]);
        }
    }
}

#[test]
fn ranges_at_both_ends_of_the_address_space_get_a_nak() {
    for va in [0, u64::MAX - 10, u64::MAX] {
        let mut pair = pair();
        let shared = pair.hosts[B].memory.alloc(100);
        let rkey = pair.hosts[B]
            .memory
            .register(shared, 100, Access::REMOTE_WRITE);
        let statuses = statuses(&mut pair, |pair| {
            pair.write(A, remote(va, rkey), &[1; 100], None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
    }
}

#[test]
fn a_key_invalidated_during_a_read_fails_it() {
    let mut pair = pair();
    let va = pair.hosts[B].memory.alloc(100_000);
    let rkey = pair.hosts[B]
        .memory
        .register(va, 100_000, Access::REMOTE_READ);
    pair.read(A, remote(va, rkey), 100_000);
    pair.step();
    pair.hosts[B].memory.revoke(rkey);
    pair.read(A, remote(va, rkey), 1);
    pair.drive(1000);
    let statuses: Vec<_> = pair.hosts[A].sent.iter().map(|c| c.status).collect();
    assert_eq!(statuses.len(), 2);
    assert!(statuses.contains(&WcStatus::RemAccessErr), "{statuses:?}");
    assert_eq!(pair.hosts[B].fatal, Some(Fatal::AccessError));
}

#[test]
fn a_message_longer_than_its_receive_fails_at_both_ends() {
    for (receive_len, len) in [(0, 1), (99, 100), (700, 701), (256, 512)] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            let (_, va) = pair.receive(B, receive_len);
            let guard = pair.hosts[B].memory.alloc(300);
            assert_eq!(guard, va + receive_len as u64);
            pair.send(A, &pattern(1, len), None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemInvReqErr));
        let (received, _) = pair.hosts[B].received[1];
        assert_eq!(received.status, WcStatus::LocLenErr);
        assert_eq!(pair.hosts[B].fatal, Some(Fatal::LocalError));
    }
}

#[test]
fn a_receive_that_cannot_be_used_fails_at_both_ends() {
    for status in [WcStatus::LocQpOpErr, WcStatus::LocProtErr] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            pair.hosts[B].post_receive(77, 0, 100, Some(status));
            pair.send(A, &[1; 100], None);
        });
        assert_eq!(statuses, fails_with(WcStatus::RemOpErr));
        let (received, _) = pair.hosts[B].received[1];
        assert_eq!((received.wr_id, received.status), (77, status));
    }
}

#[test]
fn inaccessible_local_memory_fails_a_send_locally() {
    for len in [1, 1000] {
        let mut pair = pair();
        let statuses = statuses(&mut pair, |pair| {
            pair.post(A, request(SendOp::Send { imm: None }, len), None);
        });
        assert_eq!(statuses, fails_with(WcStatus::LocProtErr));
        assert_eq!(pair.hosts[A].requester.error(), Some(WcStatus::LocProtErr));
        assert_eq!(pair.hosts[B].fatal, None);
        assert_eq!(pair.hosts[B].received.len(), 1);
    }
}

#[test]
fn inaccessible_local_memory_fails_a_read() {
    let mut pair = pair();
    let va = pair.hosts[B].memory.alloc(1000);
    let rkey = pair.hosts[B].memory.register(va, 1000, Access::REMOTE_READ);
    let op = SendOp::Read {
        remote: remote(va, rkey),
    };
    let statuses = statuses(&mut pair, |pair| {
        pair.post(A, request(op, 1000), None);
    });
    assert_eq!(statuses, fails_with(WcStatus::LocProtErr));
}

#[test]
fn a_rejected_request_fails_in_order() {
    let mut pair = pair();
    let statuses = statuses(&mut pair, |pair| {
        let status = WcStatus::LocQpOpErr;
        pair.hosts[A].requester.reject(9, WcOpcode::BindMw, status);
    });
    assert_eq!(statuses, fails_with(WcStatus::LocQpOpErr));
    assert_eq!(pair.hosts[A].sent[1].wr_id, 9);
}

#[test]
fn access_not_granted_by_the_qp_is_an_invalid_request() {
    let mut pair = pair();
    pair.hosts[B].responder.set_access(Access::REMOTE_READ);
    let va = pair.hosts[B].memory.alloc(100);
    let rkey = pair.hosts[B].memory.register(va, 100, Access::REMOTE_WRITE);
    let statuses = statuses(&mut pair, |pair| {
        pair.write(A, remote(va, rkey), &[1; 100], None);
    });
    assert_eq!(statuses, fails_with(WcStatus::RemInvReqErr));
    assert_eq!(pair.hosts[B].fatal, Some(Fatal::RequestError));
    assert_eq!(pair.hosts[B].memory.get(va, 100), [0xaa; 100]);
}

#[test]
fn one_direction_continues_when_the_other_has_failed() {
    let mut pair = pair();
    let (_, va) = pair.receive(A, 8);
    let statuses = statuses(&mut pair, |pair| {
        pair.read(A, remote(1, Rkey::new(1)), 1);
    });
    assert_eq!(statuses, fails_with(WcStatus::RemAccessErr));
    // The engines share no state. The driver must move the QP to the error state.
    pair.send(B, b"the end.", None);
    pair.drive(1000);
    assert_eq!(pair.hosts[A].memory.get(va, 8), b"the end.");
}
