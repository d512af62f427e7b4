// SPDX-License-Identifier: GPL-2.0

//! Long READs, which are asked for in parts.

use super::*;

/// One that asks for two packets of a READ at a time, and for four in all.
fn bench() -> Bench {
    Bench::with(|config| config.flow.packets = 4)
}

/// The request for `len` bytes from byte `offset` of what is read.
fn ask(psn: u32, offset: u64, len: u32) -> Pkt {
    Pkt::new(Operation::ReadRequest, Position::Only, psn, 0)
        .with_reth(0x1000 + offset, len)
        .asking()
}

#[test]
fn a_part_is_asked_for_when_one_before_it_is_there() {
    let mut bench = bench();
    bench.post(READ, 1200);
    assert_eq!(bench.sends(), [ask(100, 0, 512), ask(102, 512, 512)]);
    bench.gets_data(100, 256).unwrap();
    assert_eq!(bench.sends(), []);
    bench.gets_data(101, 256).unwrap();
    assert_eq!(bench.sends(), [ask(104, 1024, 176)]);
    for psn in [102, 103] {
        bench.gets_data(psn, 256).unwrap();
    }
    assert_eq!(bench.reports(), []);
    bench.gets_data(104, 176).unwrap();
    assert_eq!(bench.reports(), [(1200, WcStatus::Success)]);
    let offsets = bench.placed.iter().map(|placed| placed.1);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 256, 512, 768, 1024]);
}

#[test]
fn after_a_loss_a_part_ends_where_it_did() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.sends();
    bench.gets_data(100, 256).unwrap();
    assert_eq!(bench.gets_data(102, 256), Err(DropReason::ResponseGap));
    assert_eq!(bench.sends(), [ask(101, 256, 256), ask(102, 512, 512)]);
    assert!(bench.wait(T));
    assert_eq!(bench.sends(), [ask(101, 256, 256), ask(102, 512, 512)]);
}

#[test]
fn what_was_asked_for_twice_may_come_at_once() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.sends();
    assert!(bench.wait(T));
    assert_eq!(bench.requester.flight(), Flight::default());
    for psn in 100..103 {
        bench.gets_data(psn, 256).unwrap();
    }
    assert_eq!(bench.sends()[0], ask(103, 768, 256));
    assert_eq!(bench.requester.flight().reads, 2);
}

#[test]
fn the_peer_serves_no_more_parts_than_reads() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 8;
        config.max_rd_atomic = 1;
    });
    bench.post(READ, 1600);
    assert_eq!(bench.sends(), [ask(100, 0, 1024)]);
    assert_eq!(bench.requester.flight().reads, 1);
    for psn in 100..104 {
        assert_eq!(bench.sends(), []);
        bench.gets_data(psn, 256).unwrap();
    }
    assert_eq!(bench.sends(), [ask(104, 1024, 576)]);
}

#[test]
fn a_fence_waits_for_the_last_part() {
    let mut bench = bench();
    bench.post(READ, 1200);
    let fenced = SendWr {
        fence: true,
        ..request(SEND, 1)
    };
    bench.requester.post(fenced).unwrap();
    assert_eq!(psns(&bench.sends()), [100, 102]);
    for (psn, sent) in [(100, &[] as &[u32]), (101, &[104]), (102, &[]), (103, &[])] {
        bench.gets_data(psn, 256).unwrap();
        assert_eq!(psns(&bench.sends()), sent, "{psn}");
    }
    bench.gets_data(104, 176).unwrap();
    assert_eq!(psns(&bench.sends()), [105]);
}

#[test]
fn draining_asks_for_all_parts_of_what_was_begun() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.post(READ, 1);
    bench.sends();
    bench.requester.drain();
    for psn in 100..104 {
        bench.gets_data(psn, 256).unwrap();
    }
    assert_eq!(bench.sends(), [ask(104, 1024, 176)]);
    assert!(!bench.requester.is_drained());
    bench.gets_data(104, 176).unwrap();
    assert!(bench.requester.is_drained());
    assert_eq!(bench.sends(), []);
}

#[test]
fn how_much_may_be_in_flight_changes_no_part() {
    let mut bench = bench();
    bench.post(READ, 2048);
    assert_eq!(psns(&bench.sends()), [100, 102]);
    bench.requester.set_flow(Flow {
        bytes: 1 << 20,
        packets: 1000,
    });
    bench.requester.set_max_rd_atomic(9);
    assert_eq!(bench.sends(), [ask(104, 1024, 512), ask(106, 1536, 512)]);
}
