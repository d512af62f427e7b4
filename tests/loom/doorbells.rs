// SPDX-License-Identifier: GPL-2.0

//! Doorbells that the provider holds back, and the kernel's promise to look by itself.
//!
//! The library's own files run over a model of the kernel, see `provider/lib.rs`. What must hold for every order in
//! which threads run and see each other's stores:
//!
//! - A request is seen, or the kernel still looks for it.
//! - A request that was posted before its thread polled an empty completion queue is rung for: its thread does not wait
//!   for the kernel's look. The same of a request that is posted while another thread prepares to sleep.
//! - No doorbell refers to a QP that is destroyed.
//! - All calls return.

use loom::{
    model::Builder,
    sync::Arc,
    thread, //
};
use provider_model::{
    Locked,
    Program, //
};
use std::{
    collections::BTreeSet,
    sync::Mutex, //
};

type Step = fn(&Program);

/// Tries the interleavings of `threads` and of what the first thread does meanwhile, on the program that `start` makes.
/// `end` looks at it afterwards, and returns the outcome.
fn explore<W: Ord + Send + 'static>(
    start: impl Fn() -> Program + Sync + Send + 'static,
    (here, threads): (Step, &'static [Step]),
    end: impl Fn(&Program) -> W + Sync + Send + 'static,
) -> BTreeSet<W> {
    let outcomes = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let seen = outcomes.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(if threads.len() > 1 { 2 } else { 3 });
    builder.max_branches = 2_000;
    builder.check(move || {
        let program = Arc::new(start());
        let threads = Vec::from_iter(threads.iter().map(|step| {
            let program = program.clone();
            thread::spawn(move || step(&program))
        }));
        here(&program);
        for thread in threads {
            thread.join().unwrap();
        }
        seen.lock().unwrap().insert(end(&program));
    });
    let mut outcomes = outcomes.lock().unwrap();
    std::mem::take(&mut *outcomes)
}

/// One post, and two.
const POSTS: [Step; 2] = [
    |program| program.post(0),
    |program| (0..2).for_each(|_| program.post(0)),
];

/// Requests of a stream until its doorbells are held back.
const STREAM: u32 = 9;

/// A program with one QP, whose next request is held back.
fn streaming() -> Program {
    let program = Program::posting(1, &[(0, 0)]);
    assert_eq!(program.stream(0), STREAM);
    program
}

/// As [`streaming`]; a request is held back already, so that the queue is noted.
fn holding() -> Program {
    let program = streaming();
    program.post(0);
    assert_eq!(program.seen(0), (STREAM, true), "nothing is held back");
    program
}

/// Two QPs with one completion queue, both of which hold back a request.
fn holding_two() -> Program {
    let program = Program::posting(1, &[(0, 0), (0, 0)]);
    for qp in [0, 1] {
        assert_eq!(program.stream(qp), STREAM);
        program.post(qp);
        assert_eq!(program.seen(qp), (STREAM, true), "nothing is held back");
    }
    program
}

/// Requests are seen, or the kernel looks for them. Returns whether it does.
fn nothing_is_lost(program: &Program, posted: u32) -> bool {
    let (seen, looks) = program.seen(0);
    assert!(looks || seen == posted, "{seen} of {posted} seen");
    looks
}

/// All requests are seen, before the kernel looks by itself.
fn all_is_rung_for(program: &Program, qp: usize, posted: u32) {
    assert_eq!(program.seen(qp), (posted, true), "some wait");
}

#[test]
fn a_request_is_seen_or_looked_for_when_the_promise_ends() {
    let outcomes = explore(
        streaming,
        (
            |program| {
                program.post(0);
                program.post(0);
            },
            &[|program| {
                program.expire(0);
            }],
        ),
        |program| nothing_is_lost(program, STREAM + 2),
    );
    assert!(outcomes.into_iter().eq([false]), "the promise ends");
}

#[test]
fn a_promise_may_end_while_another_thread_rings() {
    let outcomes = explore(
        holding,
        (
            |program| program.post(0),
            &[
                |program| {
                    program.expire(0);
                },
                |program| {
                    program.poll(0);
                },
            ],
        ),
        |program| nothing_is_lost(program, STREAM + 2),
    );
    assert!(outcomes.into_iter().eq([false, true]));
}

#[test]
fn polling_rings_for_what_the_thread_has_posted() {
    for (start, posted) in [(streaming as fn() -> Program, 1), (holding, 2)] {
        explore(
            start,
            (
                |program| {
                    program.post(0);
                    assert_eq!(program.poll(0), None);
                },
                &[|program| assert_eq!(program.poll(0), None)],
            ),
            move |program| all_is_rung_for(program, 0, STREAM + posted),
        );
    }
}

/// Threads with a QP each, whose completions one of both polls field by field.
#[test]
fn threads_poll_one_queue() {
    explore(
        holding_two,
        (
            |program| {
                program.post(0);
                assert_eq!(program.poll(0), None);
            },
            &[|program| {
                program.post(1);
                assert_eq!(program.read(0), None);
            }],
        ),
        |program| {
            all_is_rung_for(program, 0, STREAM + 2);
            all_is_rung_for(program, 1, STREAM + 2);
        },
    );
}

/// The one request, or the first of two, is posted when the queue is noted or not.
#[test]
fn nothing_is_held_back_from_a_thread_that_sleeps() {
    for (start, before) in [(streaming as fn() -> Program, 0), (holding, 1)] {
        for (post, posted) in POSTS.into_iter().zip(STREAM + before + 1..) {
            explore(
                start,
                (post, &[|program| program.request_event(0)]),
                move |program| all_is_rung_for(program, 0, posted),
            );
        }
    }
}

/// The sends complete at another queue than the receives, for which a thread prepares to wait.
#[test]
fn nothing_is_held_back_from_a_thread_that_waits_for_receives() {
    fn start() -> Program {
        let program = Program::posting(2, &[(0, 1)]);
        assert_eq!(program.stream(0), STREAM);
        program
    }
    for (post, posted) in POSTS.into_iter().zip(STREAM + 1..) {
        explore(
            start,
            (post, &[|program| program.request_event(1)]),
            move |program| all_is_rung_for(program, 0, posted),
        );
    }
}

#[test]
fn a_queue_pair_is_destroyed_while_threads_poll() {
    explore(
        holding_two,
        (
            |program| program.destroy(1),
            &[
                |program| {
                    program.post(0);
                    assert_eq!(program.poll(0), None);
                },
                |program| assert_eq!(program.read(0), None),
            ],
        ),
        |program| all_is_rung_for(program, 0, STREAM + 2),
    );
}

#[test]
fn the_lock_lets_one_thread_in_at_a_time() {
    loom::model(|| {
        let lock = Arc::new(Locked::default());
        let other = {
            let lock = lock.clone();
            thread::spawn(move || lock.add_one())
        };
        let here = lock.add_one();
        assert_eq!(here + other.join().unwrap(), 3);
    });
}
