// SPDX-License-Identifier: GPL-2.0

//! The times at which the engines of a QP run (`rust/driver/qp/wakes.rs`), and the timer: no time is lost.
//!
//! The test compiles the file of the module over a model of the kernel's atomics that promises no more than the kernel
//! does, and over a model of `rust/rdma/sync/timer.rs`: a timer that is due earlier is not armed, and no lock is taken
//! to find that out.

// The module's file says `kernel::sync::atomic`.
extern crate self as kernel;

use loom::{
    model::Builder,
    sync::{
        atomic::{
            fence,
            AtomicU64,
            Ordering::{
                Relaxed,
                SeqCst, //
            }, //
        },
        Arc,
        Mutex, //
    },
    thread, //
};
use roce::{
    time::Instant,
    wake::{
        NextWake,
        Wake, //
    }, //
};
use wakes::{
    EngineWake,
    Wakes, //
};

#[path = "../../rust/driver/qp/wakes.rs"]
mod wakes;

mod sync {
    pub(crate) mod atomic {
        use loom::sync::atomic::{
            AtomicU64,
            Ordering, //
        };
        use std::marker::PhantomData;

        pub(crate) struct Relaxed;

        /// `Atomic<u64>`.
        pub(crate) struct Atomic<T>(AtomicU64, PhantomData<T>);

        impl Atomic<u64> {
            pub(crate) fn new(value: u64) -> Self {
                Self(AtomicU64::new(value), PhantomData)
            }

            pub(crate) fn load(&self, _: Relaxed) -> u64 {
                self.0.load(Ordering::Relaxed)
            }

            pub(crate) fn store(&self, value: u64, _: Relaxed) {
                self.0.store(value, Ordering::Relaxed);
            }
        }
    }
}

/// The deadline of a timer that is not queued.
const NEVER: u64 = u64::MAX;

/// The time at which the timer is first due.
const FIRST: u64 = 8;

struct World {
    wakes: Wakes,
    /// When the timer is due, as read without the lock.
    deadline: AtomicU64,
    /// When it is due, if it is queued.
    queued: Mutex<Option<u64>>,
    /// Runs that the timer has caused.
    sender_runs: AtomicU64,
    receiver_runs: AtomicU64,
}

impl World {
    fn new() -> Self {
        Self {
            wakes: Wakes::new(),
            deadline: AtomicU64::new(NEVER),
            queued: Mutex::new(None),
            sender_runs: AtomicU64::new(0),
            receiver_runs: AtomicU64::new(0),
        }
    }

    /// The end of a run of an engine that must run again at `at`.
    fn end_run(&self, engine: &EngineWake, at: u64) {
        engine.set(NextWake::new(Wake::Pace, Instant::from_nanos(at)));
        // Of `Exclusive`, which releases the engine.
        fence(SeqCst);
        self.arm(at);
    }

    fn arm(&self, at: u64) {
        if at >= self.deadline.load(Relaxed) {
            return;
        }
        let mut queued = self.queued.lock().unwrap();
        if at < self.deadline.load(Relaxed) {
            self.deadline.store(at, Relaxed);
            *queued = Some(at);
        }
    }

    /// The timer expires, if it is due at `now`.
    fn expire(&self, now: u64) {
        let expired = {
            let mut queued = self.queued.lock().unwrap();
            queued.take_if(|at| *at <= now).is_some()
        };
        if !expired {
            return;
        }
        {
            let queued = self.queued.lock().unwrap();
            if queued.is_none() {
                self.deadline.store(NEVER, Relaxed);
            }
        }
        fence(SeqCst);
        let due = self.wakes.due(Instant::from_nanos(now));
        for (why, runs) in [
            (due.sender, &self.sender_runs),
            (due.receiver, &self.receiver_runs),
        ] {
            if why.is_some() {
                runs.fetch_add(1, Relaxed);
            }
        }
        if let Some(at) = due.next {
            self.arm(at.as_nanos());
        }
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn a_deadline_that_moves_is_not_lost() {
    check(|| {
        let world = Arc::new(World::new());
        world.end_run(&world.wakes.sender, FIRST);
        let timer = {
            let world = world.clone();
            thread::spawn(move || world.expire(FIRST))
        };
        world.end_run(&world.wakes.sender, 2 * FIRST);
        timer.join().unwrap();
        let queued = *world.queued.lock().unwrap();
        let ran = world.sender_runs.load(Relaxed) != 0;
        // A run finds the later time again.
        assert!(
            ran || queued.is_some_and(|at| at <= 2 * FIRST),
            "{queued:?}"
        );
    });
}

#[test]
fn one_engine_does_not_hide_the_other() {
    check(|| {
        let world = Arc::new(World::new());
        world.end_run(&world.wakes.sender, FIRST);
        let threads = [
            {
                let world = world.clone();
                thread::spawn(move || world.expire(FIRST))
            },
            {
                let world = world.clone();
                thread::spawn(move || world.end_run(&world.wakes.receiver, 2 * FIRST))
            },
        ];
        for thread in threads {
            thread.join().unwrap();
        }
        let queued = *world.queued.lock().unwrap();
        assert_eq!(world.sender_runs.load(Relaxed), 1, "it was due");
        assert_eq!(world.receiver_runs.load(Relaxed), 0, "it was not due");
        assert_eq!(queued, Some(2 * FIRST));
    });
}

#[test]
fn a_time_that_was_cleared_runs_nothing() {
    check(|| {
        let world = World::new();
        world.end_run(&world.wakes.sender, FIRST);
        world.wakes.clear();
        world.expire(FIRST);
        assert_eq!(world.sender_runs.load(Relaxed), 0);
        assert_eq!(*world.queued.lock().unwrap(), None);
    });
}
