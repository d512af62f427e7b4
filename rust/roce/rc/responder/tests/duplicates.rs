// SPDX-License-Identifier: GPL-2.0

//! Requests that come again.

use super::*;

#[test]
fn a_send_or_write_that_comes_again_is_acknowledged_and_nothing_else() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.post(1);
    }
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    let write = write(Position::Only, 101, 1).with_reth(0, 1);
    bench.receive(write).unwrap();
    bench.receive(send(Position::Only, 102, 1)).unwrap();
    bench.host_calls();
    assert_eq!(bench.transmit(), []);
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    assert_eq!(bench.transmit(), [ack(102)], "the newest");
    bench.receive(write).unwrap();
    assert_eq!(bench.transmit(), [ack(102)]);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

/// A peer may take an acknowledgement with the PSN of a READ for its data.
#[test]
fn what_comes_again_is_acknowledged_to_before_the_next_answer() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.post(1));
    for psn in [100, 101, 105] {
        bench.receive(send(Position::Only, psn, 1)).unwrap();
        if psn == 101 {
            bench.receive(read(102, 0, 600)).unwrap();
        }
    }
    bench.transmit();
    for (psn, acknowledged) in [(100, 101), (101, 101), (105, 105)] {
        bench.receive(send(Position::Only, psn, 1)).unwrap();
        assert_eq!(bench.transmit(), [ack(acknowledged)]);
    }
    for psn in [105, 100] {
        bench.receive(send(Position::Only, psn, 1)).unwrap();
    }
    assert_eq!(bench.transmit(), [ack(105)], "both at once");
}

#[test]
fn answers_of_the_last_round_of_numbers_hold_nothing_back() {
    let mut bench = Bench::new();
    bench.receive_reads([100]);
    bench.transmit();
    bench.receive(read(101, 0, 600)).unwrap();
    bench.transmit();
    let half = 1 << 23;
    for psn in [99 + half, 103 + half, 0xff_ffff, 100, 101, 104] {
        bench.responder.expected = Psn::new(psn);
        bench.post(1);
        bench
            .receive(send(Position::Only, psn, 1).with_ack_request())
            .unwrap();
        assert_eq!(bench.transmit(), [ack(psn)]);
        bench
            .receive(send(Position::Only, psn, 1).with_ack_request())
            .unwrap();
        assert_eq!(bench.transmit(), [ack(psn)], "again");
    }
}

#[test]
fn nothing_is_confirmed_by_the_number_of_an_answer() {
    let mut bench = Bench::new();
    bench.post(1);
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    bench.receive_reads([101, 102]);
    bench.transmit();
    bench.responder.force_ack();
    assert_eq!(bench.transmit(), [ack(100)]);
}

#[test]
fn a_read_that_comes_again_is_answered_again() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    let answer = bench.transmit();
    bench.receive(read(100, 0, 600)).unwrap();
    assert_eq!(bench.transmit(), answer);
}

#[test]
fn a_part_of_a_read_can_be_asked_for() {
    for (psn, va, len, answer) in [
        (101, 256, 344, vec![(256, 256), (512, 88)]),
        (102, 512, 88, vec![(512, 88)]),
        (100, 0, 256, vec![(0, 256)]),
        (101, 256, 256, vec![(256, 256)]),
    ] {
        let mut bench = Bench::new();
        bench.receive(read(100, 0, 600)).unwrap();
        bench.transmit();
        bench.receive(read(psn, va, len)).unwrap();
        assert_eq!(bench.reads(), answer);
    }
}

#[test]
fn the_answer_to_a_part_starts_and_ends_like_any_other() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 4 * 256)).unwrap();
    bench.transmit();
    bench.receive(read(101, 256, 2 * 256)).unwrap();
    assert_eq!(
        bench.transmit(),
        [
            data(Position::First, 101, 256),
            data(Position::Last, 102, 256),
        ]
    );
}

#[test]
fn what_was_not_asked_for_before_is_not_given() {
    for (psn, va, len) in [
        (101, 255, 344), // another place
        (101, 256, 345), // longer
        (101, 256, 100), // ends within a packet
        (101, 256, 0),   // nothing
        (101, 0, 600),   // all of it at the wrong PSN
        (99, 0, 256),    // never heard of
    ] {
        let mut bench = Bench::new();
        bench.receive(read(100, 0, 600)).unwrap();
        bench.transmit();
        let outcome = bench.receive(read(psn, va, len));
        assert_eq!(
            outcome,
            Err(DropReason::UnknownDuplicate),
            "{psn} {va} {len}"
        );
        assert_eq!(bench.transmit(), []);
    }
}

#[test]
fn a_read_is_forgotten_when_enough_others_came() {
    let mut bench = Bench::new();
    for psn in [100, 101, 102] {
        bench.receive_reads([psn]);
        bench.transmit();
    }
    let forgotten = Err(DropReason::UnknownDuplicate);
    assert_eq!(bench.receive(read(100, 100, 1)), forgotten);
    bench.receive_reads([101, 102]);
    assert_eq!(bench.reads(), [(101, 1), (102, 1)]);
}

#[test]
fn an_answer_that_is_asked_for_again_starts_over_before_the_later_ones() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 1024)).unwrap();
    bench.receive(read(104, 0x1000, 256)).unwrap();
    let two = BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    };
    bench.transmit_up_to(two);
    bench.receive(read(101, 256, 768)).unwrap();
    let psns: Vec<_> = bench.transmit().iter().map(|packet| packet.psn).collect();
    assert_eq!(psns, [101, 102, 103, 104]);
}

#[test]
fn a_repeated_answer_does_not_stand_in_the_way_of_a_new_read() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100, 102]);
    assert_eq!(
        bench.transmit(),
        [data(Position::Only, 102, 1)],
        "the peer has what it asked for twice"
    );
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.error(), None);
}

#[test]
fn those_that_are_repeated_with_one_that_is_pushed_out_are_still_given() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100, 101, 102]);
    let only = |psn| data(Position::Only, psn, 1);
    assert_eq!(bench.transmit(), [only(101), only(102)]);
}

#[test]
fn what_can_be_read_no_more_is_not_repeated() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 768)).unwrap();
    bench.receive_reads([103]);
    bench.transmit();
    bench.receive(read(101, 256, 512)).unwrap();
    bench.receive_reads([103]);
    let one = BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    };
    assert_eq!(bench.transmit_up_to(one), [data(Position::First, 101, 256)]);
    bench.responder.abort_read(1, AccessError::Key);
    assert_eq!(bench.responder.take_event(), None);
    assert_eq!(bench.responder.state(), ResponderState::Ready);
    let later = data(Position::Only, 103, 1);
    assert_eq!(
        bench.transmit(),
        [later],
        "the others are not the worse for it"
    );
    bench.receive_reads([104]);
    assert_eq!(bench.transmit(), [data(Position::Only, 104, 1)]);
}

#[test]
fn a_repetition_that_fails_is_not_acknowledged() {
    let mut bench = Bench::new();
    bench.receive_reads([100]);
    bench.transmit();
    bench.receive_reads([100]);
    bench.transmit();
    bench.responder.abort_read(1, AccessError::Key);
    assert_eq!(bench.transmit(), [], "it might be taken for the data");
    bench.post(1);
    bench
        .receive(send(Position::Only, 101, 1).with_ack_request())
        .unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
}

#[test]
fn nothing_is_read_again_without_the_right_to_it() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100]);
    bench.responder.set_access(Access::REMOTE_WRITE);
    assert_eq!(bench.transmit(), [], "what was about to be");
    let again = bench.receive(read(101, 101, 1));
    assert_eq!(again, Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.state(), ResponderState::Ready);
}

#[test]
fn another_storage_keeps_the_newest_reads() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    let old = bench.responder.replace_storage(vec![ReplayEntry::EMPTY]);
    assert_eq!(old.len(), 2);
    let forgotten = Err(DropReason::UnknownDuplicate);
    assert_eq!(bench.receive(read(100, 100, 1)), forgotten);
    bench.receive_reads([101]);
    assert_eq!(bench.reads(), [(101, 1)]);
    bench.responder.replace_storage(vec![ReplayEntry::EMPTY; 3]);
    bench.receive_reads([102, 103, 101]);
    assert_eq!(bench.reads(), [(101, 1), (102, 1), (103, 1)]);
}
