// SPDX-License-Identifier: GPL-2.0

//! Completions and the timer that lets one event stand for several (`rust/driver/queue/cq_moderation/state.rs`),
//! interleaved.
//!
//! The very file that the module is built from, over a model of the kernel's atomic that promises no
//! more than the kernel does, and over a model of `rust/rdma/sync/timer.rs`: who arms a timer that is queued already does
//! nothing, and finds that out without a lock. Checked is that no completion is kept back for ever, and
//! that no event is told for nothing.

use loom::{
    model::Builder,
    sync::{
        atomic::{
            AtomicBool,
            AtomicUsize,
            Ordering::Relaxed, //
        },
        Arc,
        Mutex, //
    },
    thread, //
};
use moderator::{
    Moderator,
    Step, //
};
use std::collections::BTreeSet;

/// Stands in for `rust/driver/queue/cq_moderation.rs`.
#[path = "."]
mod moderator {
    use kernel::{
        Full,
        Relaxed, //
    };

    #[path = "../../rust/driver/queue/cq_moderation/state.rs"]
    mod held;
    mod kernel;

    pub(crate) use held::Step;

    type Held = kernel::Atomic;

    pub(crate) struct Moderator {
        held: Held,
        most: u32,
    }

    impl Moderator {
        pub(crate) fn new(most: u32) -> Self {
            Self {
                held: Held::new(0),
                most,
            }
        }

        pub(crate) fn completed(&self, wanted: bool) -> Step {
            held::completed(&self.held, wanted, self.most)
        }

        pub(crate) fn release(&self) -> bool {
            held::release(&self.held)
        }
    }
}

/// Most completions of one test.
const COMPLETIONS: usize = 3;

struct World {
    moderator: Moderator,
    /// Whether the timer counts as queued, for who does not lock.
    armed: AtomicBool,
    /// Whether it is.
    queued: Mutex<bool>,
    /// Completions that have come, and those that the consumer has been told of.
    come: [AtomicBool; COMPLETIONS],
    told: [AtomicBool; COMPLETIONS],
    events: AtomicUsize,
}

impl World {
    fn complete(&self, number: usize) {
        self.come[number].store(true, Relaxed);
        match self.moderator.completed(true) {
            Step::None => {}
            Step::Tell => self.tell(),
            Step::Arm => self.arm(),
        }
    }

    fn arm(&self) {
        if self.armed.load(Relaxed) {
            return;
        }
        let mut queued = self.queued.lock().unwrap();
        if !self.armed.load(Relaxed) {
            self.armed.store(true, Relaxed);
            *queued = true;
        }
    }

    /// The timer expires, if it is queued.
    fn expire(&self) {
        let expired = core::mem::take(&mut *self.queued.lock().unwrap());
        if !expired {
            return;
        }
        {
            let queued = self.queued.lock().unwrap();
            if !*queued {
                self.armed.store(false, Relaxed);
            }
        }
        if self.moderator.release() {
            self.tell();
        }
    }

    /// The consumer wakes up and takes everything that it sees.
    fn tell(&self) {
        let mut news = false;
        for (come, told) in self.come.iter().zip(&self.told) {
            news |= come.load(Relaxed) && !told.swap(true, Relaxed);
        }
        if news {
            self.events.fetch_add(1, Relaxed);
        }
    }
}

fn all_are_told(completions: usize, most: u32) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let all_events = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let counted = all_events.clone();
    builder.check(move || {
        let world = Arc::new(World {
            moderator: Moderator::new(most),
            armed: AtomicBool::new(false),
            queued: Mutex::new(false),
            come: std::array::from_fn(|_| AtomicBool::new(false)),
            told: std::array::from_fn(|_| AtomicBool::new(false)),
            events: AtomicUsize::new(0),
        });
        // One has come before the others, so that there is a timer from the beginning.
        world.complete(0);
        let timer = {
            let world = world.clone();
            thread::spawn(move || world.expire())
        };
        let others = Vec::from_iter((2..completions).map(|number| {
            let world = world.clone();
            thread::spawn(move || world.complete(number))
        }));
        world.complete(1);
        timer.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        // Whatever the timer was armed for comes to pass, sooner or later.
        world.expire();
        let told = world.told.iter().filter(|told| told.load(Relaxed)).count();
        assert_eq!(told, completions, "a completion is kept back for ever");
        counted.lock().unwrap().insert(world.events.load(Relaxed));
    });
    // The model has tried both: one event for all, and more.
    assert!(all_events.lock().unwrap().len() > 1);
}

#[test]
fn completions_that_meet_the_timer_are_told() {
    all_are_told(2, 10);
}

#[test]
fn so_are_three() {
    all_are_told(3, 10);
}

#[test]
fn and_those_that_are_told_by_their_number() {
    all_are_told(3, 2);
}

#[test]
fn nobody_is_told_of_what_nobody_wants() {
    loom::model(|| {
        let moderator = Moderator::new(4);
        assert_eq!(moderator.completed(false), Step::None);
        assert!(!moderator.release());
        assert_eq!(moderator.completed(true), Step::Arm);
        assert_eq!(moderator.completed(false), Step::None);
        assert!(moderator.release());
        assert!(!moderator.release());
    });
}
