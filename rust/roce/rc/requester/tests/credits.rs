// SPDX-License-Identifier: GPL-2.0

//! End-to-end credits: which requests wait for a receive of the peer.

use super::*;

const WRITE: SendOp = SendOp::Write {
    remote: at(0x2000),
    imm: None,
};
const WRITE_IMM: SendOp = SendOp::Write {
    remote: at(0x2000),
    imm: Some(Imm([0; 4])),
};

/// An ACK with this credit code.
fn credited(psn: u32, credits: u8) -> Pkt {
    aeth_packet(psn, Syndrome::Ack { credits })
}

/// A requester with 64 slots. The peer has acknowledged one message, PSN 100, with this credit code.
fn with_credits(code: u8) -> Bench {
    let mut bench = Bench::of(64, |config| config.ack_timeout = 14);
    bench.post(SEND, 1);
    assert_eq!(psns(&bench.transmit()), [100]);
    bench.receive(credited(100, code)).unwrap();
    assert_eq!(bench.completions().len(), 1);
    bench
}

impl Bench {
    /// Posts requests without payload.
    fn post_all(&mut self, ops: &[SendOp]) {
        for op in ops {
            self.post(*op, 0);
        }
    }

    /// The PSNs of all packets that can be sent.
    fn sendable(&mut self) -> Vec<u32> {
        psns(&self.transmit())
    }
}

#[test]
fn one_message_beyond_the_credits_goes_and_requests_an_ack() {
    for (code, sent) in [(0, 1), (1, 2), (2, 3), (5, 7), (6, 9), (0x1f, 20)] {
        let mut bench = with_credits(code);
        bench.post_all(&[SEND; 20]);
        let packets = bench.transmit();
        assert_eq!(packets.len(), sent, "credit code {code}");
        assert!(packets.last().unwrap().ack_request);
        assert!(!bench.requester.can_send());
    }
}

#[test]
fn before_the_first_ack_nothing_waits() {
    let mut bench = Bench::of(64, |_| {});
    bench.post_all(&[SEND; 20]);
    assert_eq!(bench.sendable().len(), 20);
}

#[test]
fn only_messages_that_use_a_receive_wait() {
    let mut bench = with_credits(1);
    bench.post_all(&[
        WRITE, READ, WRITE, SEND, WRITE, WRITE_IMM, READ, WRITE, SEND, WRITE,
    ]);
    let sent: Vec<_> = (101..=108).collect();
    assert_eq!(bench.sendable(), sent, "two of them use a receive");
    bench.receive_data(102, 0).unwrap();
    assert_eq!(
        bench.sendable(),
        [],
        "the last SEND waits, and all behind it"
    );
    bench.receive(credited(106, 1)).unwrap();
    assert_eq!(bench.sendable(), [109, 110]);
}

#[test]
fn credits_count_from_the_acknowledged_packet() {
    let mut bench = with_credits(3);
    bench.post_all(&[SEND; 20]);
    assert_eq!(bench.sendable(), [101, 102, 103, 104]);
    bench.receive(credited(102, 1)).unwrap();
    assert_eq!(
        bench.sendable(),
        [],
        "one receive and one message more: 103 and 104"
    );
    bench.receive(credited(103, 2)).unwrap();
    assert_eq!(
        bench.sendable(),
        [105, 106],
        "two receives after 103, and one message more"
    );
    bench.receive(credited(106, 0)).unwrap();
    assert_eq!(bench.sendable(), [107]);
}

#[test]
fn all_packets_of_a_message_go_together() {
    let mut bench = with_credits(0);
    bench.post(SEND, 600);
    bench.post(SEND, 600);
    let packets = bench.transmit();
    assert_eq!(psns(&packets), [101, 102, 103]);
    assert!(packets[2].ack_request);
    bench.receive(credited(101, 0)).unwrap();
    assert_eq!(bench.sendable(), []);
    bench.receive(credited(103, 0)).unwrap();
    assert_eq!(bench.sendable(), [104, 105, 106]);
}

#[test]
fn an_unsolicited_ack_with_more_credits_admits_more() {
    let mut bench = with_credits(0);
    bench.post_all(&[SEND; 5]);
    assert_eq!(bench.sendable(), [101]);
    bench.receive(credited(100, 2)).unwrap();
    assert_eq!(bench.sendable(), [102, 103]);
    let repeated = bench.receive(credited(100, 2));
    assert_eq!(repeated, Err(DropReason::StaleResponse));
    let fewer = bench.receive(credited(100, 1));
    assert_eq!(fewer, Err(DropReason::StaleResponse));
    assert_eq!(bench.sendable(), []);
    bench.receive(credited(100, 0x1f)).unwrap();
    assert_eq!(
        bench.sendable(),
        [104, 105],
        "credits are not counted any more"
    );
}

#[test]
fn a_peer_without_credits_is_not_affected_by_stale_acks() {
    let mut bench = with_credits(0x1f);
    let stale = bench.receive(credited(100, 0));
    assert_eq!(stale, Err(DropReason::StaleResponse));
    bench.post_all(&[SEND; 5]);
    assert_eq!(bench.sendable().len(), 5);
}

#[test]
fn a_response_carries_credits_too() {
    let mut bench = with_credits(0);
    bench.post_all(&[READ, SEND, SEND, SEND, SEND]);
    assert_eq!(bench.sendable(), [101, 102]);
    let data = Pkt::new(Operation::ReadResponse, Position::Only, 101, 0);
    let syndrome = Some(Syndrome::Ack { credits: 2 });
    bench.receive(Pkt { syndrome, ..data }).unwrap();
    assert_eq!(bench.sendable(), [103, 104]);
}

#[test]
fn what_was_lost_is_sent_again_within_the_credits() {
    let mut bench = with_credits(2);
    bench.post_all(&[SEND; 6]);
    assert_eq!(bench.sendable(), [101, 102, 103]);
    bench.receive(aeth_packet(102, SEQUENCE)).unwrap();
    assert_eq!(bench.sendable(), [102, 103], "101 has used one receive");
    bench.receive(aeth_packet(104, SEQUENCE)).unwrap_err();
    bench.receive(credited(103, 0)).unwrap();
    assert_eq!(bench.sendable(), [104]);
    assert!(bench.wait(70_000), "104 is lost");
    assert_eq!(bench.sendable(), [104]);
    for psn in 104..107 {
        bench.receive(credited(psn, 0)).unwrap();
        bench.transmit();
    }
    assert_eq!(bench.completions().len(), 6);
}

#[test]
fn after_an_rnr_nak_one_message_goes() {
    let mut bench = with_credits(4);
    bench.post_all(&[SEND; 5]);
    assert_eq!(bench.sendable().len(), 5);
    bench
        .receive(aeth_packet(102, Syndrome::Rnr { timer: 1 }))
        .unwrap();
    bench.wait(11);
    assert_eq!(bench.sendable(), [102]);
    bench.receive(credited(102, 4)).unwrap();
    assert_eq!(bench.sendable(), [103, 104, 105]);
}

#[test]
fn a_nak_may_acknowledge_more_than_the_credits() {
    let mut bench = with_credits(0x1f);
    bench.post_all(&[SEND; 8]);
    assert_eq!(bench.sendable().len(), 8);
    bench.receive(credited(101, 1)).unwrap();
    bench.receive(aeth_packet(106, SEQUENCE)).unwrap();
    assert_eq!(bench.sendable(), [106], "the oldest message always goes");
}

#[test]
fn unrequested_messages_request_their_ack_when_credits_appear() {
    let mut bench = with_credits(0x1f);
    for _ in 0..4 {
        let wr = request(SEND, 0);
        bench
            .requester
            .post(SendWr {
                signaled: false,
                ..wr
            })
            .unwrap();
    }
    let now = bench.now;
    let burst = bench.requester.burst(now, ALL).sparse_ack_requests(true);
    assert!(burst
        .map(|desc| Pkt::of(&desc))
        .all(|packet| !packet.ack_request));
    bench.receive(credited(101, 1)).unwrap();
    assert_eq!(
        bench.transmit(),
        [send_pkt(Position::Only, 101, 0).with_ack_request()],
        "a probe"
    );
}

#[test]
fn few_credits_make_each_message_request_an_ack() {
    for (code, requests) in [(6, true), (0x1e, false)] {
        let mut bench = with_credits(code);
        for _ in 0..3 {
            let wr = request(SEND, 0);
            bench
                .requester
                .post(SendWr {
                    signaled: false,
                    ..wr
                })
                .unwrap();
        }
        let now = bench.now;
        let burst = bench.requester.burst(now, ALL).sparse_ack_requests(true);
        let sent: Vec<_> = burst.map(|desc| Pkt::of(&desc)).collect();
        assert_eq!(sent.len(), 3);
        assert!(
            sent.iter().all(|packet| packet.ack_request == requests),
            "{code}"
        );
    }
}

#[test]
fn a_new_connection_has_no_credits_yet() {
    let mut bench = with_credits(0);
    bench.requester.reset();
    let other = Bench::of(64, |_| {});
    bench.requester = other.requester;
    bench.post_all(&[SEND; 5]);
    assert_eq!(bench.sendable().len(), 5);
}
