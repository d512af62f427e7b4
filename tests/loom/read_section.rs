// SPDX-License-Identifier: GPL-2.0

//! Model check of the protocol of `rust/rdma/sync/read_section.rs`.
//!
//! Compiles the module's own `protocol.rs` over a model of the kernel's per-CPU counts, mutex and barrier that
//! guarantees no more than the kernel does. Checks that an object that was removed is not used after the wait: loom
//! fails the test if a section still reads what is freed.

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
use read_section::{
    on_cpu,
    protocol::Sections, //
};

/// Stands in for `rust/rdma/sync/read_section.rs`.
#[path = "."]
mod read_section {
    use loom::sync::{
        atomic::{
            fence,
            AtomicU64,
            Ordering, //
        },
        Mutex,
        MutexGuard, //
    };
    use protocol::{
        Phase,
        Sections, //
    };
    use std::cell::Cell;

    #[path = "../../rust/rdma/sync/read_section/protocol.rs"]
    pub(crate) mod protocol;

    /// CPUs of the model.
    const CPUS: usize = 2;

    loom::thread_local! {
        static CPU: Cell<usize> = Cell::new(0);
    }

    /// The current task moves to this CPU.
    pub(crate) fn on_cpu(cpu: usize) {
        CPU.with(|current| current.set(cpu));
    }

    /// `smp_mb()`.
    fn smp_mb() {
        fence(Ordering::SeqCst);
    }

    struct Acquire;
    struct Relaxed;
    struct Release;

    /// `Atomic<u64>`.
    struct Number(AtomicU64);

    /// How an access is ordered.
    trait Order {
        const ORDER: Ordering;
    }

    impl Order for Acquire {
        const ORDER: Ordering = Ordering::Acquire;
    }

    impl Order for Relaxed {
        const ORDER: Ordering = Ordering::Relaxed;
    }

    impl Order for Release {
        const ORDER: Ordering = Ordering::Release;
    }

    impl Number {
        fn load<O: Order>(&self, _: O) -> u64 {
            self.0.load(O::ORDER)
        }

        fn store<O: Order>(&self, value: u64, _: O) {
            self.0.store(value, O::ORDER);
        }
    }

    /// The counts. Each CPU adds to its own, in any order.
    struct SectionCounts([[AtomicU64; 4]; CPUS]);

    impl SectionCounts {
        fn enter(&self, phase: Phase) {
            self.add(phase as usize);
            smp_mb();
        }

        fn leave(&self, phase: Phase) {
            smp_mb();
            self.add(2 + phase as usize);
        }

        fn add(&self, word: usize) {
            let cpu = CPU.with(Cell::get);
            self.0[cpu][word].fetch_add(1, Ordering::Relaxed);
        }

        fn entered(&self, phase: Phase) -> u64 {
            self.sum(phase as usize)
        }

        fn left(&self, phase: Phase) -> u64 {
            self.sum(2 + phase as usize)
        }

        fn sum(&self, word: usize) -> u64 {
            self.0
                .iter()
                .map(|cpu| cpu[word].load(Ordering::Relaxed))
                .sum()
        }
    }

    /// The mutex of the waits.
    struct Turn(Mutex<()>);

    impl Turn {
        fn take(&self) -> MutexGuard<'_, ()> {
            self.0.lock().unwrap()
        }
    }

    /// Returns the state without sections.
    pub(crate) fn sections() -> Sections {
        let counts = SectionCounts(std::array::from_fn(|_| {
            std::array::from_fn(|_| AtomicU64::new(0))
        }));
        let numbers = std::array::from_fn(|_| Number(AtomicU64::new(0)));
        Sections::new(counts, numbers, Turn(Mutex::new(())))
    }

    impl Sections {
        /// Runs `f` in a section.
        pub(crate) fn read(&self, f: impl FnOnce()) {
            let phase = self.enter();
            f();
            self.leave(phase);
        }

        /// Waits for the sections that may use what the caller has removed.
        pub(crate) fn synchronize(&self) {
            let number = self.begin();
            self.wait(number, loom::thread::yield_now);
        }
    }
}

/// Objects in a table.
struct World {
    sections: Sections,
    objects: [Object; 2],
}

/// An object that sections find until it is removed. Presence is relaxed: it orders nothing.
struct Object {
    present: AtomicBool,
    value: UnsafeCell<u32>,
}

// SAFETY: Loom fails the test if accesses to the value are not ordered.
unsafe impl Sync for Object {}
// SAFETY: As above.
unsafe impl Send for Object {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            sections: read_section::sections(),
            objects: std::array::from_fn(|_| Object {
                present: AtomicBool::new(true),
                value: UnsafeCell::new(0),
            }),
        })
    }

    /// Uses all objects that are present, in one section.
    fn use_objects(&self) {
        self.sections
            .read(|| self.objects.iter().for_each(Object::access));
    }

    /// Removes an object, waits, and frees it.
    fn remove(&self, object: usize) {
        let object = &self.objects[object];
        object.present.store(false, Relaxed);
        self.sections.synchronize();
        // SAFETY: Loom fails the test if another access is not ordered before this one.
        object.value.with_mut(|value| unsafe { *value += 1 });
    }
}

impl Object {
    fn access(&self) {
        if self.present.load(Relaxed) {
            // SAFETY: Loom fails the test if the object is freed meanwhile or was before.
            self.value.with(|value| unsafe { assert_eq!(*value, 0) });
        }
    }
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

/// Runs `f` in a thread on a CPU.
fn spawn(world: &Arc<World>, cpu: usize, f: fn(&World)) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || {
        on_cpu(cpu);
        f(&world);
    })
}

#[test]
fn a_removed_object_is_not_used() {
    model(3, || {
        let world = World::new();
        let readers = [
            spawn(&world, 0, World::use_objects),
            spawn(&world, 1, World::use_objects),
        ];
        world.remove(0);
        readers.map(|reader| reader.join().unwrap());
    });
}

/// A section that has read the phase, but counts itself later, counts in a phase that was left.
#[test]
fn a_late_section_is_waited_for() {
    model(3, || {
        let world = World::new();
        let reader = spawn(&world, 1, |world| {
            world.use_objects();
            world.use_objects();
        });
        world.remove(0);
        world.remove(1);
        reader.join().unwrap();
    });
}

#[test]
fn sections_nest_and_move() {
    model(3, || {
        let world = World::new();
        let reader = spawn(&world, 1, |world| {
            world.sections.read(|| {
                world.use_objects();
                on_cpu(0);
                world.objects[0].access();
            });
        });
        world.remove(0);
        reader.join().unwrap();
    });
}

#[test]
fn a_wait_of_another_counts_only_if_it_began_later() {
    model(3, || {
        let world = World::new();
        let others = [
            spawn(&world, 0, |world| world.remove(1)),
            spawn(&world, 1, World::use_objects),
        ];
        world.remove(0);
        others.map(|other| other.join().unwrap());
    });
}
