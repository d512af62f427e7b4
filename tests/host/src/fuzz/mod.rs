// SPDX-License-Identifier: GPL-2.0

//! The bodies of the fuzz targets, and a driver that runs them for a bounded time.
//!
//! A body takes bytes and panics if the code under test breaks a promise. libFuzzer drives it with
//! coverage (`tests/fuzz`); [`run_bounded`] drives it with random and mutated input on any stable
//! compiler.

pub mod bytes;
pub mod datagrams;
pub mod packets;
pub mod pair;
pub mod parse;
pub mod requester;
pub mod responder;
pub mod states;
pub mod unreliable;

use crate::{
    hex::digits,
    random::Random, //
};
use std::{
    panic::{
        catch_unwind,
        resume_unwind,
        AssertUnwindSafe, //
    },
    path::{
        Path,
        PathBuf, //
    },
    time::{
        Duration,
        Instant,
        SystemTime,
        UNIX_EPOCH, //
    },
};

/// Longest input that [`run_bounded`] makes, in bytes.
const MAX_INPUT: usize = 256;

/// How many inputs [`run_bounded`] tries of each seed when nobody says otherwise.
const ITERATIONS: u64 = 30_000;

/// Feeds `body` with what the tree keeps of the fuzz target `name`, then with input made from that and from
/// `more` by a generator: from `seed`, which is the same for ever, and from the number of the day, which is
/// printed.
///
/// It tries 30000 inputs of each, or, if the environment has `FUZZ_SECONDS`, goes on for so long.
/// `FUZZ_SEED` replaces both seeds, `FUZZ_INPUT` everything: the name of a file with one input. What fails is
/// printed, as a number that makes it again and as the name of the file where it was put.
pub fn run_bounded(name: &str, seed: u64, more: &[Vec<u8>], body: impl Fn(&[u8])) {
    if let Ok(file) = std::env::var("FUZZ_INPUT") {
        return body(&std::fs::read(&file).expect("the input that FUZZ_INPUT names"));
    }
    let kept = kept(name);
    for (file, input) in &kept {
        let _on_failure = Report(format!("{name}: fails with FUZZ_INPUT={}", file.display()));
        body(input);
    }
    let mut corpus: Vec<_> = kept.into_iter().map(|(_, input)| input).collect();
    corpus.extend_from_slice(more);
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seconds = number("FUZZ_SECONDS").map(Duration::from_secs);
    let seeds = match number("FUZZ_SEED") {
        Some(seed) => vec![seed],
        None => vec![seed, of_the_day()],
    };
    for seed in seeds {
        let end = seconds.map(|seconds| Instant::now() + seconds);
        make_and_try(name, seed, end, &corpus, &body);
    }
}

/// Tries input made from `corpus` by a generator that starts from `seed`.
fn make_and_try(
    name: &str,
    seed: u64,
    end: Option<Instant>,
    corpus: &[Vec<u8>],
    body: impl Fn(&[u8]),
) {
    println!("{name}: FUZZ_SEED={seed}");
    let mut iteration = 0;
    loop {
        let go_on = match end {
            Some(end) => iteration % 1024 != 0 || Instant::now() < end,
            None => iteration < ITERATIONS,
        };
        if !go_on {
            return;
        }
        let seed = seed.wrapping_add(iteration);
        let input = make_input(&mut Random::new(seed), corpus);
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&input)));
        if let Err(panic) = outcome {
            let file = std::env::temp_dir().join(format!("fuzz-{name}-{seed}"));
            let place = match std::fs::write(&file, &input) {
                Ok(()) => file.display().to_string(),
                Err(error) => format!("(not written: {error})"),
            };
            eprintln!("{name}: fails at once with FUZZ_SEED={seed}, or FUZZ_INPUT={place}");
            eprintln!("{name}: the input is {}", digits(&input));
            resume_unwind(panic);
        }
        iteration += 1;
    }
}

/// The number of the day, far from the seeds that are the same for ever.
fn of_the_day() -> u64 {
    const DAY: u64 = 24 * 60 * 60;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / DAY) << 20
}

/// Returns what the tree keeps of the fuzz target `name`: inputs that a fuzzer found to reach most of the code
/// together, and such as failed once.
fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(name);
    let files = std::fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
    // The same order on every machine.
    files.sort();
    let read = |file: PathBuf| {
        let input = std::fs::read(&file).expect("a file of the corpus");
        (file, input)
    };
    files.into_iter().map(read).collect()
}

/// Says what it has to say when it is dropped by a panic.
struct Report(String);

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Makes an input: noise, or a member of the corpus with some damage.
#[must_use]
pub fn make_input(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
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
