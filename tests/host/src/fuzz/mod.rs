// SPDX-License-Identifier: GPL-2.0

//! The bodies of the fuzz targets, and a driver that runs them for a bounded time.
//!
//! A body takes bytes and panics if the code under test breaks a promise. libFuzzer drives it with
//! coverage (`tests/fuzz`); [`run_bounded`] drives it with random and mutated input on any stable
//! compiler.

pub mod bytes;
pub mod packets;
pub mod parse;
pub mod requester;
pub mod responder;

use crate::random::Random;
use std::time::{
    Duration,
    Instant, //
};

/// Longest input that [`run_bounded`] makes, in bytes.
const MAX_INPUT: usize = 256;

/// How many inputs [`run_bounded`] tries when nobody says otherwise.
const ITERATIONS: u64 = 200_000;

/// Feeds `body` with input made from `corpus` by a generator that starts from `seed`.
///
/// It tries 200000 inputs, or, if the environment has `FUZZ_SECONDS`, goes on for so long.
/// `FUZZ_SEED` replaces `seed`. The name of a failing input is printed as a number that makes it
/// again.
pub fn run_bounded(seed: u64, corpus: &[Vec<u8>], body: impl Fn(&[u8])) {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = number("FUZZ_SEED").unwrap_or(seed);
    let end = number("FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut iteration = 0;
    loop {
        let go_on = match end {
            Some(end) => iteration % 1024 != 0 || Instant::now() < end,
            None => iteration < ITERATIONS,
        };
        if !go_on {
            return;
        }
        let on_failure = Report(seed.wrapping_add(iteration));
        let mut random = Random::new(on_failure.0);
        body(&make_input(&mut random, corpus));
        iteration += 1;
    }
}

/// Prints its number when it is dropped by a panic.
struct Report(u64);

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("fails at once with FUZZ_SEED={}", self.0);
        }
    }
}

/// Makes an input: noise, or a member of the corpus with some damage.
fn make_input(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    if corpus.is_empty() || random.below(4) == 0 {
        let len = random.below(MAX_INPUT);
        return (0..len).map(|_| random.byte()).collect();
    }
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..random.below(5) {
        let at = random.below(input.len() + 1);
        match random.below(5) {
            0 => input.truncate(at),
            1 => input.insert(at, random.byte()),
            _ if at == input.len() => input.push(random.byte()),
            2 => input[at] ^= 1 << random.below(8),
            3 => input[at] = [0, 0xff][random.below(2)],
            _ => input[at] = random.byte(),
        }
    }
    input
}
