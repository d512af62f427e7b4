// SPDX-License-Identifier: GPL-2.0

//! CQ moderation (`rust/driver/queue/cq_moderation/state.rs`): completions and the timer, interleaved.
//!
//! The test compiles the file of the module over a model of the kernel's atomics that promises no more than
//! the kernel does, and over a model of `rust/rdma/sync/timer.rs`: arming a queued timer does nothing, and
//! takes no lock to find that out. It checks that no completion is delayed forever, and that no event is sent
//! without reason.

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
    EventAction,
    Moderator, //
};
use std::collections::BTreeSet;

/// Stands in for `rust/driver/queue/cq_moderation.rs`.
#[path = "."]
mod moderator {
    use kernel::{
        Full,
        Relaxed, //
    };

    mod kernel;
    #[path = "../../rust/driver/queue/cq_moderation/state.rs"]
    mod state;

    pub(crate) use state::EventAction;

    type PendingCompletions = kernel::Atomic;

    pub(crate) struct Moderator {
        pending: PendingCompletions,
        max_completions: u32,
    }

    impl Moderator {
        pub(crate) fn new(max_completions: u32) -> Self {
            Self {
                pending: PendingCompletions::new(0),
                max_completions,
            }
        }

        pub(crate) fn on_completion(&self, notify: bool) -> EventAction {
            state::on_completion(&self.pending, notify, self.max_completions)
        }

        pub(crate) fn take_pending(&self) -> bool {
            state::take_pending(&self.pending)
        }
    }
}

/// Most completions of one test.
const COMPLETIONS: usize = 3;

struct World {
    moderator: Moderator,
    /// Whether the timer counts as queued, as read without the lock.
    armed: AtomicBool,
    /// Whether the timer is queued.
    queued: Mutex<bool>,
    /// Completions that were pushed, and those that the consumer was notified of.
    pushed: [AtomicBool; COMPLETIONS],
    notified: [AtomicBool; COMPLETIONS],
    events: AtomicUsize,
}

impl World {
    fn complete(&self, number: usize) {
        self.pushed[number].store(true, Relaxed);
        match self.moderator.on_completion(true) {
            EventAction::None => {}
            EventAction::Notify => self.notify(),
            EventAction::ArmTimer => self.arm_timer(),
        }
    }

    fn arm_timer(&self) {
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
        if self.moderator.take_pending() {
            self.notify();
        }
    }

    /// The consumer wakes up and polls everything that it sees.
    fn notify(&self) {
        let mut news = false;
        for (pushed, notified) in self.pushed.iter().zip(&self.notified) {
            news |= pushed.load(Relaxed) && !notified.swap(true, Relaxed);
        }
        if news {
            self.events.fetch_add(1, Relaxed);
        }
    }
}

fn all_are_notified(completions: usize, max_completions: u32) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let all_events = std::sync::Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let counted = all_events.clone();
    builder.check(move || {
        let world = Arc::new(World {
            moderator: Moderator::new(max_completions),
            armed: AtomicBool::new(false),
            queued: Mutex::new(false),
            pushed: std::array::from_fn(|_| AtomicBool::new(false)),
            notified: std::array::from_fn(|_| AtomicBool::new(false)),
            events: AtomicUsize::new(0),
        });
        // One completion precedes the others, so that the timer is armed from the start.
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
        // A timer that is still armed expires sooner or later.
        world.expire();
        let notified = world
            .notified
            .iter()
            .filter(|notified| notified.load(Relaxed))
            .count();
        assert_eq!(notified, completions, "a completion is delayed forever");
        counted.lock().unwrap().insert(world.events.load(Relaxed));
    });
    // The model has covered both: one event for all completions, and several events.
    assert!(all_events.lock().unwrap().len() > 1);
}

#[test]
fn two_completions_and_the_timer() {
    all_are_notified(2, 10);
}

#[test]
fn three_completions_and_the_timer() {
    all_are_notified(3, 10);
}

#[test]
fn three_completions_with_two_for_each_event() {
    all_are_notified(3, 2);
}

#[test]
fn an_unarmed_cq_gets_no_event() {
    loom::model(|| {
        let moderator = Moderator::new(4);
        assert_eq!(moderator.on_completion(false), EventAction::None);
        assert!(!moderator.take_pending());
        assert_eq!(moderator.on_completion(true), EventAction::ArmTimer);
        assert_eq!(moderator.on_completion(false), EventAction::None);
        assert!(moderator.take_pending());
        assert!(!moderator.take_pending());
    });
}
