// SPDX-License-Identifier: GPL-2.0

//! Those who call a completion handler (`rust/rdma/ib/event/handler.rs`), interleaved.
//!
//! The very file that the module is built from, over a model of the kernel's atomic that promises no
//! more than the kernel does. Checked is that one is in the handler at a time, and that the
//! handler runs after each call and sees what was queued before it.

use handler::{
    call,
    idle,
    State, //
};
use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{
        atomic::{
            AtomicBool,
            Ordering::Relaxed, //
        },
        Arc, //
    },
    thread, //
};
use std::{
    collections::BTreeSet,
    sync::Mutex, //
};

/// Stands in for `rust/rdma/ib/event.rs`.
#[path = "."]
mod handler {
    use kernel::Full;

    mod kernel;
    #[path = "../../rust/rdma/ib/event/handler.rs"]
    mod protocol;

    pub(crate) type State = kernel::Atomic;

    pub(crate) fn idle() -> State {
        State::new(protocol::IDLE)
    }

    pub(crate) fn call(state: &State, handler: impl FnMut()) {
        protocol::call(state, handler);
    }
}

/// Most callers in one test.
const CALLERS: usize = 3;

struct World {
    state: State,
    /// How often the handler has run. The model panics when two are in it.
    runs: UnsafeCell<usize>,
    /// Queueing orders nothing by itself.
    queued: [AtomicBool; CALLERS],
    seen: [AtomicBool; CALLERS],
}

// SAFETY: One is in the handler at a time; the model finds out if not.
unsafe impl Sync for World {}

impl World {
    fn come(&self, caller: usize) {
        self.queued[caller].store(true, Relaxed);
        call(&self.state, || {
            // SAFETY: The model panics unless this comes after all other accesses.
            self.runs.with_mut(|runs| unsafe { *runs += 1 });
            for (queued, seen) in self.queued.iter().zip(&self.seen) {
                if queued.load(Relaxed) {
                    seen.store(true, Relaxed);
                }
            }
        });
    }
}

fn no_call_is_lost(callers: usize) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let all_runs = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let counted = all_runs.clone();
    builder.check(move || {
        let world = Arc::new(World {
            state: idle(),
            runs: UnsafeCell::new(0),
            queued: std::array::from_fn(|_| AtomicBool::new(false)),
            seen: std::array::from_fn(|_| AtomicBool::new(false)),
        });
        let others = Vec::from_iter((1..callers).map(|caller| {
            let world = world.clone();
            thread::spawn(move || world.come(caller))
        }));
        world.come(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        let seen = world.seen.iter().filter(|seen| seen.load(Relaxed)).count();
        assert_eq!(seen, callers, "a call was lost");
        // SAFETY: Everybody has gone.
        let runs = world.runs.with(|runs| unsafe { *runs });
        counted.lock().unwrap().insert(runs);
    });
    // Calls that meet are served together, all of them or some; and the model has tried that.
    assert!(all_runs.lock().unwrap().iter().copied().eq(1..=callers));
}

#[test]
fn two_callers_are_served() {
    no_call_is_lost(2);
}

#[test]
fn three_callers_are_served() {
    no_call_is_lost(3);
}
