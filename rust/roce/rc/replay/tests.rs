// SPDX-License-Identifier: GPL-2.0

//! Replay buffer of three entries: adding, sending, repeating and dropping.

use super::*;
use crate::rc::testing::at;

fn replay() -> Replay<[ReplayEntry; 3]> {
    Replay::new([ReplayEntry::EMPTY; 3])
}

fn entry(first: u32, packets: u32) -> ReplayEntry {
    let first = Psn::new(first);
    ReplayEntry::for_read(first, packets, (at(0), Srqn::new(0)), packets, Msn::new(0))
}

/// Sends all pending packets and returns their PSNs.
fn send_all(replay: &mut Replay<[ReplayEntry; 3]>) -> [Option<u32>; 8] {
    let mut sent = [None; 8];
    for place in &mut sent {
        *place = replay
            .pending()
            .map(|entry| entry.first.add(entry.next).get());
        replay.sent(1);
    }
    sent
}

fn psns<const N: usize>(psns: [u32; N]) -> [Option<u32>; 8] {
    core::array::from_fn(|place| psns.get(place).copied())
}

#[test]
fn responses_are_sent_in_order_and_once() {
    let mut replay = replay();
    assert!(replay.pending().is_none());
    for (first, packets) in [(10, 2), (12, 1), (13, 3)] {
        replay.push(entry(first, packets)).unwrap();
    }
    assert_eq!(send_all(&mut replay), psns([10, 11, 12, 13, 14, 15]));
    assert!(replay.pending().is_none());
}

#[test]
fn only_finished_responses_make_room() {
    let mut replay = replay();
    for first in [10, 12, 14] {
        replay.push(entry(first, 2)).unwrap();
    }
    replay.sent(1);
    assert_eq!(replay.push(entry(16, 2)), Err(Full), "half sent");
    replay.sent(1);
    replay.push(entry(16, 2)).unwrap();
    assert!(replay.find(Psn::new(11)).is_none());
    assert_eq!(send_all(&mut replay), psns([12, 13, 14, 15, 16, 17]));
}

#[test]
fn an_unsent_response_makes_no_room() {
    let mut replay = replay();
    for first in [10, 12, 14] {
        replay.push(entry(first, 2)).unwrap();
    }
    replay.sent(2);
    replay.unsend(Psn::new(11));
    assert_eq!(replay.push(entry(16, 2)), Err(Full), "half sent");
    assert_eq!(send_all(&mut replay), psns([11, 12, 13, 14, 15]));
    replay.repeat(Psn::new(10), 0, 2);
    replay.sent(2);
    replay.unsend(Psn::new(10));
    replay
        .push(entry(16, 2))
        .expect("only a repeated response is unfinished");
}

#[test]
fn a_partial_response_precedes_later_ones() {
    let mut replay = replay();
    replay.push(entry(10, 4)).unwrap();
    replay.push(entry(14, 2)).unwrap();
    (0..5).for_each(|_| replay.sent(1));
    replay.repeat(Psn::new(12), 2, 3);
    assert_eq!(send_all(&mut replay), psns([12, 15]));
}

#[test]
fn a_response_in_progress_restarts() {
    let mut replay = replay();
    replay.push(entry(10, 4)).unwrap();
    (0..3).for_each(|_| replay.sent(1));
    replay.repeat(Psn::new(11), 1, 4);
    assert_eq!(send_all(&mut replay), psns([11, 12, 13]));
    replay.push(entry(14, 1)).unwrap();
    replay.push(entry(15, 1)).unwrap();
    replay
        .push(entry(16, 1))
        .expect("the first response is finished");
}

#[test]
fn a_first_response_is_sent_to_its_end() {
    let mut replay = replay();
    replay.push(entry(10, 4)).unwrap();
    replay.sent(1);
    replay.repeat(Psn::new(10), 0, 1);
    assert_eq!(send_all(&mut replay), psns([10, 11, 12, 13]));
    replay.repeat(Psn::new(10), 0, 1);
    assert_eq!(send_all(&mut replay), psns([10]));
}

#[test]
fn a_pending_response_is_not_restarted() {
    let mut replay = replay();
    replay.push(entry(10, 2)).unwrap();
    send_all(&mut replay);
    replay.repeat(Psn::new(10), 0, 2);
    replay.repeat(Psn::new(10), 0, 2);
    assert_eq!(replay.pending().map(|entry| entry.start), Some(0));
    replay.sent(1);
    replay.repeat(Psn::new(11), 1, 2);
    assert_eq!(replay.pending().map(|entry| entry.start), Some(0));
    assert_eq!(send_all(&mut replay), psns([11]));
}

#[test]
fn an_old_entry_is_dropped_before_its_psns_are_reused() {
    let half = MAX_PSNS;
    let mut replay = replay();
    replay.push(entry(10, 1)).unwrap();
    send_all(&mut replay);
    replay.repeat(Psn::new(10), 0, 1);
    replay.push(entry(11, half - 1)).unwrap();
    assert!(replay.find(Psn::new(10)).is_some(), "half of the PSN space");
    replay.push(entry(10 + half, 2)).unwrap();
    assert!(replay.find(Psn::new(10)).is_none(), "more than half");
    assert_eq!(
        replay.pending().map(|entry| entry.first),
        Some(Psn::new(11))
    );
    assert_eq!(
        replay.push(entry(12 + half, half - 2)),
        Err(Full),
        "the oldest response is unfinished"
    );
    replay.push(entry(12 + half, half - 3)).unwrap();
}

#[test]
fn the_end_of_a_long_response_can_be_repeated_while_psns_remain() {
    let half = MAX_PSNS;
    let mut replay = replay();
    replay.push(entry(10, half)).unwrap();
    replay.sent(half);
    let end = 10 + half;
    replay.expire(Psn::new(end + half - 1));
    let last = Psn::new(end - 1);
    assert!(replay.find(last).is_some());
    replay.expire(Psn::new(end + half));
    assert!(replay.find(last).is_none(), "the peer has it");
}

#[test]
fn indices_wrap_around_the_storage() {
    let mut replay = replay();
    for round in 0..10 {
        replay.push(entry(10 + round, 1)).unwrap();
        assert_eq!(send_all(&mut replay), psns([10 + round]));
        for kept in 10 + round.saturating_sub(2)..=10 + round {
            let found = replay.find(Psn::new(kept)).map(|entry| entry.first);
            assert_eq!(found, Some(Psn::new(kept)));
        }
        assert!(replay.find(Psn::new(7 + round)).is_none());
        assert!(replay.find(Psn::new(11 + round)).is_none(), "after its end");
    }
}

#[test]
fn nothing_is_kept_without_storage() {
    let mut replay = Replay::new([]);
    assert_eq!(replay.push(entry(10, 1)), Err(Full));
    assert!(replay.pending().is_none());
    assert!(replay.find(Psn::new(10)).is_none());
}
