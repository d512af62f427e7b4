// SPDX-License-Identifier: GPL-2.0

//! Long READs, which are asked for in parts.

use super::*;

/// One that asks for two packets of a READ at a time, and for four in all.
fn bench() -> Bench {
    Bench::with(|config| config.flow.packets = 4)
}

impl Bench {
    /// Full packets of data with these PSNs.
    fn receive_full(&mut self, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.receive_data(psn, 256).unwrap();
        }
    }
}

/// The request for `len` bytes from byte `offset` of what is read.
fn ask(psn: u32, offset: u64, len: u32) -> Pkt {
    Pkt::new(Operation::ReadRequest, Position::Only, psn, 0)
        .with_reth(0x1000 + offset, len)
        .with_ack_request()
}

#[test]
fn a_part_is_asked_for_when_one_before_it_is_there() {
    let mut bench = bench();
    bench.post(READ, 1200);
    assert_eq!(bench.transmit(), [ask(100, 0, 512), ask(102, 512, 512)]);
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.transmit(), []);
    bench.receive_data(101, 256).unwrap();
    assert_eq!(bench.transmit(), [ask(104, 1024, 176)]);
    bench.receive_full([102, 103]);
    assert_eq!(bench.completions(), []);
    bench.receive_data(104, 176).unwrap();
    assert_eq!(bench.completions(), [(1200, WcStatus::Success)]);
    let offsets = bench.placed.iter().map(|placed| placed.1);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 256, 512, 768, 1024]);
}

#[test]
fn after_a_loss_a_part_ends_where_it_did() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.transmit();
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.receive_data(102, 256), Err(DropReason::ResponseGap));
    assert_eq!(bench.transmit(), [ask(101, 256, 256), ask(102, 512, 512)]);
    assert!(bench.wait(T));
    assert_eq!(bench.transmit(), [ask(101, 256, 256), ask(102, 512, 512)]);
}

#[test]
fn what_was_asked_for_twice_may_come_at_once() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.transmit();
    assert!(bench.wait(T));
    assert_eq!(bench.requester.flight(), InFlight::default());
    bench.receive_full(100..103);
    assert_eq!(bench.transmit()[0], ask(103, 768, 256));
    assert_eq!(bench.requester.flight().reads, 2);
}

#[test]
fn the_peer_serves_no_more_parts_than_reads() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 8;
        config.max_rd_atomic = 1;
    });
    bench.post(READ, 4000);
    assert_eq!(
        bench.transmit(),
        [ask(100, 0, 2048)],
        "all that may be in flight"
    );
    assert_eq!(bench.requester.flight().reads, 1);
    for psn in 100..108 {
        assert_eq!(bench.transmit(), []);
        bench.receive_data(psn, 256).unwrap();
    }
    assert_eq!(bench.transmit(), [ask(108, 2048, 1952)]);
}

#[test]
fn who_begins_slowly_asks_for_one_at_a_time() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 4;
        config.initial_window = 1;
    });
    bench.post(READ, 2048);
    assert_eq!(bench.transmit(), [ask(100, 0, 512)]);
    bench.receive_full([100, 101]);
    assert_eq!(
        bench.transmit(),
        [ask(102, 512, 512)],
        "three may be in flight"
    );
    bench.receive_data(102, 256).unwrap();
    assert_eq!(bench.transmit(), [ask(104, 1024, 512)]);
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
    assert_eq!(psns(&bench.transmit()), [100, 102]);
    for (psn, sent) in [(100, &[] as &[u32]), (101, &[104]), (102, &[]), (103, &[])] {
        bench.receive_data(psn, 256).unwrap();
        assert_eq!(psns(&bench.transmit()), sent, "{psn}");
    }
    bench.receive_data(104, 176).unwrap();
    assert_eq!(psns(&bench.transmit()), [105]);
}

#[test]
fn draining_asks_for_all_parts_of_what_was_begun() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.post(READ, 1);
    bench.transmit();
    bench.requester.drain();
    bench.receive_full(100..104);
    assert_eq!(bench.transmit(), [ask(104, 1024, 176)]);
    assert!(!bench.requester.is_drained());
    bench.receive_data(104, 176).unwrap();
    assert!(bench.requester.is_drained());
    assert_eq!(bench.transmit(), []);
}

#[test]
fn how_much_may_be_in_flight_changes_no_part() {
    let mut bench = bench();
    bench.post(READ, 2048);
    assert_eq!(psns(&bench.transmit()), [100, 102]);
    bench.requester.set_flow(FlowLimit {
        bytes: 1 << 20,
        packets: 1000,
    });
    bench.requester.set_max_rd_atomic(1);
    assert_eq!(bench.transmit(), []);
    bench.receive_full(100..104);
    assert_eq!(bench.transmit(), [ask(104, 1024, 512)]);
    assert!(bench.wait(T));
    assert_eq!(bench.transmit(), [ask(104, 1024, 512)]);
    bench.receive_full(104..106);
    assert_eq!(bench.transmit(), [ask(106, 1536, 512)]);
    bench.post(READ, 2048);
    bench.receive_full(106..108);
    assert_eq!(
        bench.transmit(),
        [ask(108, 0, 2048)],
        "the next READ is cut anew"
    );
}

#[test]
fn psns_wrap_in_the_middle() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 4;
        config.first_psn = Psn::new(0xff_fffd);
    });
    bench.post(READ, 1200);
    assert_eq!(psns(&bench.transmit()), [0xff_fffd, 0xff_ffff]);
    bench.receive_full([0xff_fffd, 0xff_fffe, 0xff_ffff, 0]);
    assert_eq!(bench.transmit(), [ask(1, 1024, 176)]);
    bench.receive_data(1, 176).unwrap();
    assert_eq!(bench.completions(), [(1200, WcStatus::Success)]);
}

#[test]
fn what_was_not_asked_for_yet_does_not_come() {
    let mut bench = bench();
    bench.post(READ, 2048);
    bench.transmit();
    bench.receive_full(100..103);
    // Two packets as one, of which the second is of the third part.
    let run = Pkt::new(Operation::ReadResponse, Position::Middle, 103, 512);
    let mut host = (&mut bench.placed, None);
    let (requester, now) = (&mut bench.requester, bench.now);
    let taken = run.parse(|run| requester.handle_response(now, &run.standing_for(2), &mut host));
    assert_eq!(taken, Ok(Taken::Whole));
    assert_eq!(bench.placed.len(), 3);
    assert_eq!(bench.completions(), [(2048, WcStatus::BadRespErr)]);
}

#[test]
fn a_later_part_is_refused() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.transmit();
    bench.receive_full(100..102);
    bench
        .receive(aeth_packet(102, Syndrome::Nak(NakCode::RemoteAccess)))
        .unwrap();
    assert_eq!(bench.completions(), [(1200, WcStatus::RemAccessErr)]);
    assert_eq!(bench.transmit(), []);
}

#[test]
fn who_withdraws_a_read_asks_for_no_more_of_it() {
    let mut bench = bench();
    let slot = bench.post(READ, 1200);
    bench.transmit();
    bench.requester.abort(slot, WcStatus::LocProtErr);
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.completions(), [(1200, WcStatus::LocProtErr)]);
}

#[test]
fn a_key_is_taken_back_with_the_last_part() {
    let mut bench = bench();
    let rkey = Rkey::new(0x1234);
    let remote = at(0x1000);
    bench.post(SendOp::ReadInvalidate { remote, rkey }, 1200);
    bench.transmit();
    bench.receive_full(100..104);
    bench.transmit();
    assert_eq!(bench.placed.len(), 4);
    bench.receive_data(104, 176).unwrap();
    assert_eq!(bench.placed.last(), Some(&(u32::MAX, 0x1234, 0)));
}
