// SPDX-License-Identifier: GPL-2.0

//! Model check of the protocol of `rust/rdma/sync/exclusive.rs`.
//!
//! Compiles the module's own `protocol.rs` over a model of the kernel's flag, lock and barrier that
//! guarantees no more than the kernel does. Checks that there is never more than one owner, and that no work
//! is lost: each piece of work is done, or a context reports that work is left.

use exclusive::{
    protocol::{
        self,
        More,
        Pending, //
    },
    Flag,
    Lock, //
};
use loom::{
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

/// Stands in for `rust/rdma/sync/exclusive.rs`.
#[path = "."]
mod exclusive {
    use loom::{
        cell::UnsafeCell,
        sync::atomic::{
            fence,
            AtomicBool,
            AtomicUsize,
            Ordering::{
                AcqRel,
                Acquire,
                Relaxed,
                Release,
                SeqCst, //
            }, //
        },
        thread, //
    };
    use std::ops::{
        Deref,
        DerefMut, //
    };

    #[path = "../../rust/rdma/sync/exclusive/protocol.rs"]
    pub(crate) mod protocol;

    /// `smp_mb()`.
    pub(crate) fn smp_mb() {
        fence(SeqCst);
    }

    /// `AtomicFlag`.
    pub(crate) struct Flag(AtomicBool);

    impl Flag {
        pub(crate) fn new() -> Self {
            Self(AtomicBool::new(false))
        }

        pub(crate) fn set(&self) {
            fence(SeqCst);
            self.0.swap(true, AcqRel);
            fence(SeqCst);
        }

        pub(crate) fn clear(&self) {
            self.0.swap(false, Acquire);
        }

        pub(crate) fn is_set(&self) -> bool {
            self.0.load(Acquire)
        }
    }

    /// `spinlock_t`. As with the kernel's queued lock, a try also fails while another context waits for the
    /// lock, and a failed try orders nothing.
    pub(crate) struct Lock<T> {
        taken: AtomicBool,
        waiting: AtomicUsize,
        value: UnsafeCell<T>,
    }

    // SAFETY: There is one guard at a time; loom fails the test if not.
    unsafe impl<T: Send> Sync for Lock<T> {}

    pub(crate) struct Guard<'a, T>(&'a Lock<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self {
                taken: AtomicBool::new(false),
                waiting: AtomicUsize::new(0),
                value: UnsafeCell::new(value),
            }
        }

        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            if self.waiting.load(Relaxed) != 0 {
                return None;
            }
            self.acquire()
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.waiting.fetch_add(1, Relaxed);
            let guard = loop {
                match self.acquire() {
                    Some(guard) => break guard,
                    None => thread::yield_now(),
                }
            };
            self.waiting.fetch_sub(1, Relaxed);
            guard
        }

        fn acquire(&self) -> Option<Guard<'_, T>> {
            self.taken
                .compare_exchange(false, true, Acquire, Relaxed)
                .ok()
                .map(|_| Guard(self))
        }
    }

    // Loom panics if an access is not ordered after all earlier ones.
    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: A guard exists only while the lock is held.
            self.0.value.with(|value| unsafe { &*value })
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: A guard exists only while the lock is held.
            self.0.value.with_mut(|value| unsafe { &mut *value })
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.0.taken.store(false, Release);
        }
    }
}

/// Some pieces of work, and which of them are done.
struct World {
    pending: Flag,
    done: Lock<[bool; PIECES]>,
    /// Posting is relaxed: it orders nothing, like an index in shared memory.
    posted: [AtomicBool; PIECES],
}

/// Pieces of work in one test, at most.
const PIECES: usize = 3;

/// How much work an owner does before it reports that more is left.
#[derive(Clone, Copy)]
enum Budget {
    All,
    One,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            pending: Flag::new(),
            done: Lock::new([false; PIECES]),
            posted: std::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    /// Posts a piece of work, and runs the protocol.
    fn post_and_run(&self, piece: usize, rounds: u32, budget: Budget) -> Pending {
        self.posted[piece].store(true, Relaxed);
        self.run(rounds, budget)
    }

    fn run(&self, rounds: u32, budget: Budget) -> Pending {
        protocol::run(&self.pending, &self.done, rounds, |done| {
            for (posted, done) in self.posted.iter().zip(done.iter_mut()) {
                if !*done && posted.load(Relaxed) {
                    *done = true;
                    if let Budget::One = budget {
                        return More::Yes;
                    }
                }
            }
            More::No
        })
    }

    fn enter(&self) -> Pending {
        // Taking the lock accesses the value: loom fails the test if there is another owner.
        let ((), left) = protocol::enter(&self.pending, &self.done, |_| ());
        left
    }

    /// Does a piece of work itself if there is no owner; posts it otherwise.
    fn try_enter(&self, piece: usize) -> Pending {
        let entered = protocol::try_enter(&self.pending, &self.done, |done| done[piece] = true);
        match entered {
            Some(((), left)) => left,
            // There is an owner, so post the work.
            None => self.post_and_run(piece, 4, Budget::All),
        }
    }

    /// Checks that no work is lost after all contexts returned `left`.
    fn check(&self, pieces: usize, left: &[Pending]) {
        let all_done = |done: &[bool; PIECES]| done[..pieces].iter().all(|done| *done);
        if !left.contains(&Pending::Work) {
            assert!(all_done(&self.done.lock()), "work was lost");
            assert!(
                !self.pending.is_set(),
                "work was left, and no context reported it"
            );
            return;
        }
        // The context that reported the work runs it.
        while self.run(1, Budget::All) == Pending::Work {}
        assert!(all_done(&self.done.lock()), "work was forgotten");
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Runs `contexts` in two threads, and `here` in this one.
fn together(
    world: &Arc<World>,
    contexts: [fn(&World) -> Pending; 2],
    here: fn(&World) -> Pending,
) -> [Pending; 3] {
    let [first, second] = contexts.map(|context| {
        let world = world.clone();
        thread::spawn(move || context(&world))
    });
    let here = here(world);
    [first.join().unwrap(), second.join().unwrap(), here]
}

#[test]
fn two_contexts_lose_no_work() {
    model(|| {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.post_and_run(0, 4, Budget::All))
        };
        let left = [world.post_and_run(1, 4, Budget::All), other.join().unwrap()];
        assert_eq!(left, [Pending::None; 2]);
        world.check(2, &left);
    });
}

#[test]
fn three_contexts_lose_no_work() {
    model(|| {
        let world = World::new();
        let left = together(
            &world,
            [
                |world| world.post_and_run(0, 8, Budget::All),
                |world| world.post_and_run(1, 8, Budget::All),
            ],
            |world| world.post_and_run(2, 8, Budget::All),
        );
        assert_eq!(left, [Pending::None; 3]);
        world.check(3, &left);
    });
}

#[test]
fn an_owner_out_of_rounds_knows_that_work_is_left() {
    model(|| {
        let world = World::new();
        let left = together(
            &world,
            [
                |world| world.post_and_run(0, 1, Budget::All),
                |world| world.post_and_run(1, 1, Budget::All),
            ],
            |world| world.post_and_run(2, 1, Budget::All),
        );
        world.check(3, &left);
    });
}

#[test]
fn an_owner_with_a_budget_comes_back() {
    model(|| {
        let world = World::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || world.post_and_run(0, 2, Budget::One))
        };
        let left = [world.post_and_run(1, 2, Budget::One), other.join().unwrap()];
        world.check(2, &left);
    });
}

/// Two contexts post work, and `here` runs beside them; `pieces` in all.
fn beside_two(pieces: usize, here: fn(&World) -> Pending) {
    model(move || {
        let world = World::new();
        let left = together(
            &world,
            [
                |world| world.post_and_run(0, 4, Budget::All),
                |world| world.post_and_run(1, 4, Budget::All),
            ],
            here,
        );
        world.check(pieces, &left);
    });
}

#[test]
fn enter_waits_and_loses_no_work() {
    beside_two(2, World::enter);
}

#[test]
fn try_enter_loses_no_work_of_others() {
    beside_two(3, |world| world.try_enter(2));
}

/// Two local peers. Each tries to enter the other's receive engine while it owns its own send engine; one of
/// them also receives a packet.
#[test]
fn owners_that_enter_each_other_do_not_wait() {
    model(|| {
        let receivers = [World::new(), World::new()];
        let try_enter = |peer: &World| {
            let sender = World::new();
            let mut left = Pending::None;
            let own = protocol::run(&sender.pending, &sender.done, 4, |_| {
                left = peer.try_enter(0);
                More::No
            });
            assert_eq!(own, Pending::None);
            left
        };
        let other = {
            let [first, second] = receivers.clone();
            thread::spawn(move || (try_enter(&first), second.post_and_run(1, 4, Budget::All)))
        };
        let [first, second] = &receivers;
        let to_second = try_enter(second);
        let (to_first, wire) = other.join().unwrap();
        first.check(1, &[to_first]);
        second.check(2, &[to_second, wire]);
    });
}
