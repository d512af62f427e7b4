// SPDX-License-Identifier: GPL-2.0

//! Model of the calls of a completion handler (`rust/rdma/ib/event/handler.rs`).
//!
//! Compiles the file of the module with a model of the kernel's atomic that guarantees no more than the kernel
//! does. Checks that the handler runs in one thread at a time, that it runs after each call, and that it sees what
//! was queued before the call.

use handler::{
    call,
    idle,
    HandlerState, //
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

/// Replaces `rust/rdma/ib/event.rs`.
#[path = "."]
mod handler {
    use kernel::Full;

    mod kernel;
    #[path = "../../rust/rdma/ib/event/handler.rs"]
    mod protocol;

    pub(crate) type HandlerState = kernel::Atomic;

    pub(crate) fn idle() -> HandlerState {
        HandlerState::new(protocol::IDLE)
    }

    pub(crate) fn call(state: &HandlerState, handler: impl FnMut()) {
        protocol::call(state, handler);
    }
}

/// Maximum number of callers in a test.
const MAX_CALLERS: usize = 3;

struct Model {
    state: HandlerState,
    /// Number of runs of the handler. The model panics if two run at once.
    runs: UnsafeCell<usize>,
    /// Whether each caller has queued its completion. The accesses are relaxed: they order nothing.
    queued: [AtomicBool; MAX_CALLERS],
    seen: [AtomicBool; MAX_CALLERS],
}

// SAFETY: The handler, which alone accesses `runs`, runs in one thread at a time; the model panics otherwise.
unsafe impl Sync for Model {}

impl Model {
    fn queue_and_call(&self, caller: usize) {
        self.queued[caller].store(true, Relaxed);
        call(&self.state, || {
            // SAFETY: The model panics unless this access is ordered after all others.
            self.runs.with_mut(|runs| unsafe { *runs += 1 });
            for (queued, seen) in self.queued.iter().zip(&self.seen) {
                if queued.load(Relaxed) {
                    seen.store(true, Relaxed);
                }
            }
        });
    }
}

fn check_no_lost_call(callers: usize) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let all_runs = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let counted = all_runs.clone();
    builder.check(move || {
        let model = Arc::new(Model {
            state: idle(),
            runs: UnsafeCell::new(0),
            queued: std::array::from_fn(|_| AtomicBool::new(false)),
            seen: std::array::from_fn(|_| AtomicBool::new(false)),
        });
        let others = Vec::from_iter((1..callers).map(|caller| {
            let model = model.clone();
            thread::spawn(move || model.queue_and_call(caller))
        }));
        model.queue_and_call(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        let seen = model.seen.iter().filter(|seen| seen.load(Relaxed)).count();
        assert_eq!(seen, callers, "a call was lost");
        // SAFETY: All other threads have been joined.
        let runs = model.runs.with(|runs| unsafe { *runs });
        counted.lock().unwrap().insert(runs);
    });
    // Concurrent calls may share a run. The model must have tried every number of runs.
    assert!(all_runs.lock().unwrap().iter().copied().eq(1..=callers));
}

#[test]
fn two_callers_are_served() {
    check_no_lost_call(2);
}

#[test]
fn three_callers_are_served() {
    check_no_lost_call(3);
}
