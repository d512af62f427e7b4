// SPDX-License-Identifier: GPL-2.0

//! The bodies of the fuzz targets, and a driver that runs them as tests.
//!
//! A body takes bytes and panics if the code under test violates a property. libFuzzer drives it
//! with coverage feedback (`tests/fuzz`); [`run_bounded`] drives it with random and mutated inputs
//! on a stable compiler.

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
    }, //
};

/// Maximum length of an input of [`run_bounded`], in bytes.
const MAX_INPUT_LEN: usize = 256;

/// Default number of inputs of [`run_bounded`] per seed.
const ITERATIONS: u64 = 30_000;

/// Runs `body` with the corpus of the fuzz target `name` in the tree, then with inputs generated
/// from this corpus and `more`. The generator uses `seed`, then the number of the day, which is
/// printed.
///
/// It tries 30000 inputs per seed or, if `FUZZ_SECONDS` is set in the environment, runs for that
/// time. `FUZZ_SEED` replaces both seeds. `FUZZ_INPUT` replaces everything by one input from a
/// file. A failing input is reported by its seed and by the name of the file to which it was
/// written.
pub fn run_bounded(name: &str, seed: u64, more: &[Vec<u8>], body: impl Fn(&[u8])) {
    if let Ok(file) = std::env::var("FUZZ_INPUT") {
        return body(&std::fs::read(&file).expect("the file that FUZZ_INPUT names"));
    }
    let corpus_files = corpus_files(name);
    for (file, input) in &corpus_files {
        let _on_failure = PrintOnPanic(format!("{name}: fails with FUZZ_INPUT={}", file.display()));
        body(input);
    }
    let mut corpus: Vec<_> = corpus_files.into_iter().map(|(_, input)| input).collect();
    corpus.extend_from_slice(more);
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seconds = number("FUZZ_SECONDS").map(Duration::from_secs);
    let seeds = match number("FUZZ_SEED") {
        Some(seed) => vec![seed],
        None => vec![seed, day_seed()],
    };
    for seed in seeds {
        let end = seconds.map(|seconds| Instant::now() + seconds);
        run_generated(name, seed, end, &corpus, &body);
    }
}

/// Runs `body` with inputs generated from `corpus` and `seed`.
fn run_generated(
    name: &str,
    seed: u64,
    end: Option<Instant>,
    corpus: &[Vec<u8>],
    body: impl Fn(&[u8]),
) {
    println!("{name}: FUZZ_SEED={seed}");
    let mut iteration = 0;
    loop {
        let proceed = match end {
            Some(end) => iteration % 1024 != 0 || Instant::now() < end,
            None => iteration < ITERATIONS,
        };
        if !proceed {
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

/// Returns a seed from the number of the day, distinct from the fixed seeds.
fn day_seed() -> u64 {
    const DAY_SECONDS: u64 = 24 * 60 * 60;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / DAY_SECONDS) << 20
}

/// Returns the corpus of the fuzz target `name` in the tree: a set of inputs with high coverage,
/// and inputs that once failed.
fn corpus_files(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
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

/// Prints its text when it is dropped by a panic.
struct PrintOnPanic(String);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Generates an input: random bytes, or a mutated member of the corpus.
#[must_use]
pub fn make_input(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    if corpus.is_empty() || random.below(4) == 0 {
        let len = random.below(MAX_INPUT_LEN);
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
