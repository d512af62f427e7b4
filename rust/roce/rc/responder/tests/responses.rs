// SPDX-License-Identifier: GPL-2.0

//! Order and number of responses, ACKs and NAKs.

use super::*;
use crate::{
    rc::testing::psns,
    segmentation::gso_loss::GsoLoss,
    time::Duration,
    wire::packet::Packet, //
};

/// Sends all packets and returns PSN and MSN of each with an AETH.
fn msns(bench: &mut Bench) -> Vec<(u32, u32)> {
    let burst = bench.responder.burst(ALL);
    burst
        .filter_map(|desc| {
            let headers = desc.headers.emit(desc.length as usize);
            let len = headers.len() + (desc.length as usize).next_multiple_of(4) + 4;
            let packet = Packet::parse(headers.as_slice(), len).unwrap();
            Some((packet.psn().get(), packet.aeth()?.msn.get()))
        })
        .collect()
}

#[test]
fn an_ack_has_the_msn_of_its_psn() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.post(600));
    bench
        .receive(send(Position::First, 100, 256).with_ack_request())
        .unwrap();
    assert_eq!(
        msns(&mut bench),
        [(100, 0)],
        "in the middle of the first message"
    );
    bench.receive(send(Position::Last, 101, 1)).unwrap();
    bench
        .receive(send(Position::Only, 102, 1).with_ack_request())
        .unwrap();
    assert_eq!(msns(&mut bench), [(102, 2)]);

    bench.receive(read(103, 0, 600)).unwrap();
    bench.receive_reads([106]);
    let send = send(Position::Only, 107, 1).with_ack_request();
    bench.receive(send).unwrap();
    assert_eq!(msns(&mut bench), [(103, 3), (105, 3), (106, 4), (107, 5)]);
    let duplicate = Pkt { psn: 102, ..send };
    bench.receive(duplicate).unwrap();
    assert_eq!(
        msns(&mut bench),
        [(102, 2)],
        "lowered to before the first READ"
    );
    bench.receive(Pkt { psn: 100, ..send }).unwrap();
    assert_eq!(msns(&mut bench), [(102, 2)]);
    bench.receive(send).unwrap();
    assert_eq!(msns(&mut bench), [(107, 5)]);
}

#[test]
fn a_nak_has_the_msn_before_its_psn() {
    let mut bench = Bench::new();
    bench.receive_reads([100]);
    bench.transmit();
    bench.receive(read(101, 0, 600)).unwrap();
    bench.receive(read(110, 0, 1)).unwrap_err();
    assert_eq!(
        msns(&mut bench),
        [(101, 2), (103, 2), (104, 2)],
        "a sequence error NAK"
    );

    bench.receive(read(104, 0, 600)).unwrap();
    let one = BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    };
    assert_eq!(bench.transmit_up_to(one).len(), 1);
    let rnr = bench.responder.fault_rnr_nak(0).0.headers.emit(0);
    let rnr = Packet::parse(rnr.as_slice(), rnr.len() + 4).unwrap();
    assert_eq!((rnr.psn().get(), rnr.aeth().unwrap().msn.get()), (105, 2));
    bench.transmit_up_to(one);
    bench.responder.abort_read(1, AccessError::Key);
    assert_eq!(msns(&mut bench), [(105, 2)], "the READ did not complete");
}

#[test]
fn consecutive_requests_are_acknowledged_once() {
    let mut bench = Bench::new();
    for psn in 100..110 {
        bench.post(1);
        bench
            .receive(send(Position::Only, psn, 1).with_ack_request())
            .unwrap();
    }
    assert_eq!(bench.transmit(), [ack(109)]);
    assert_eq!(bench.transmit(), []);
}

#[test]
fn only_an_ack_request_is_acknowledged() {
    let mut bench = Bench::new();
    bench.post(1000);
    bench.receive(send(Position::First, 100, 256)).unwrap();
    assert_eq!(bench.transmit(), []);
    bench
        .receive(send(Position::Middle, 101, 256).with_ack_request())
        .unwrap();
    bench.receive(send(Position::Middle, 102, 256)).unwrap();
    assert_eq!(bench.transmit(), [ack(102)], "all packets received");
}

#[test]
fn the_msn_counts_completed_messages() {
    let mut bench = Bench::new();
    bench.post(1000);
    let msn = |bench: &mut Bench| {
        let msn = bench.responder.msn.get();
        bench.transmit();
        msn
    };
    bench
        .receive(send(Position::First, 100, 256).with_ack_request())
        .unwrap();
    assert_eq!(msn(&mut bench), 0);
    bench
        .receive(send(Position::Last, 101, 1).with_ack_request())
        .unwrap();
    assert_eq!(msn(&mut bench), 1);
    bench.receive(read(102, 0, 512)).unwrap();
    assert_eq!(msn(&mut bench), 2);
    let empty = write(Position::Only, 104, 0).with_reth(0, 0);
    bench.receive(empty.with_ack_request()).unwrap();
    assert_eq!(msn(&mut bench), 3);
}

#[test]
fn read_responses_are_segmented_at_the_mtu() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    bench.receive(read(103, 0, 256)).unwrap();
    assert_eq!(
        bench.transmit(),
        [
            data(Position::First, 100, 256),
            data(Position::Middle, 101, 256),
            data(Position::Last, 102, 88),
            data(Position::Only, 103, 256),
        ]
    );
}

#[test]
fn a_burst_stops_at_its_limit_and_continues_there() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    bench.post(1);
    bench
        .receive(send(Position::Only, 103, 1).with_ack_request())
        .unwrap();
    let one = BurstLimit {
        bytes: 1,
        packets: 9,
    };
    let mut psns = Vec::new();
    while bench.responder.has_work() {
        let sent = bench.transmit_up_to(one);
        assert!(!sent.is_empty());
        psns.extend(sent.iter().map(|packet| packet.psn));
    }
    assert_eq!(psns, [100, 101, 102, 103]);
    let none = BurstLimit { packets: 0, ..one };
    assert_eq!(bench.transmit_up_to(none), []);
}

#[test]
fn an_ack_does_not_overtake_data() {
    let mut bench = Bench::new();
    bench.post(1);
    bench.receive(read(100, 0, 512)).unwrap();
    bench
        .receive(send(Position::Only, 102, 1).with_ack_request())
        .unwrap();
    assert_eq!(
        bench.transmit(),
        [
            data(Position::First, 100, 256),
            data(Position::Last, 101, 256),
            ack(102),
        ]
    );
}

#[test]
fn data_acknowledges_earlier_ack_requests() {
    let mut bench = Bench::new();
    bench.post(1);
    bench
        .receive(send(Position::Only, 100, 1).with_ack_request())
        .unwrap();
    bench.receive(read(101, 0, 1)).unwrap();
    assert_eq!(bench.transmit(), [data(Position::Only, 101, 1)]);
}

// Loss.

#[test]
fn a_gap_is_reported_once_until_it_is_closed() {
    let mut bench = Bench::new();
    bench.post(1);
    let early = Err(DropReason::AheadOfSequence);
    for psn in [101, 102, 103] {
        assert_eq!(bench.receive(send(Position::Only, psn, 1)), early);
    }
    assert_eq!(bench.transmit(), [aeth_packet(100, SEQUENCE)]);
    assert_eq!(bench.receive(send(Position::Only, 104, 1)), early);
    assert_eq!(bench.transmit(), []);
    bench
        .receive(send(Position::Only, 100, 1).with_ack_request())
        .unwrap();
    assert_eq!(bench.transmit(), [ack(100)]);
    assert_eq!(bench.receive(send(Position::Only, 102, 1)), early);
    assert_eq!(bench.transmit(), [aeth_packet(101, SEQUENCE)], "a new gap");
    assert_eq!(bench.host_calls().len(), 2);
}

#[test]
fn a_sequence_nak_does_not_overtake_data() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 256)).unwrap();
    let early = bench.receive(send(Position::Only, 102, 1));
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    let sent = [data(Position::Only, 100, 256), aeth_packet(101, SEQUENCE)];
    assert_eq!(bench.transmit(), sent);
}

#[test]
fn the_nak_for_reordered_packets_names_the_missing_one() {
    let mut bench = Bench::new();
    bench.post(1);
    let early = bench.receive(send(Position::Only, 101, 1).with_ack_request());
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    assert_eq!(
        bench.transmit(),
        [aeth_packet(101, SEQUENCE)],
        "it acknowledges 100"
    );
}

#[test]
fn a_forged_early_request_does_not_suppress_acks() {
    let both = |psn: u32| [aeth_packet(psn + 1, SEQUENCE), ack(psn)];
    let early = Err(DropReason::AheadOfSequence);
    let forged = || send(Position::Only, 150, 1);
    let request = |psn: u32| send(Position::Only, psn, 1).with_ack_request();
    let mut bench = Bench::new();
    (0..4).for_each(|_| bench.post(1));
    assert_eq!(bench.receive(forged()), early);
    bench.receive(request(100)).unwrap();
    assert_eq!(bench.transmit(), both(100), "forged packet first");
    bench.receive(request(101)).unwrap();
    bench.transmit();
    bench.receive(request(102)).unwrap();
    assert_eq!(bench.receive(forged()), early);
    assert_eq!(bench.transmit(), both(102), "forged packet last");
    bench.receive(request(103)).unwrap();
    bench.transmit();
    assert_eq!(bench.receive(forged()), early);
    bench.receive(request(103)).unwrap();
    assert_eq!(bench.transmit(), both(103), "duplicate request");
}

#[test]
fn a_gap_that_closes_before_the_burst_is_not_reported() {
    let mut bench = Bench::new();
    bench.post(1);
    bench.post(1);
    let early = bench.receive(send(Position::Only, 101, 1));
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    bench.receive(send(Position::Only, 101, 1)).unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
}

// RNR.

#[test]
fn without_a_receive_an_rnr_nak_is_sent() {
    let mut bench = Bench::new();
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    let rnr_nak = aeth_packet(100, Syndrome::Rnr { timer: RNR_TIMER });
    assert_eq!(bench.transmit(), [rnr_nak]);
    assert_eq!(bench.host_calls(), []);
    let early = bench.receive(send(Position::Only, 101, 1));
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    assert_eq!(bench.transmit(), [], "later packets get no NAK");
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    assert_eq!(bench.transmit(), [rnr_nak]);
    bench.post(1);
    bench
        .receive(send(Position::Only, 100, 1).with_ack_request())
        .unwrap();
    assert_eq!(bench.transmit(), [ack(100)]);
    assert_eq!(bench.responder.take_stats().rnr_naks, 2);
}

#[test]
fn the_last_packet_of_a_write_waits_for_a_receive() {
    let mut bench = Bench::new();
    let first = write(Position::First, 100, 256).with_reth(0, 300);
    let last = write(Position::Last, 101, 44)
        .with_imm([0; 4])
        .with_ack_request();
    bench.receive(first).unwrap();
    bench.receive(last).unwrap();
    assert_eq!(
        bench.transmit(),
        [aeth_packet(101, Syndrome::Rnr { timer: RNR_TIMER })]
    );
    bench.post(0);
    bench.receive(last).unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
    let host_calls = bench.host_calls();
    assert_eq!(
        host_calls.last(),
        Some(&HostCall::Completed(0, WcStatus::Success, 300))
    );
    assert_eq!(host_calls[host_calls.len() - 2], HostCall::Written(256, 44));
}

#[test]
fn dropped_packets_are_reported_if_the_rnr_nak_was_not_sent() {
    let mut bench = Bench::new();
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    let early = bench.receive(send(Position::Only, 101, 1));
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    bench.post(1);
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    assert_eq!(bench.transmit(), [aeth_packet(101, SEQUENCE)]);
}

#[test]
fn an_unsent_read_response_is_the_next() {
    let mut bench = Bench::new();
    bench
        .receive(read(100, 0x1000, 700).with_ack_request())
        .unwrap();
    bench
        .receive(read(103, 0x2000, 10).with_ack_request())
        .unwrap();
    let one = BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    };
    let mut sent = Vec::new();
    while let [packet] = bench.transmit_up_to(one)[..] {
        bench.responder.unsend(1);
        assert!(bench.responder.has_work());
        assert_eq!(bench.transmit_up_to(one), [packet]);
        sent.push(packet);
    }
    let psns: Vec<u32> = sent.iter().map(|packet| packet.psn).collect();
    assert_eq!(psns, [100, 101, 102, 103], "no ACK");
}

#[test]
fn a_fault_rnr_nak_has_the_next_psn_without_a_response() {
    let mut bench = Bench::new();
    let rnr_nak = Syndrome::Rnr { timer: 12 };
    let (nak, delay) = bench.responder.fault_rnr_nak(0);
    assert_eq!(Pkt::of(&nak), aeth_packet(100, rnr_nak));
    assert_eq!(delay, Duration::from_micros(640));
    bench
        .receive(read(100, 0x1000, 700).with_ack_request())
        .unwrap();
    bench.transmit_up_to(BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    });
    bench.responder.unsend(1);
    let (nak, _) = bench.responder.fault_rnr_nak(0);
    assert_eq!(Pkt::of(&nak), aeth_packet(101, rnr_nak));
    assert_eq!(bench.responder.take_stats().rnr_naks, 2);
    assert_eq!(bench.transmit().len(), 2, "the responses continue");
}

#[test]
fn fault_rnr_naks_ask_for_longer_and_longer_delays() {
    let mut bench = Bench::new();
    let mut delay = |before| bench.responder.fault_rnr_nak(before).1;
    for before in 0..6 {
        assert_eq!(delay(before + 1), delay(before).saturating_mul(2));
    }
    for before in [6, 7, u8::MAX] {
        assert_eq!(delay(before), Duration::from_micros(40_960));
    }
}

/// Executes a SEND (100) and a READ of three packets (101 to 103), and finds the memory of the packet `absent` not
/// present. Returns what was sent before.
fn read_of_absent_memory(bench: &mut Bench, absent: u32) -> Vec<Pkt> {
    bench.post(8);
    let send = send(Position::Only, 100, 8).with_ack_request();
    bench.receive(send).unwrap();
    let read = read(101, 0x1000, 700).with_ack_request();
    bench.receive(read).unwrap();
    let before = bench.transmit_up_to(BurstLimit {
        bytes: u32::MAX,
        packets: absent - 101 + 1,
    });
    bench.responder.await_memory(1);
    before
}

#[test]
fn a_request_that_waits_for_memory_does_not_delay_earlier_acks() {
    let mut bench = Bench::new();
    let write = |psn| write(Position::Only, psn, 8).with_reth(0x1000, 8);
    bench.receive(write(100)).unwrap();
    assert_eq!(bench.transmit(), [], "no ACK was requested");
    bench.host.absent = true;
    let late = write(101).with_ack_request();
    assert_eq!(bench.deliver(late), Ok(Taken::Paused));
    assert_eq!(bench.transmit(), [ack(100)]);
    bench.host.absent = true;
    assert_eq!(bench.deliver(late), Ok(Taken::Paused));
    assert_eq!(bench.transmit(), [], "once");
    bench.receive(late).unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
}

#[test]
fn an_ack_in_place_of_an_unsent_nak_is_sent_once() {
    let mut bench = Bench::new();
    let first = send(Position::Only, 100, 8);
    bench.receive(first).unwrap();
    bench.post(8);
    bench.receive(first).unwrap();
    assert_eq!(bench.transmit(), [ack(100)], "not the RNR NAK");
    bench.host.absent = true;
    let late = write(Position::Only, 101, 8).with_reth(0x1000, 8);
    assert_eq!(bench.deliver(late), Ok(Taken::Paused));
    assert_eq!(bench.transmit(), [], "the wait needs no other ACK");
}

#[test]
fn a_read_that_waits_for_memory_does_not_delay_earlier_acks() {
    let mut bench = Bench::new();
    read_of_absent_memory(&mut bench, 101);
    assert!(bench.responder.has_work());
    assert_eq!(msns(&mut bench), [(100, 1)]);
    assert!(!bench.responder.has_work());
    assert_eq!(bench.transmit(), [], "once");
    bench.responder.memory_present();
    assert!(bench.responder.has_work());
    assert_eq!(psns(&bench.transmit()), [101, 102, 103]);
}

#[test]
fn a_read_that_waits_for_memory_is_repeated_up_to_there() {
    let mut bench = Bench::new();
    let sent = read_of_absent_memory(&mut bench, 103);
    assert_eq!(psns(&sent), [101, 102, 103]);
    assert!(!bench.responder.has_work());
    assert_eq!(bench.transmit(), [], "no ACK: the data serves as one");
    // The peer has not received the data.
    let again = read(101, 0x1000, 700).with_ack_request();
    bench.receive(again).unwrap();
    assert!(bench.responder.has_work());
    assert_eq!(psns(&bench.transmit()), [101, 102]);
    assert!(!bench.responder.has_work());
    bench.responder.memory_present();
    assert_eq!(psns(&bench.transmit()), [103]);
}

#[test]
fn requests_behind_a_read_that_waits_for_memory_are_executed() {
    let mut bench = Bench::new();
    read_of_absent_memory(&mut bench, 101);
    bench.transmit();
    bench.post(8);
    let send = send(Position::Only, 104, 8).with_ack_request();
    bench.receive(send).unwrap();
    assert_eq!(bench.responder.take_stats().receives, 2);
    assert_eq!(bench.transmit(), [], "its ACK follows the data");
    bench.responder.memory_present();
    assert_eq!(psns(&bench.transmit()), [101, 102, 103, 104]);
}

#[test]
fn data_that_waits_for_memory_is_not_lost() {
    let mut bench = Bench::new();
    read_of_absent_memory(&mut bench, 102);
    assert!(bench.responder.waits_for_memory());
    let again = read(101, 0x1000, 700).with_ack_request();
    bench.receive(again).unwrap();
    let mut loss = GsoLoss::default();
    assert!(!bench.responder.must_send_singly(&mut loss));
    assert!(
        !bench.responder.waits_for_memory(),
        "the packet before it is sent again"
    );
    assert_eq!(psns(&bench.transmit()), [101]);
    assert!(bench.responder.waits_for_memory());
    bench.responder.memory_present();
    bench.transmit();
    bench.receive(again).unwrap();
    assert!(bench.responder.must_send_singly(&mut loss), "this one is");
}

#[test]
fn the_first_read_that_waits_for_memory_is_preceded_by_no_ack() {
    let mut bench = Bench::new();
    let read = read(100, 0x1000, 8).with_ack_request();
    bench.receive(read).unwrap();
    bench.transmit();
    bench.responder.await_memory(1);
    assert_eq!(bench.transmit(), []);
}

#[test]
fn a_forced_ack_needs_no_ack_request() {
    let mut bench = Bench::new();
    bench.post(1000);
    bench.receive(send(Position::First, 100, 256)).unwrap();
    assert_eq!(bench.transmit(), []);
    bench.responder.force_ack();
    bench.receive(send(Position::Middle, 101, 256)).unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
    assert_eq!(bench.transmit(), []);
}

#[test]
fn a_forced_ack_does_not_replace_a_nak() {
    for syndrome in [
        Syndrome::Rnr { timer: RNR_TIMER },
        Syndrome::Nak(NakCode::InvalidRequest),
    ] {
        let mut bench = Bench::new();
        assert!(bench.responder.is_in_sync());
        let position = match syndrome {
            Syndrome::Rnr { .. } => Position::Only,
            _ => Position::Last,
        };
        bench.receive(send(position, 100, 1)).unwrap();
        assert!(!bench.responder.is_in_sync());
        bench.responder.force_ack();
        assert_eq!(bench.transmit(), [aeth_packet(100, syndrome)]);
    }
}
