// SPDX-License-Identifier: GPL-2.0

//! Whatever the network does, everything is delivered exactly once, in order and unharmed.

use roce_tests::scenario::{
    Scenario,
    Tally, //
};
use std::{
    sync::atomic::{
        AtomicU64,
        Ordering, //
    },
    thread, //
};

/// Number of connections that are tried. `RC_SEEDS` in the environment replaces it; `RC_SEED`
/// names a single one, of which every frame is printed.
const SEEDS: u64 = 10_000;

#[test]
fn everything_arrives_once_in_order_and_unharmed() {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    if let Some(seed) = number("RC_SEED") {
        eprintln!("{:#?}", Scenario::new(seed).traced().run());
        return;
    }
    let seeds = number("RC_SEEDS").unwrap_or(SEEDS);
    let tally = run_all(seeds);
    eprintln!("{seeds} connections: {tally:#?}");
    // Every way of recovering was needed, and more than now and then.
    for count in [
        tally.timeouts,
        tally.sequence_naks,
        tally.implied_naks,
        tally.rnr_naks,
        tally.duplicates,
    ] {
        assert!(count > seeds / 10, "{count} of {seeds}");
    }
}

fn run_all(seeds: u64) -> Tally {
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return tally;
            }
            let on_failure = Report(seed);
            tally = tally.plus(Scenario::new(on_failure.0).run());
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker that found no fault"))
            .fold(Tally::default(), Tally::plus)
    })
}

/// Prints its number when it is dropped by a panic.
struct Report(u64);

impl Drop for Report {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("fails alone with RC_SEED={}", self.0);
        }
    }
}
