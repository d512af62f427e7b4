// SPDX-License-Identifier: GPL-2.0

//! Duplicate requests.

use super::*;
use crate::segmentation::gso_loss::GsoLoss;

#[test]
fn a_duplicate_send_or_write_is_only_acknowledged() {
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
    assert_eq!(bench.transmit(), [ack(102)], "up to the newest request");
    bench.receive(write).unwrap();
    assert_eq!(bench.transmit(), [ack(102)]);
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_stats().duplicates, 2);
}

/// A peer may take an ACK with the PSN of a READ for its data.
#[test]
fn the_ack_of_a_duplicate_ends_before_the_next_response() {
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
    assert_eq!(bench.transmit(), [ack(105)], "one ACK for both");
}

#[test]
fn responses_of_the_previous_psn_cycle_do_not_limit_acks() {
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
        assert_eq!(bench.transmit(), [ack(psn)], "a duplicate");
    }
}

#[test]
fn a_forced_ack_never_has_the_psn_of_a_response() {
    let mut bench = Bench::new();
    bench.post(1);
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    bench.receive_reads([101, 102]);
    bench.transmit();
    bench.responder.force_ack();
    assert_eq!(bench.transmit(), [ack(100)]);
}

#[test]
fn a_duplicate_read_gets_its_response_again() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    let response = bench.transmit();
    bench.receive(read(100, 0, 600)).unwrap();
    assert_eq!(bench.transmit(), response);
}

#[test]
fn a_part_of_a_read_can_be_repeated() {
    for (psn, va, len, response) in [
        (101, 256, 344, vec![(256, 256), (512, 88)]),
        (102, 512, 88, vec![(512, 88)]),
        (100, 0, 256, vec![(0, 256)]),
        (101, 256, 256, vec![(256, 256)]),
    ] {
        let mut bench = Bench::new();
        bench.receive(read(100, 0, 600)).unwrap();
        bench.transmit();
        bench.receive(read(psn, va, len)).unwrap();
        assert_eq!(bench.reads(), response);
    }
}

#[test]
fn a_partial_response_has_first_and_last_packets() {
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
fn a_duplicate_read_of_other_memory_is_checked_and_executed_anew() {
    for (psn, va, len, response) in [
        (101, 255, 344, vec![(255, 256), (511, 88)]), // another address
        (101, 256, 345, vec![(256, 256), (512, 89)]), // longer
        (101, 256, 100, vec![(256, 100)]),            // ends within a packet
        (102, 0, 256, vec![(0, 256)]),                // below the start of the first READ
    ] {
        let mut bench = Bench::new();
        bench.receive(read(100, 0, 600)).unwrap();
        bench.transmit();
        let (expected, msn) = (bench.responder.expected_psn(), bench.responder.msn);
        bench.host_calls();
        bench.receive(read(psn, va, len)).unwrap();
        let checked = [HostCall::Checked(va, len, Access::REMOTE_READ)];
        assert_eq!(bench.host_calls(), checked);
        assert_eq!(bench.reads(), response);
        assert_eq!(bench.responder.expected_psn(), expected);
        assert_eq!(bench.responder.msn, msn, "it is not counted again");
        bench.receive(read(100, 0, 600)).unwrap();
        assert_eq!(
            bench.reads(),
            [(0, 256), (256, 256), (512, 88)],
            "the first READ"
        );
    }
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    bench.transmit();
    bench.receive(read(101, 256, 0)).unwrap();
    assert_eq!(bench.transmit(), [data(Position::Only, 101, 0)], "empty");
}

#[test]
fn a_duplicate_read_of_other_memory_without_access_is_dropped() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    bench.transmit();
    bench.host.access_fault = Some(AccessError::Key);
    let outcome = bench.receive(read(101, 0x9000, 100));
    assert_eq!(outcome, Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.state(), ResponderState::Ready);
    bench.host.access_fault = None;
    bench.receive(read(100, 0, 600)).unwrap();
    assert_eq!(
        bench.reads(),
        [(0, 256), (256, 256), (512, 88)],
        "the first READ is kept"
    );
}

#[test]
fn a_read_does_not_change_while_its_first_response_is_sent() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 600)).unwrap();
    let outcome = bench.receive(read(101, 0x9000, 100));
    assert_eq!(outcome, Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.reads(), [(0, 256), (256, 256), (512, 88)]);
}

#[test]
fn a_read_that_does_not_fit_the_psns_of_the_first_gets_no_response() {
    for (psn, va, len) in [
        (101, 0, 600), // all data at the wrong PSN
        (102, 0, 257), // too long
        (99, 0, 256),  // unknown PSN
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
fn a_read_is_dropped_after_enough_later_ones() {
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
fn a_repeated_response_precedes_later_ones() {
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
fn a_repeated_response_makes_room_for_a_new_read() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100, 102]);
    assert_eq!(
        bench.transmit(),
        [data(Position::Only, 102, 1)],
        "the peer has received the repeated response"
    );
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.error(), None);
}

#[test]
fn dropping_one_repeated_response_keeps_the_others() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100, 101, 102]);
    let only = |psn| data(Position::Only, psn, 1);
    assert_eq!(bench.transmit(), [only(101), only(102)]);
}

#[test]
fn a_repeated_response_without_memory_is_cancelled() {
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
        "other responses are not affected"
    );
    bench.receive_reads([104]);
    assert_eq!(bench.transmit(), [data(Position::Only, 104, 1)]);
}

#[test]
fn a_cancelled_repeated_response_is_not_acknowledged() {
    let mut bench = Bench::new();
    bench.receive_reads([100]);
    bench.transmit();
    bench.receive_reads([100]);
    bench.transmit();
    bench.responder.abort_read(1, AccessError::Key);
    assert_eq!(bench.transmit(), [], "an ACK might be taken for the data");
    bench.post(1);
    bench
        .receive(send(Position::Only, 101, 1).with_ack_request())
        .unwrap();
    assert_eq!(bench.transmit(), [ack(101)]);
}

#[test]
fn no_read_is_repeated_after_the_right_is_revoked() {
    let mut bench = Bench::new();
    bench.receive_reads([100, 101]);
    bench.transmit();
    bench.receive_reads([100]);
    bench.responder.set_access(Access::REMOTE_WRITE);
    assert_eq!(
        bench.transmit(),
        [],
        "the pending repeated response is cancelled"
    );
    let again = bench.receive(read(101, 101, 1));
    assert_eq!(again, Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.state(), ResponderState::Ready);
}

#[test]
fn new_storage_keeps_the_newest_reads() {
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

#[test]
fn a_repeated_read_is_answered_by_single_packets() {
    let mut bench = Bench::new();
    let mut loss = GsoLoss::default();
    let mut singly = |bench: &mut Bench| {
        loss.on_sent(700);
        bench.responder.must_send_singly(&mut loss)
    };
    bench.receive(read(100, 0, 600)).unwrap();
    assert!(!singly(&mut bench));
    bench.transmit();
    bench.receive(read(100, 0, 600)).unwrap();
    bench.receive(read(100, 0, 600)).unwrap();
    assert!(singly(&mut bench));
    bench.transmit();
    bench.receive(read(103, 0, 600)).unwrap();
    assert!(!singly(&mut bench), "one loss proves nothing");
    bench.transmit();
    bench.receive(read(103, 0, 600)).unwrap();
    assert!(singly(&mut bench));
    bench.transmit();
    bench.receive(read(106, 0, 600)).unwrap();
    assert!(singly(&mut bench), "the route loses super-packets");
}

#[test]
fn a_peer_with_many_reads_has_the_first_response() {
    let mut bench = Bench::new();
    let mut loss = GsoLoss::default();
    for psn in (100..).step_by(3).take(20) {
        bench.receive(read(psn, 0, 600)).unwrap();
        bench.transmit();
        loss.on_sent(700);
        assert!(!bench.responder.must_send_singly(&mut loss));
    }
    for psn in [157, 160, 163, 166] {
        bench.receive(read(psn, 0, 600)).unwrap();
        bench.transmit();
        bench.receive(read(psn, 0, 600)).unwrap();
        loss.on_sent(700);
        assert!(bench.responder.must_send_singly(&mut loss));
        bench.transmit();
    }
    bench.receive(read(169, 0, 600)).unwrap();
    assert!(!bench.responder.must_send_singly(&mut loss));
}
