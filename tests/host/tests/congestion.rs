// SPDX-License-Identifier: GPL-2.0

//! Several QPs over one queue that marks packets: with DCQCN they share the link, keep the queue short and lose
//! nothing.

use roce::{
    congestion::{
        dcqcn::DcqcnConfig,
        pacer::Rate,
        Algorithm, //
    },
    time::Duration, //
};
use roce_tests::bottleneck::{
    Bottleneck,
    Queue,
    Sample,
    Totals, //
};

const MS: Duration = Duration::from_micros(1_000);

/// The rate that the ports report, and links of other rates on the way.
fn dcqcn() -> Algorithm {
    Algorithm::Dcqcn(DcqcnConfig::new(Rate::from_mbit_s(100_000)))
}

/// A queue for that rate which marks as switches do: it holds 2 ms, at least 1 MiB, and marks from 200 us on.
fn queue(mbit_s: u32, delay_us: u64) -> Queue {
    let rate = Rate::from_mbit_s(mbit_s);
    let bytes = |micros| rate.bytes_in(Duration::from_micros(micros)).max(16 << 10);
    Queue {
        rate,
        delay: Duration::from_micros(delay_us),
        limit_bytes: bytes(2_000).max(1 << 20),
        red: Some((bytes(200), bytes(1_000), 10)),
    }
}

/// The outcome of a run, from its middle on.
#[derive(Debug)]
#[expect(dead_code, reason = "all fields are printed")]
struct Outcome {
    /// Share of the link that payload had, in percent.
    used: u64,
    /// Fairness (Jain), in percent.
    fairness: u64,
    /// Mean time in the queue, in microseconds.
    mean_queue_us: u64,
    /// The worst, as sampled each millisecond.
    worst_queue_us: u64,
    /// Of both halves.
    totals: Totals,
    /// Packets dropped in the second half.
    dropped_in_second_half: u64,
}

/// Runs for a second.
fn run(queue: Queue, algorithm: Algorithm, flows: usize, seed: u64) -> Outcome {
    let starts: Vec<_> = (0..flows as u64)
        .map(|n| Duration::from_micros(500 * n))
        .collect();
    let mut net = Bottleneck::new(seed, queue, algorithm, &starts);
    let half = MS.saturating_mul(500);
    net.run(half, MS);
    let dropped = net.totals.dropped;
    let samples = net.run(half, MS);
    outcome(&queue, &samples, net.totals, net.totals.dropped - dropped)
}

fn outcome(queue: &Queue, samples: &[Sample], totals: Totals, dropped: u64) -> Outcome {
    let flows = samples[0].accepted.len();
    let by_flow: Vec<u64> = (0..flows)
        .map(|flow| samples.iter().map(|sample| sample.accepted[flow]).sum())
        .collect();
    let sum: u64 = by_flow.iter().sum();
    let squares: u128 = by_flow.iter().map(|bytes| u128::from(*bytes).pow(2)).sum();
    let micros = |bytes: u64| bytes * 1_000_000 / queue.rate.bytes_s();
    let queue_bytes = |sample: &Sample| sample.queue_bytes;
    let mean = samples.iter().map(queue_bytes).sum::<u64>() / samples.len() as u64;
    Outcome {
        used: sum * 100 / (queue.rate.bytes_s() / 2),
        fairness: (u128::from(sum).pow(2) * 100 / (squares.max(1) * flows as u128)) as u64,
        mean_queue_us: micros(mean),
        worst_queue_us: micros(samples.iter().map(queue_bytes).max().unwrap_or(0)),
        totals,
        dropped_in_second_half: dropped,
    }
}

/// Links of several rates, in Mbit/s.
const LINKS: [u32; 4] = [200, 1_000, 10_000, 40_000];

#[test]
fn qps_share_a_link_and_lose_nothing() {
    for mbit_s in LINKS {
        for flows in [2, 8] {
            for seed in 1..=2 {
                let outcome = run(queue(mbit_s, 10), dcqcn(), flows, seed);
                let what = format!("{flows} QPs over {mbit_s} Mbit/s, seed {seed}: {outcome:?}");
                assert!(outcome.used >= 80, "{what}");
                assert!(outcome.fairness >= 75, "{what}");
                assert_eq!(outcome.dropped_in_second_half, 0, "{what}");
            }
        }
    }
}

#[test]
fn the_queue_is_shorter_than_with_the_window_alone() {
    for mbit_s in LINKS {
        let [rate, window] =
            [dcqcn(), Algorithm::Window].map(|algorithm| run(queue(mbit_s, 10), algorithm, 8, 1));
        let what = format!("{mbit_s} Mbit/s: {rate:?}, window alone: {window:?}");
        eprintln!("8 QPs, {what}");
        assert!(2 * rate.mean_queue_us < window.mean_queue_us, "{what}");
        assert!(rate.totals.dropped <= window.totals.dropped, "{what}");
    }
}

#[test]
fn one_qp_uses_most_of_a_link() {
    for mbit_s in LINKS {
        let outcome = run(queue(mbit_s, 10), dcqcn(), 1, 1);
        eprintln!("1 QP, {mbit_s} Mbit/s: {outcome:?}");
        assert!(outcome.used >= 75, "{mbit_s} Mbit/s: {outcome:?}");
    }
}

#[test]
fn a_queue_that_does_not_mark_changes_nothing() {
    let deaf = Queue {
        red: None,
        ..queue(1_000, 10)
    };
    let [rate, window] = [dcqcn(), Algorithm::Window].map(|algorithm| run(deaf, algorithm, 4, 3));
    assert_eq!(
        (rate.used, rate.totals.dropped),
        (window.used, window.totals.dropped)
    );
    assert_eq!(rate.totals.cnps, 0);
}
