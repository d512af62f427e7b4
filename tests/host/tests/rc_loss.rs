// SPDX-License-Identifier: GPL-2.0

//! Over any network, every request is executed exactly once, in order, with the right data.

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

/// Number of connections. `RC_SEEDS` in the environment replaces it; `RC_SEED` selects a single one
/// and prints its frames.
const SEEDS: u64 = 10_000;

#[test]
fn requests_are_executed_once_and_in_order() {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    if let Some(seed) = number("RC_SEED") {
        eprintln!("{:#?}", Scenario::new(seed).traced().run());
        return;
    }
    let seeds = number("RC_SEEDS").unwrap_or(SEEDS);
    let tally = run_all(seeds);
    eprintln!("{seeds} connections: {tally:#?}");
    // Every kind of recovery occurs often.
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
            let on_failure = PrintSeedOnPanic(seed);
            tally = tally.plus(Scenario::new(on_failure.0).run());
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker without failure"))
            .fold(Tally::default(), Tally::plus)
    })
}

/// Prints its seed when it is dropped by a panic.
struct PrintSeedOnPanic(u64);

impl Drop for PrintSeedOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("reproduce with RC_SEED={}", self.0);
        }
    }
}
