// SPDX-License-Identifier: GPL-2.0

//! Sending, and the limits that hold packets back.

use super::*;
use crate::congestion::{
    dcqcn::DcqcnConfig,
    pacer::Rate, //
};

// Sending.

#[test]
fn sends_count_when_complete_signaled_or_not() {
    let mut bench = Bench::new();
    let (remote, imm) = (at(0), None);
    let write = SendOp::Write { remote, imm };
    for (op, signaled) in [(SEND, false), (write, true), (SEND, true)] {
        let mut wr = request(op, 8);
        wr.signaled = signaled;
        bench.requester.post(wr).unwrap();
    }
    bench.transmit();
    assert_eq!(bench.requester.take_stats().sends, 0);
    bench.receive(ack(102)).unwrap();
    while bench.requester.poll_completion().is_some() {}
    let stats = bench.requester.take_stats();
    assert_eq!((stats.sends, stats.responses), (2, 1));
    bench.post(SEND, 8);
    bench.requester.fail();
    while bench.requester.poll_completion().is_some() {}
    assert_eq!(bench.requester.take_stats().sends, 0);
}

#[test]
fn requests_are_accepted_once_there_is_storage() {
    let mut bench = Bench::of(0, |_| {});
    assert_eq!(bench.requester.post(request(SEND, 8)), None);
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.requester.set_slots(vec![Slot::EMPTY; 4]).len(), 0);
    bench.requester.align(SlotIndex(2));
    assert_eq!(bench.requester.free_slots(), 4);
    assert_eq!(bench.post(SEND, 8), SlotIndex(2));
    assert_eq!(bench.transmit().len(), 1);
    // They are dropped with the storage.
    assert_eq!(bench.requester.set_slots(vec![Slot::EMPTY; 2]).len(), 4);
    assert_eq!(bench.requester.free_slots(), 2);
    assert!(bench.requester.poll_completion().is_none());
}

#[test]
fn a_message_is_segmented_at_the_mtu() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    assert_eq!(
        bench.transmit(),
        [
            send_pkt(Position::First, 100, 256),
            send_pkt(Position::Middle, 101, 256),
            send_pkt(Position::Last, 102, 88).with_ack_request(),
        ]
    );
    assert_eq!(bench.transmit(), []);
}

#[test]
fn messages_up_to_the_mtu_are_one_packet() {
    let mut bench = Bench::new();
    bench.post(SEND, 256);
    bench.post(SEND, 0);
    assert_eq!(
        bench.transmit(),
        [
            send_pkt(Position::Only, 100, 256).with_ack_request(),
            send_pkt(Position::Only, 101, 0).with_ack_request(),
        ]
    );
}

#[test]
fn a_write_has_a_reth_first_and_immediate_data_last() {
    let mut bench = Bench::new();
    let imm = Some(Imm([1, 2, 3, 4]));
    let remote = at(0xf00);
    let mut wr = request(SendOp::Write { remote, imm }, 300);
    wr.solicited = true;
    bench.requester.post(wr).unwrap();
    let first = Pkt::new(Operation::RdmaWrite, Position::First, 100, 256);
    let last = Pkt::new(Operation::RdmaWrite, Position::Last, 101, 44);
    let last = Pkt {
        solicited: true,
        ..last.with_imm([1, 2, 3, 4]).with_ack_request()
    };
    assert_eq!(bench.transmit(), [first.with_reth(0xf00, 300), last]);
}

#[test]
fn only_packets_that_complete_a_receive_are_solicited() {
    let imm = Some(Imm([0; 4]));
    let remote = at(0);
    for (op, solicited) in [
        (SEND, [false, true]),
        (SendOp::Write { remote, imm }, [false, true]),
        (SendOp::Write { remote, imm: None }, [false, false]),
        (READ, [false, false]),
    ] {
        let mut bench = Bench::new();
        let mut wr = request(op, 300);
        wr.solicited = true;
        bench.requester.post(wr).unwrap();
        let sent = bench.transmit();
        let flags: Vec<_> = sent.iter().map(|packet| packet.solicited).collect();
        assert_eq!(flags, solicited[..flags.len()], "{op:?}");
    }
}

#[test]
fn a_read_takes_the_psns_of_its_response() {
    let mut bench = Bench::new();
    bench.post(READ, 600);
    bench.post(SEND, 1);
    let read = Pkt::new(Operation::ReadRequest, Position::Only, 100, 0);
    assert_eq!(
        bench.transmit(),
        [
            read.with_reth(0x1000, 600).with_ack_request(),
            send_pkt(Position::Only, 103, 1).with_ack_request(),
        ]
    );
}

#[test]
fn a_burst_stops_at_its_limit_and_continues_there() {
    let mut bench = Bench::new();
    bench.post(SEND, 1000);
    let limit = BurstLimit {
        bytes: 600,
        packets: 9,
    };
    assert_eq!(psns(&bench.transmit_up_to(limit)), [100, 101]);
    let limit = BurstLimit { bytes: 0, ..limit };
    assert_eq!(psns(&bench.transmit_up_to(limit)), [102]);
    assert_eq!(psns(&bench.transmit()), [103]);
}

#[test]
fn nothing_is_sent_before_the_start() {
    let mut requester = Requester::new(vec![Slot::EMPTY; 4]);
    assert_eq!(requester.post(request(SEND, 1)), None, "reset");
    requester.init();
    assert_eq!(requester.post(request(SEND, 1)), Some(SlotIndex(0)));
    assert_eq!(requester.burst(micros(1), ALL).count(), 0);
    assert!(!requester.has_work());
    requester.start();
    assert_eq!(requester.burst(micros(1), ALL).count(), 1);
}

#[test]
fn a_full_ring_accepts_no_request_until_a_slot_is_free() {
    let mut bench = Bench::new();
    assert_eq!(bench.requester.free_slots(), 8);
    for slot in 0..8 {
        assert_eq!(bench.post(SEND, 1), SlotIndex(slot));
    }
    assert_eq!(bench.requester.free_slots(), 0);
    assert_eq!(bench.requester.post(request(SEND, 1)), None);
    bench.transmit();
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.requester.post(request(SEND, 1)), None, "not reported");
    assert_eq!(bench.completions().len(), 1);
    assert_eq!(bench.post(SEND, 1), SlotIndex(0));
}

#[test]
fn long_messages_request_acks_often_enough() {
    let mut bench = Bench::new();
    bench.post(SEND, 40 * 256);
    let ack_requests = |sent: &[Pkt]| -> Vec<_> {
        let requesting = sent.iter().filter(|packet| packet.ack_request);
        requesting.map(|packet| packet.psn).collect()
    };
    assert_eq!(ack_requests(&bench.transmit()), [115, 131, 139]);

    let mut bench = Bench::with(|config| config.flow.packets = 6);
    bench.post(SEND, 40 * 256);
    assert_eq!(
        ack_requests(&bench.transmit()),
        [102, 105],
        "twice per window"
    );

    let mut bench = Bench::with(|config| config.flow.bytes = 1024);
    bench.post(SEND, 40 * 256);
    assert_eq!(ack_requests(&bench.transmit()), [101, 103], "also by bytes");
}

// Limits.

#[test]
fn the_window_is_counted_in_packets_and_in_bytes() {
    let mut bench = Bench::with(|config| config.flow.packets = 3);
    bench.post(SEND, 40 * 256);
    assert_eq!(psns(&bench.transmit()), [100, 101, 102]);
    bench.receive(ack(100)).unwrap();
    assert_eq!(psns(&bench.transmit()), [103]);

    let mut bench = Bench::with(|config| config.flow.bytes = 600);
    bench.post(SEND, 40 * 256);
    assert_eq!(psns(&bench.transmit()), [100, 101]);
    bench.receive(ack(101)).unwrap();
    assert_eq!(psns(&bench.transmit()), [102, 103]);
}

#[test]
fn one_packet_may_always_be_in_flight() {
    let mut bench = Bench::with(|config| {
        config.flow = FlowLimit {
            bytes: 0,
            packets: 0,
        };
    });
    bench.post(SEND, 512);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.receive(ack(100)).unwrap();
    assert_eq!(psns(&bench.transmit()), [101]);
}

#[test]
fn outstanding_reads_are_limited_to_max_rd_atomic() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.post(READ, 256);
    }
    bench.post(SEND, 1);
    assert_eq!(
        psns(&bench.transmit()),
        [100, 101],
        "the SEND does not overtake"
    );
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [102]);
    bench.receive_data(101, 256).unwrap();
    bench.receive_data(102, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [103, 104]);
}

#[test]
fn a_fence_waits_for_the_reads_before_it() {
    let mut bench = Bench::new();
    bench.post(READ, 512);
    let fenced = SendWr {
        fence: true,
        ..request(SEND, 1)
    };
    bench.requester.post(fenced).unwrap();
    bench.post(READ, 256);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), []);
    bench.receive_data(101, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [102, 103]);
}

#[test]
fn at_most_half_of_the_psn_space_is_in_flight() {
    let mut bench = Bench::with(|config| {
        config.flow = FlowLimit {
            bytes: u32::MAX,
            packets: u32::MAX,
        };
        config.max_rd_atomic = 1;
    });
    bench.post(READ, MAX_MESSAGE_BYTES);
    bench.post(SEND, 1);
    assert_eq!(
        psns(&bench.transmit()),
        [100],
        "the READ uses all 2^23 PSNs"
    );
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [100 + (1 << 23)]);
    assert_eq!(bench.receive(ack(99)), Err(DropReason::StaleResponse));
}

#[test]
fn a_read_counts_with_its_responses() {
    let mut bench = Bench::with(|config| config.flow.packets = 4);
    for _ in 0..3 {
        bench.post(READ, 512);
    }
    assert_eq!(psns(&bench.transmit()), [100, 102], "two packets each");
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), []);
    bench.receive_data(101, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [104]);

    let mut bench = Bench::with(|config| config.flow.bytes = 300);
    bench.post(READ, 512);
    bench.post(READ, 1);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [101, 102], "257 bytes");

    let mut bench = Bench::with(|config| config.flow.bytes = 200);
    bench.post(READ, 512);
    assert_eq!(
        psns(&bench.transmit()),
        [100],
        "one packet may exceed the limit"
    );
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [101]);
}

#[test]
fn draining_finishes_begun_requests() {
    let mut bench = Bench::with(|config| config.flow.packets = 1);
    bench.post(SEND, 512);
    bench.post(SEND, 1);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.requester.drain();
    assert!(!bench.requester.is_drained());
    bench.receive(ack(100)).unwrap();
    assert_eq!(psns(&bench.transmit()), [101]);
    bench.receive(ack(101)).unwrap();
    assert_eq!(psns(&bench.transmit()), []);
    assert!(bench.requester.is_drained());
    bench.requester.resume();
    assert!(!bench.requester.is_drained());
    assert_eq!(psns(&bench.transmit()), [102]);
}

#[test]
fn attributes_can_be_changed_in_operation() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.post(READ, 256);
    }
    bench.requester.set_max_rd_atomic(1);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.requester.set_max_rd_atomic(9);
    let flow = FlowLimit {
        bytes: 1 << 20,
        packets: 3,
    };
    bench.requester.set_flow(flow);
    assert_eq!(psns(&bench.transmit()), [101, 102]);

    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.requester.set_pkey(Pkey::new(0x8007));
    let segment = bench.requester.burst(bench.now, ALL).next().unwrap();
    let buffer = segment.headers.emit(1);
    assert_eq!(buffer.as_slice()[2..4], [0x80, 0x07]);
}

#[test]
fn a_packet_names_its_payload_source() {
    let mut bench = Bench::new();
    bench.post(SEND, 600);
    bench.post(SEND, 0);
    bench.post(READ, 600);
    let burst = bench.requester.burst(bench.now, ALL);
    let sources: Vec<_> = burst
        .map(|segment| (segment.source, segment.offset, segment.length))
        .collect();
    let slot = TxPayload::Slot(SlotIndex(0));
    assert_eq!(
        sources,
        [
            (slot, 0, 256),
            (slot, 256, 256),
            (slot, 512, 88),
            (TxPayload::None, 0, 0),
            (TxPayload::None, 0, 0),
        ]
    );
}

// Page faults.

#[test]
fn an_unsent_packet_is_the_next() {
    for length in [100, 256, 600, 1024] {
        let (mut whole, mut bench) = (Bench::new(), Bench::new());
        for bench in [&mut whole, &mut bench] {
            bench.post(SEND, 300);
            bench.post(SEND, length);
            bench.post(SEND, 0);
        }
        let expected = whole.transmit();
        let one = BurstLimit {
            bytes: u32::MAX,
            packets: 1,
        };
        let mut sent = Vec::new();
        while let [packet] = bench.transmit_up_to(one)[..] {
            let flight = bench.requester.flight();
            if packet.len != 0 {
                bench.requester.unsend(1);
                let again = bench.transmit_up_to(one)[0];
                assert_eq!(again, packet, "including its AckReq bit");
                assert_eq!(bench.requester.flight(), flight);
            }
            sent.push(packet);
        }
        assert_eq!(sent, expected, "{length}");
        let last = expected.last().unwrap().psn;
        bench.receive(ack(last)).unwrap();
        assert_eq!(bench.completions().len(), 3);
    }
}

#[test]
fn an_unsent_packet_takes_no_time_of_the_rate() {
    let mut bench = Bench::with(|config| {
        config.path_mtu = Mtu::Mtu4096;
        config.congestion = Algorithm::Dcqcn(DcqcnConfig::new(Rate::from_mbit_s(20)));
    });
    bench.now = micros(1_000_000);
    // 10 Mbit/s: a packet takes more than 3 ms, and one of these is made up for.
    bench.requester.congestion().on_cnp(bench.now);
    bench.post(SEND, 8192);
    let one = BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    };
    let sent = bench.transmit_up_to(one);
    assert_eq!(psns(&sent), [100]);
    bench.requester.unsend(1);
    assert_eq!(bench.transmit_up_to(one), sent);
    assert_eq!(
        bench.transmit_up_to(one),
        [],
        "the rate holds this one back"
    );
}

#[test]
fn a_retransmitted_packet_can_be_unsent() {
    let mut bench = Bench::new();
    bench.post(SEND, 700);
    bench.transmit();
    bench
        .receive(aeth_packet(100, Syndrome::Nak(NakCode::PsnSequence)))
        .unwrap();
    bench.transmit_up_to(BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    });
    bench.requester.unsend(1);
    assert_eq!(psns(&bench.transmit()), [101, 102]);
    bench.receive(ack(102)).unwrap();
    assert_eq!(bench.completions(), [(700, WcStatus::Success)]);
}

#[test]
fn a_super_packet_splits_into_the_same_packets() {
    for flow in [
        FlowLimit {
            bytes: 64 << 10,
            packets: 256,
        },
        FlowLimit {
            bytes: 1500,
            packets: 9,
        },
    ] {
        let (mut single, mut runs) = (Bench::new(), Bench::new());
        let imm = Some(Imm([1, 2, 3, 4]));
        for bench in [&mut single, &mut runs] {
            bench.requester.config.flow = flow;
            bench.post(SEND, 300);
            bench.post(SendOp::Send { imm }, 9000);
            bench.post(SendOp::Read { remote: at(0) }, 700);
            bench.post(SendOp::Write { remote: at(0), imm }, 5000);
            bench.post(SEND, 0);
        }
        let (mut expected, mut split, mut segments) = (Vec::new(), Vec::new(), 0);
        for limit in [1000, 5000, u32::MAX, u32::MAX] {
            let limit = BurstLimit {
                bytes: limit,
                packets: 64,
            };
            for segment in single.requester.burst(single.now, limit) {
                let headers = segment.headers.emit(segment.length as usize);
                expected.push((headers.as_slice().to_vec(), segment.length));
            }
            for segment in runs.requester.burst(runs.now, limit).for_super_packets() {
                segments += 1;
                let mut packets = segment.split(Mtu::Mtu256);
                while let Some((headers, length)) = packets.advance() {
                    split.push((headers.as_slice().to_vec(), length));
                }
            }
            assert_eq!(single.requester.flight(), runs.requester.flight());
            let last = single.requester.next_psn().sub(1).get();
            for bench in [&mut single, &mut runs] {
                let _ = bench.receive(ack(last));
            }
        }
        assert_eq!(split, expected);
        assert!(segments < expected.len(), "{segments} {}", expected.len());
    }
}

/// Posts three requests of one packet (100 to 102); the memory of the second is not present.
fn with_absent_memory() -> Bench {
    let mut bench = Bench::new();
    for length in [1, 2, 3] {
        bench.post(SEND, length);
    }
    assert_eq!(psns(&bench.transmit()), [100, 101, 102]);
    bench.requester.await_memory(2);
    bench
}

#[test]
fn a_wait_for_memory_does_not_delay_earlier_completions() {
    let mut bench = with_absent_memory();
    assert!(!bench.requester.has_work());
    assert_eq!(bench.transmit(), []);
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.completions(), [(1, WcStatus::Success)]);
    assert!(!bench.requester.has_work());
    bench.requester.memory_present();
    assert!(bench.requester.has_work());
    assert_eq!(psns(&bench.transmit()), [101, 102]);
}

#[test]
fn packets_before_one_that_waits_for_memory_are_sent_again() {
    let mut bench = with_absent_memory();
    assert!(bench.wait(T));
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(!bench.requester.has_work());
    bench
        .receive(aeth_packet(100, Syndrome::Rnr { timer: 1 }))
        .unwrap();
    assert!(bench.wait(10));
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.requester.memory_present();
    assert_eq!(psns(&bench.transmit()), [101, 102]);
}

#[test]
fn a_super_packet_ends_before_one_that_waits_for_memory() {
    let mut bench = Bench::new();
    bench.post(SEND, 700);
    assert_eq!(psns(&bench.transmit()), [100, 101, 102]);
    bench.requester.await_memory(1);
    bench.receive(aeth_packet(100, SEQUENCE)).unwrap();
    let burst = bench.requester.burst(bench.now, ALL).coalescing(64);
    let packets: Vec<u32> = burst.map(|desc| desc.packets).collect();
    assert_eq!(packets, [2]);
}

#[test]
fn a_response_that_waits_for_memory_stops_the_ack_timeout() {
    let mut bench = Bench::new();
    bench.post(READ, 8);
    bench.transmit();
    assert!(!bench.wait(T - 1));
    bench.requester.pause_ack_timeout();
    assert_eq!(bench.requester.next_wake().at(), None);
    assert!(!bench.wait(10 * T));
    bench.requester.resume_ack_timeout(bench.now);
    assert!(!bench.wait(T - 1));
    assert!(bench.wait(1));
    assert_eq!(bench.requester.take_stats().timeouts, 1);
}
