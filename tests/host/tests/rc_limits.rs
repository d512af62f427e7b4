// SPDX-License-Identifier: GPL-2.0

//! Limits of a connection: outstanding READs, retries, timeouts, flow limit.

use roce::{
    access::Access,
    rc::requester::FlowLimit,
    segmentation::mtu::Mtu,
    status::WcStatus,
    time::{
        ack_timeout,
        rnr_timeout, //
    },
    wire::{
        aeth::Syndrome,
        opcode::Operation, //
    },
    wr::SendOp, //
};
use roce_tests::{
    net::{
        Fate,
        Sent, //
    },
    pair::{
        pattern,
        remote,
        request,
        Pair,
        Setup,
        A,
        B, //
    }, //
};

/// Returns the times at which A sent frames, in nanoseconds after the first.
fn times(pair: &Pair) -> Vec<u64> {
    let log = pair.net.log.as_ref().unwrap();
    let all: Vec<_> = log.iter().filter(|sent| sent.from == A).collect();
    let first = all[0].at;
    all.iter()
        .map(|sent| sent.at.saturating_since(first).as_nanos())
        .collect()
}

#[test]
fn an_unresponsive_peer_exhausts_the_retries_at_the_specified_times() {
    for code in [1, 8, 14, 20] {
        for retry_cnt in 0..=7 {
            let mut pair = Pair::new(Setup {
                ack_timeout: code,
                retry_cnt,
                ..Setup::default()
            });
            pair.net.fault_hook = Some(Box::new(|_| Fate::Drop));
            pair.record();
            let start = pair.now;
            pair.send(A, &[1], None);
            pair.drive(100);
            assert_eq!(pair.hosts[A].sent[0].status, WcStatus::RetryExcErr);

            let timeout = ack_timeout(code).unwrap().as_nanos();
            let mut expected = vec![0];
            let mut at = 0;
            for retry in 0..retry_cnt {
                at += timeout << retry.min(2);
                expected.push(at);
            }
            assert_eq!(times(&pair), expected);
            let end = at + (timeout << retry_cnt.min(2));
            assert_eq!(pair.now.saturating_since(start).as_nanos(), end);
            // Each timeout is between T and 4 T, as specified.
            assert!(end <= 4 * timeout * (u64::from(retry_cnt) + 1));
        }
    }
}

#[test]
fn a_peer_that_is_never_ready_exhausts_the_rnr_retries() {
    for (code, rnr_retry) in [(1, 0), (5, 1), (12, 6)] {
        let mut pair = Pair::new(Setup {
            min_rnr_timer: code,
            rnr_retry,
            ..Setup::default()
        });
        pair.record();
        pair.send(A, &[1], None);
        pair.drive(1000);
        assert_eq!(pair.hosts[A].sent[0].status, WcStatus::RnrRetryExcErr);
        let times = times(&pair);
        assert_eq!(times.len(), usize::from(rnr_retry) + 1);
        let delay = rnr_timeout(code).as_nanos() + 10_000; // and one RTT
        for pair in times.windows(2) {
            assert_eq!(pair[1] - pair[0], delay);
        }
    }
}

#[test]
fn rnr_retry_7_is_unlimited() {
    let mut pair = Pair::new(Setup {
        rnr_retry: 7,
        ..Setup::default()
    });
    pair.send(A, b"patience", None);
    for _ in 0..10_000 {
        assert!(pair.step());
    }
    let (_, va) = pair.receive(B, 8);
    pair.drive(1000);
    assert_eq!(pair.hosts[A].sent[0].status, WcStatus::Success);
    assert_eq!(pair.hosts[B].memory.get(va, 8), b"patience");
    assert!(pair.hosts[A].requester.take_stats().rnr_naks > 1000);
}

#[test]
fn the_window_after_an_rnr_nak_is_not_reported_as_lost() {
    let mut pair = Pair::new(Setup::default());
    pair.record();
    for _ in 0..5 {
        pair.send(A, &[1], None);
    }
    pair.step();
    for _ in 0..5 {
        pair.receive(B, 1);
    }
    pair.drive(1000);
    assert_eq!(pair.hosts[A].sent.len(), 5);
    let naks = |sent: &&Sent| matches!(sent.syndrome, Some(Syndrome::Nak(_)));
    assert_eq!(pair.net.log.iter().flatten().filter(naks).count(), 0);
    assert_eq!(pair.hosts[A].requester.take_stats().retries, 1);
}

#[test]
fn exactly_max_rd_atomic_reads_are_outstanding() {
    for count in 1..=16_u8 {
        let mut pair = Pair::new(Setup {
            mtu: Mtu::Mtu256,
            max_rd_atomic: count,
            max_dest_rd_atomic: count,
            ..Setup::default()
        });
        pair.record();
        let bytes = pattern(1, 40 * 300);
        let va = pair.hosts[B].memory.store(&bytes);
        let rkey = pair.hosts[B]
            .memory
            .register(va, bytes.len(), Access::REMOTE_READ);
        let locals: Vec<_> = (0..40)
            .map(|n| pair.read(A, remote(va + n * 300, rkey), 300).1)
            .collect();
        pair.settle();
        assert_eq!(pair.hosts[A].requester.flight().reads, u32::from(count));
        pair.drive(1000);

        for (local, bytes) in locals.iter().zip(bytes.chunks(300)) {
            assert_eq!(pair.hosts[A].memory.get(*local, 300), bytes);
        }
        assert_eq!(pair.hosts[B].fatal, None);
        // Computed from the frames: requests minus completed responses.
        let mut open = 0_i32;
        for sent in pair.net.log.iter().flatten() {
            match (sent.operation, sent.payload) {
                (Operation::ReadRequest, _) => open += 1,
                (Operation::ReadResponse, 44) => open -= 1,
                _ => {}
            }
            assert!(open <= i32::from(count));
        }
    }
}

#[test]
fn too_many_outstanding_reads_get_a_nak() {
    let mut pair = Pair::new(Setup {
        max_rd_atomic: 3,
        max_dest_rd_atomic: 2,
        ..Setup::default()
    });
    let va = pair.hosts[B].memory.alloc(100);
    let rkey = pair.hosts[B].memory.register(va, 100, Access::REMOTE_READ);
    for _ in 0..3 {
        pair.read(A, remote(va, rkey), 100);
    }
    pair.drive(1000);
    let statuses: Vec<_> = pair.hosts[A].sent.iter().map(|c| c.status).collect();
    let invalid = WcStatus::RemInvReqErr;
    assert_eq!(statuses, [WcStatus::Success, WcStatus::Success, invalid]);
}

#[test]
fn a_fenced_write_waits_for_the_read_data() {
    let mut pair = Pair::new(Setup::default());
    let va = pair.hosts[B].memory.store(&[1; 10_000]);
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let rkey = pair.hosts[B].memory.register(va, 10_000, access);
    let (_, local) = pair.read(A, remote(va, rkey), 10_000);
    let new = pair.hosts[A].memory.store(&[2; 10_000]);
    let op = SendOp::Write {
        remote: remote(va, rkey),
        imm: None,
    };
    let mut wr = request(op, 10_000);
    wr.fence = true;
    pair.post(A, wr, Some(new));
    pair.drive(1000);
    assert_eq!(pair.hosts[A].memory.get(local, 10_000), [1; 10_000]);
    assert_eq!(pair.hosts[B].memory.get(va, 10_000), [2; 10_000]);
}

#[test]
fn the_window_is_filled_and_not_exceeded() {
    for (bytes, packets, full) in [(8 << 10, 1000, 8), (1 << 30, 5, 5), (100, 1000, 1)] {
        let mut pair = Pair::new(Setup {
            mtu: Mtu::Mtu1024,
            flow: FlowLimit { bytes, packets },
            ..Setup::default()
        });
        pair.receive(B, 100 << 10);
        pair.send(A, &pattern(1, 100 << 10), None);
        pair.settle();
        assert_eq!(pair.hosts[A].requester.flight().packets, full);
        pair.drive(10_000);
        assert_eq!(pair.hosts[A].sent.len(), 1);
        assert_eq!(pair.hosts[A].requester.take_stats().timeouts, 0);
    }
}
