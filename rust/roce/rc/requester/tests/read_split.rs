// SPDX-License-Identifier: GPL-2.0

//! READ split.

use super::*;

/// A requester that splits READs into parts of two packets, with four packets in flight.
fn bench() -> Bench {
    Bench::with(|config| config.flow.packets = 4)
}

impl Bench {
    /// Receives full packets of data with these PSNs.
    fn receive_full(&mut self, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.receive_data(psn, 256).unwrap();
        }
    }
}

/// The READ request for `len` bytes at byte `offset` of the READ.
fn read_pkt(psn: u32, offset: u64, len: u32) -> Pkt {
    Pkt::new(Operation::ReadRequest, Position::Only, psn, 0)
        .with_reth(0x1000 + offset, len)
        .with_ack_request()
}

#[test]
fn a_part_is_requested_when_an_earlier_one_is_complete() {
    let mut bench = bench();
    bench.post(READ, 1200);
    assert_eq!(
        bench.transmit(),
        [read_pkt(100, 0, 512), read_pkt(102, 512, 512)]
    );
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.transmit(), []);
    bench.receive_data(101, 256).unwrap();
    assert_eq!(bench.transmit(), [read_pkt(104, 1024, 176)]);
    bench.receive_full([102, 103]);
    assert_eq!(bench.completions(), []);
    bench.receive_data(104, 176).unwrap();
    assert_eq!(bench.completions(), [(1200, WcStatus::Success)]);
    let offsets = bench.placed.iter().map(|placed| placed.1);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 256, 512, 768, 1024]);
}

#[test]
fn after_a_loss_the_part_boundaries_stay() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.transmit();
    bench.receive_data(100, 256).unwrap();
    assert_eq!(bench.receive_data(102, 256), Err(DropReason::ResponseGap));
    assert_eq!(
        bench.transmit(),
        [read_pkt(101, 256, 256), read_pkt(102, 512, 512)]
    );
    assert!(bench.wait(T));
    assert_eq!(
        bench.transmit(),
        [read_pkt(101, 256, 256), read_pkt(102, 512, 512)]
    );
}

#[test]
fn responses_may_arrive_before_the_retransmission() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.transmit();
    assert!(bench.wait(T));
    assert_eq!(bench.requester.flight(), InFlight::default());
    bench.receive_full(100..103);
    assert_eq!(bench.transmit()[0], read_pkt(103, 768, 256));
    assert_eq!(bench.requester.flight().reads, 2);
}

#[test]
fn parts_count_towards_max_rd_atomic() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 8;
        config.max_rd_atomic = 1;
    });
    bench.post(READ, 4000);
    assert_eq!(
        bench.transmit(),
        [read_pkt(100, 0, 2048)],
        "up to the flow limit"
    );
    assert_eq!(bench.requester.flight().reads, 1);
    for psn in 100..108 {
        assert_eq!(bench.transmit(), []);
        bench.receive_data(psn, 256).unwrap();
    }
    assert_eq!(bench.transmit(), [read_pkt(108, 2048, 1952)]);
}

#[test]
fn the_initial_window_limits_parts() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 4;
        config.initial_window = 1;
    });
    bench.post(READ, 2048);
    assert_eq!(bench.transmit(), [read_pkt(100, 0, 512)]);
    bench.receive_full([100, 101]);
    assert_eq!(
        bench.transmit(),
        [read_pkt(102, 512, 512)],
        "three may be in flight"
    );
    bench.receive_data(102, 256).unwrap();
    assert_eq!(bench.transmit(), [read_pkt(104, 1024, 512)]);
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
fn draining_requests_all_parts_of_a_begun_read() {
    let mut bench = bench();
    bench.post(READ, 1200);
    bench.post(READ, 1);
    bench.transmit();
    bench.requester.drain();
    bench.receive_full(100..104);
    assert_eq!(bench.transmit(), [read_pkt(104, 1024, 176)]);
    assert!(!bench.requester.is_drained());
    bench.receive_data(104, 176).unwrap();
    assert!(bench.requester.is_drained());
    assert_eq!(bench.transmit(), []);
}

#[test]
fn a_new_flow_limit_does_not_change_the_split() {
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
    assert_eq!(bench.transmit(), [read_pkt(104, 1024, 512)]);
    assert!(bench.wait(T));
    assert_eq!(bench.transmit(), [read_pkt(104, 1024, 512)]);
    bench.receive_full(104..106);
    assert_eq!(bench.transmit(), [read_pkt(106, 1536, 512)]);
    bench.post(READ, 2048);
    bench.receive_full(106..108);
    assert_eq!(
        bench.transmit(),
        [read_pkt(108, 0, 2048)],
        "the next READ has a new split"
    );
}

#[test]
fn psns_wrap_within_a_read() {
    let mut bench = Bench::with(|config| {
        config.flow.packets = 4;
        config.first_psn = Psn::new(0xff_fffd);
    });
    bench.post(READ, 1200);
    assert_eq!(psns(&bench.transmit()), [0xff_fffd, 0xff_ffff]);
    bench.receive_full([0xff_fffd, 0xff_fffe, 0xff_ffff, 0]);
    assert_eq!(bench.transmit(), [read_pkt(1, 1024, 176)]);
    bench.receive_data(1, 176).unwrap();
    assert_eq!(bench.completions(), [(1200, WcStatus::Success)]);
}

#[test]
fn data_of_an_unrequested_part_is_an_error() {
    let mut bench = bench();
    bench.post(READ, 2048);
    bench.transmit();
    bench.receive_full(100..103);
    // A coalesced packet: the second of its two packets belongs to the third part.
    let coalesced = Pkt::new(Operation::ReadResponse, Position::Middle, 103, 512);
    let mut host = (&mut bench.placed, None);
    let (requester, now) = (&mut bench.requester, bench.now);
    let taken = coalesced
        .parse(|packet| requester.handle_response(now, &packet.as_super_packet(2), &mut host));
    assert_eq!(taken, Ok(Taken::Whole));
    assert_eq!(bench.placed.len(), 3);
    assert_eq!(bench.completions(), [(2048, WcStatus::BadRespErr)]);
}

#[test]
fn a_nak_of_a_later_part_fails_the_read() {
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
fn an_aborted_read_requests_no_more_parts() {
    let mut bench = bench();
    let slot = bench.post(READ, 1200);
    bench.transmit();
    bench.requester.abort(slot, WcStatus::LocProtErr);
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.completions(), [(1200, WcStatus::LocProtErr)]);
}

#[test]
fn a_key_is_invalidated_with_the_last_part() {
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
