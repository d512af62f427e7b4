// SPDX-License-Identifier: GPL-2.0

//! Completions of a process: the kernel writes them while a thread polls, and sends an event to a thread that asks.
//!
//! The library's own files run over a model of the kernel, see `provider/lib.rs`. Checks that a completion is taken
//! whole, once and in order, that no place is written while it is read, and that a thread that finds nothing after it
//! has asked for an event gets one.

use loom::{
    model::Builder,
    sync::Arc,
    thread, //
};
use provider_model::Program;
use std::{
    collections::BTreeSet,
    sync::Mutex, //
};

/// Tries the interleavings of `poll` with a kernel that makes `tries` completions, with the values 1, 2, ... `poll`
/// returns what it takes. Returns, for each outcome, how many that were, and those that the kernel made.
fn explore(
    (entries, tries): (u32, u32),
    poll: fn(&Program) -> Vec<Vec<u32>>,
    check: fn(&Program, usize, usize),
) -> BTreeSet<(usize, usize)> {
    let outcomes = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let seen = outcomes.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(move || {
        let program = Arc::new(Program::polling(entries));
        let kernel = {
            let program = program.clone();
            thread::spawn(move || {
                (0..tries).fold(0, |made, _| made + u32::from(program.complete(0, made + 1)))
            })
        };
        let taken = poll(&program);
        let made = kernel.join().unwrap() as usize;
        check(&program, taken.len(), made);
        let outcome = (taken.len(), made);
        let rest = std::iter::from_fn(|| program.poll(0));
        for (fields, value) in taken.into_iter().chain(rest).zip(1..) {
            let (head, id) = fields.split_at(8);
            assert_eq!(head, [value; 8], "half a completion");
            assert_eq!(id, [value; 2], "half an identifier");
        }
        seen.lock().unwrap().insert(outcome);
    });
    let mut outcomes = outcomes.lock().unwrap();
    std::mem::take(&mut *outcomes)
}

/// Polls a few times.
fn poll(program: &Program) -> Vec<Vec<u32>> {
    (0..3).filter_map(|_| program.poll(0)).collect()
}

#[test]
fn completions_are_whole_and_in_order() {
    let outcomes = explore((2, 2), poll, |_, taken, made| assert!(taken <= made));
    assert!(outcomes.into_iter().eq([(0, 2), (1, 2), (2, 2)]));
}

#[test]
fn a_full_queue_is_not_overwritten() {
    let outcomes = explore((1, 2), poll, |_, taken, made| assert!(taken <= made));
    assert!(outcomes.into_iter().eq([(0, 1), (1, 1), (1, 2), (2, 2)]));
}

#[test]
fn a_thread_that_asks_for_an_event_gets_one_or_a_completion() {
    let outcomes = explore(
        (2, 1),
        |program| {
            program.request_event(0);
            program.poll(0).into_iter().collect()
        },
        |program, taken, _| assert!(taken != 0 || program.events(0) == 1, "it sleeps forever"),
    );
    assert!(outcomes.into_iter().eq([(0, 1), (1, 1)]));
}
