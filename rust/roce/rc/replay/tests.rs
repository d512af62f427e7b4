// SPDX-License-Identifier: GPL-2.0

//! Answers as they are kept, given and forgotten, in a storage of three.

use super::*;
use crate::rc::testing::at;

fn replay() -> Replay<[ReplayEntry; 3]> {
    Replay::new([ReplayEntry::EMPTY; 3])
}

fn answer(first: u32, packets: u32) -> ReplayEntry {
    let first = Psn::new(first);
    ReplayEntry::for_read(first, packets, at(0), packets, Msn::new(0))
}

/// Sends all that is pending and returns the PSNs.
fn send_all(replay: &mut Replay<[ReplayEntry; 3]>) -> [Option<u32>; 8] {
    let mut sent = [None; 8];
    for place in &mut sent {
        *place = replay
            .pending()
            .map(|answer| answer.first.add(answer.next).get());
        replay.sent(1);
    }
    sent
}

fn psns<const N: usize>(psns: [u32; N]) -> [Option<u32>; 8] {
    core::array::from_fn(|place| psns.get(place).copied())
}

#[test]
fn answers_are_sent_in_order_and_once() {
    let mut replay = replay();
    assert!(replay.pending().is_none());
    for (first, packets) in [(10, 2), (12, 1), (13, 3)] {
        replay.push(answer(first, packets)).unwrap();
    }
    assert_eq!(send_all(&mut replay), psns([10, 11, 12, 13, 14, 15]));
    assert!(replay.pending().is_none());
}

#[test]
fn only_what_was_answered_to_the_end_makes_room() {
    let mut replay = replay();
    for first in [10, 12, 14] {
        replay.push(answer(first, 2)).unwrap();
    }
    replay.sent(1);
    assert_eq!(replay.push(answer(16, 2)), Err(Full), "half of it");
    replay.sent(1);
    replay.push(answer(16, 2)).unwrap();
    assert!(replay.find(Psn::new(11)).is_none());
    assert_eq!(send_all(&mut replay), psns([12, 13, 14, 15, 16, 17]));
}

#[test]
fn what_was_not_sent_after_all_makes_no_room() {
    let mut replay = replay();
    for first in [10, 12, 14] {
        replay.push(answer(first, 2)).unwrap();
    }
    replay.sent(2);
    replay.unsend(Psn::new(11));
    assert_eq!(replay.push(answer(16, 2)), Err(Full), "half of it");
    assert_eq!(send_all(&mut replay), psns([11, 12, 13, 14, 15]));
    replay.repeat(Psn::new(10), 0, 2);
    replay.sent(2);
    replay.unsend(Psn::new(10));
    replay.push(answer(16, 2)).expect("it was answered before");
}

#[test]
fn a_part_is_repeated_before_later_answers_go_on() {
    let mut replay = replay();
    replay.push(answer(10, 4)).unwrap();
    replay.push(answer(14, 2)).unwrap();
    (0..5).for_each(|_| replay.sent(1));
    replay.repeat(Psn::new(12), 2, 3);
    assert_eq!(send_all(&mut replay), psns([12, 15]));
}

#[test]
fn an_answer_under_way_starts_over() {
    let mut replay = replay();
    replay.push(answer(10, 4)).unwrap();
    (0..3).for_each(|_| replay.sent(1));
    replay.repeat(Psn::new(11), 1, 4);
    assert_eq!(send_all(&mut replay), psns([11, 12, 13]));
    replay.push(answer(14, 1)).unwrap();
    replay.push(answer(15, 1)).unwrap();
    replay.push(answer(16, 1)).expect("the first was answered");
}

#[test]
fn an_answer_that_is_new_goes_on_to_its_end() {
    let mut replay = replay();
    replay.push(answer(10, 4)).unwrap();
    replay.sent(1);
    replay.repeat(Psn::new(10), 0, 1);
    assert_eq!(send_all(&mut replay), psns([10, 11, 12, 13]));
    replay.repeat(Psn::new(10), 0, 1);
    assert_eq!(send_all(&mut replay), psns([10]));
}

#[test]
fn what_is_about_to_be_sent_is_not_started_over() {
    let mut replay = replay();
    replay.push(answer(10, 2)).unwrap();
    send_all(&mut replay);
    replay.repeat(Psn::new(10), 0, 2);
    replay.repeat(Psn::new(10), 0, 2);
    assert_eq!(replay.pending().map(|answer| answer.start), Some(0));
    replay.sent(1);
    replay.repeat(Psn::new(11), 1, 2);
    assert_eq!(replay.pending().map(|answer| answer.start), Some(0));
    assert_eq!(send_all(&mut replay), psns([11]));
}

#[test]
fn an_old_answer_is_forgotten_before_its_psns_come_round() {
    let half = MAX_PSNS;
    let mut replay = replay();
    replay.push(answer(10, 1)).unwrap();
    send_all(&mut replay);
    replay.repeat(Psn::new(10), 0, 1);
    replay.push(answer(11, half - 1)).unwrap();
    assert!(replay.find(Psn::new(10)).is_some(), "half of the circle");
    replay.push(answer(10 + half, 2)).unwrap();
    assert!(replay.find(Psn::new(10)).is_none(), "more");
    assert_eq!(
        replay.pending().map(|answer| answer.first),
        Some(Psn::new(11))
    );
    assert_eq!(
        replay.push(answer(12 + half, half - 2)),
        Err(Full),
        "the end of one that is not answered yet"
    );
    replay.push(answer(12 + half, half - 3)).unwrap();
}

#[test]
fn the_end_of_a_long_answer_can_be_asked_for_beside_all_that_may_follow_it() {
    let half = MAX_PSNS;
    let mut replay = replay();
    replay.push(answer(10, half)).unwrap();
    replay.sent(half);
    let end = 10 + half;
    replay.expire(Psn::new(end + half - 1));
    let last = Psn::new(end - 1);
    assert!(replay.find(last).is_some());
    replay.expire(Psn::new(end + half));
    assert!(replay.find(last).is_none(), "the peer has it");
}

#[test]
fn places_wrap_around_the_storage() {
    let mut replay = replay();
    for round in 0..10 {
        replay.push(answer(10 + round, 1)).unwrap();
        assert_eq!(send_all(&mut replay), psns([10 + round]));
        for kept in 10 + round.saturating_sub(2)..=10 + round {
            let found = replay.find(Psn::new(kept)).map(|answer| answer.first);
            assert_eq!(found, Some(Psn::new(kept)));
        }
        assert!(replay.find(Psn::new(7 + round)).is_none());
        assert!(replay.find(Psn::new(11 + round)).is_none(), "its end");
    }
}

#[test]
fn nothing_is_kept_without_room() {
    let mut replay = Replay::new([]);
    assert_eq!(replay.push(answer(10, 1)), Err(Full));
    assert!(replay.pending().is_none());
    assert!(replay.find(Psn::new(10)).is_none());
}
