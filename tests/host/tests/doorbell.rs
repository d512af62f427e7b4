// SPDX-License-Identifier: GPL-2.0

//! When a process need not ring the doorbell (`rust/driver/queue/doorbell.rs`).

use doorbell_rs::{
    DoorbellSuppressor,
    Suppression,
    POLL_DELAY, //
};
use proptest::prelude::*;
use roce::time::{
    Duration,
    Instant, //
};

#[path = "../../../rust/driver/queue/doorbell.rs"]
mod doorbell_rs;

/// One queue, and the time.
struct Queue {
    suppressor: DoorbellSuppressor,
    now: Instant,
    received: u32,
}

impl Queue {
    fn new() -> Self {
        Self {
            suppressor: DoorbellSuppressor::new(),
            now: Instant::from_nanos(1_000_000_000),
            received: 0,
        }
    }

    /// A run, so long after the last one.
    fn run(&mut self, micros: u64, has_new: bool) -> Suppression {
        self.now = self.now.saturating_add(Duration::from_micros(micros));
        self.suppressor.end_run(self.now, has_new, self.received)
    }

    /// Rings the doorbell until the word is set, at most `most` times. Returns how often.
    fn stream(&mut self, most: u32) -> Option<u32> {
        (1..=most).find(|_| matches!(self.run(5, true), Suppression::Begin(_)))
    }
}

#[test]
fn a_stream_is_told_not_to_ring_and_an_idle_queue_forgets_it() {
    let mut queue = Queue::new();
    assert_eq!(
        queue.stream(100),
        Some(9),
        "one more than the gaps between them"
    );
    let until = queue.now.saturating_add(POLL_DELAY);
    assert_eq!(queue.run(400, true), Suppression::Until(until));
    // At the look, the next one is planned: the process rang.
    let Suppression::Until(next) = queue.run(600, false) else {
        panic!("taken back from a stream");
    };
    assert_eq!(next, queue.now.saturating_add(POLL_DELAY));
    // Nothing more comes.
    assert_eq!(queue.run(1_000, false), Suppression::End);
    assert_eq!(queue.run(5_000, false), Suppression::Off);
    assert_eq!(queue.stream(100), Some(9), "it has done nothing wrong");
}

#[test]
fn slow_doorbells_and_a_ping_pong_are_no_stream() {
    let mut queue = Queue::new();
    for _ in 0..1_000 {
        assert_eq!(queue.run(33, true), Suppression::Off);
    }
    for _ in 0..1_000 {
        queue.received = queue.received.wrapping_add(1);
        assert_eq!(queue.run(4, true), Suppression::Off);
    }
    // Runs for acknowledgements are no doorbells.
    for _ in 0..1_000 {
        assert_eq!(queue.run(1, false), Suppression::Off);
    }
}

#[test]
fn a_process_that_lets_requests_wait_must_ring_more_often() {
    let mut queue = Queue::new();
    let mut rung = Vec::new();
    for _ in 0..16 {
        rung.push(queue.stream(1 << 20).unwrap());
        // It posts, and neither rings nor polls: the look finds the request.
        assert_eq!(queue.run(1_000, true), Suppression::End);
    }
    assert!(rung
        .windows(2)
        .all(|pair| pair[1] >= 2 * pair[0] - 2 || pair[1] >= 1 << 16));
    assert_eq!(rung.last(), rung.iter().max());
    assert!(
        *rung.last().unwrap() <= (1 << 16) + 1,
        "there is a limit: {rung:?}"
    );
    queue.suppressor.reset();
    assert_eq!(queue.stream(100), Some(9), "RESET forgets it");
}

#[test]
fn doorbells_at_the_start_of_a_burst_do_not_excuse_its_tail() {
    let mut queue = Queue::new();
    assert_eq!(queue.stream(100), Some(9));
    // The first requests of the burst are as many as the provider holds back at most, so that it rings.
    assert!(matches!(queue.run(10, true), Suppression::Until(_)));
    assert_eq!(queue.run(990, true), Suppression::End, "the rest waited");
    assert_eq!(queue.stream(100), Some(17));
    // A stream that happens to have posted just before the look goes on, and is forgiven.
    assert!(matches!(queue.run(990, true), Suppression::Until(_)));
    assert!(matches!(queue.run(10, true), Suppression::Until(_)));
    assert_eq!(queue.run(1_000, false), Suppression::End);
    assert_eq!(queue.stream(100), Some(9));
}

proptest! {
    /// A look costs processor time that no process is charged for: looks are no more than runs for new requests.
    #[test]
    fn looks_are_no_more_than_doorbells(runs in prop::collection::vec((0_u64..30, any::<bool>()), 1..2_000)) {
        let mut queue = Queue::new();
        let (mut doorbells, mut looks) = (0, 0);
        let mut look_at = None;
        for (micros, has_new) in runs {
            let next = queue.now.saturating_add(Duration::from_micros(micros * 20));
            if let Some(at) = look_at.filter(|at: &Instant| !next.is_before(*at)) {
                queue.now = at;
                looks += 1;
                look_at = match queue.suppressor.end_run(at, false, 0) {
                    Suppression::Begin(at) | Suppression::Until(at) => Some(at),
                    Suppression::Off | Suppression::End => None,
                };
            }
            doorbells += u32::from(has_new);
            match queue.run(micros, has_new) {
                Suppression::Begin(at) | Suppression::Until(at) => look_at = Some(at),
                Suppression::End => look_at = None,
                Suppression::Off => prop_assert!(look_at.is_none()),
            }
            prop_assert!(looks <= doorbells + 1, "{looks} looks, {doorbells} doorbells");
        }
    }
}
