// SPDX-License-Identifier: GPL-2.0

//! Model of the readers and the writer of `rust/rdma/sync/readers.rs`.
//!
//! Compiles the module's own file over models of the kernel's atomics and lock that guarantee no more than the kernel
//! does. Checks that no reader uses the value while the writer does, that each reader sees what the writer admitted it
//! to, and that the writer always gets its turn.

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::Arc,
    thread, //
};
use readers::Readers;

/// Stands in for `rust/rdma/sync/readers.rs`.
#[path = "."]
mod readers {
    use loom::{
        sync::atomic::{
            AtomicBool,
            AtomicI32,
            Ordering, //
        },
        thread, //
    };

    #[path = "../../rust/rdma/sync/readers/protocol.rs"]
    mod protocol;

    struct Acquire;
    struct Relaxed;
    struct Release;

    /// An ordering of the kernel.
    trait Order {
        /// What it is in this model.
        const ORDERING: Ordering;
    }

    impl Order for Acquire {
        const ORDERING: Ordering = Ordering::Acquire;
    }

    impl Order for Relaxed {
        const ORDERING: Ordering = Ordering::Relaxed;
    }

    impl Order for Release {
        const ORDERING: Ordering = Ordering::Release;
    }

    /// `Atomic<bool>`.
    struct AtomicSwitch(AtomicBool);

    impl AtomicSwitch {
        fn load<O: Order>(&self, _: O) -> bool {
            self.0.load(O::ORDERING)
        }

        fn store<O: Order>(&self, value: bool, _: O) {
            self.0.store(value, O::ORDERING);
        }
    }

    /// `rwlock_t`: a count of readers, negative unless a writer waits or holds the lock. Taking it for writing orders
    /// nothing before the last reader has left.
    struct ReadersLock(AtomicI32);

    const READER_BIAS: i32 = i32::MIN;
    const WRITER_BIAS: i32 = 1 << 30;

    impl ReadersLock {
        fn try_read(&self) -> bool {
            let mut readers = self.0.load(Ordering::Relaxed);
            while readers < 0 {
                match self.0.compare_exchange(
                    readers,
                    readers + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return true,
                    Err(now) => readers = now,
                }
            }
            false
        }

        fn read_unlock(&self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }

        fn wait_for_readers(&self) {
            self.0
                .fetch_add(0_i32.wrapping_sub(READER_BIAS), Ordering::Relaxed);
            while self.0.load(Ordering::Acquire) != 0 {
                thread::yield_now();
            }
            self.0.store(WRITER_BIAS, Ordering::Relaxed);
            self.0
                .fetch_add(READER_BIAS.wrapping_sub(WRITER_BIAS), Ordering::Release);
        }
    }

    pub(crate) struct Readers {
        admitted: AtomicSwitch,
        lock: ReadersLock,
    }

    impl Readers {
        pub(crate) fn new_excluded() -> Self {
            Self {
                admitted: AtomicSwitch(AtomicBool::new(false)),
                lock: ReadersLock(AtomicI32::new(READER_BIAS)),
            }
        }

        pub(crate) fn try_enter(&self) -> bool {
            protocol::try_enter(self)
        }

        pub(crate) fn leave(&self) {
            self.lock.read_unlock();
        }

        pub(crate) fn are_admitted(&self) -> bool {
            self.admitted.load(Relaxed)
        }

        pub(crate) fn admit(&self) {
            protocol::admit(self);
        }

        pub(crate) fn exclude(&self) {
            protocol::exclude(self);
        }
    }
}

/// A value with readers. It is 0 until they are admitted for the first time, and grows when a writer changes it.
struct World {
    readers: Readers,
    /// Loom fails the test if two accesses are not ordered, one of which writes.
    value: UnsafeCell<u32>,
}

// SAFETY: Loom fails the test if accesses to `value` conflict.
unsafe impl Send for World {}
// SAFETY: As for `Send`.
unsafe impl Sync for World {}

impl World {
    /// Creates a value, which is admitted as 1.
    fn new() -> Arc<Self> {
        let world = Arc::new(Self {
            readers: Readers::new_excluded(),
            value: UnsafeCell::new(0),
        });
        world.change();
        world
    }

    /// As a writer: excludes readers, changes the value and admits them again.
    fn change(&self) {
        self.readers.exclude();
        assert!(!self.readers.are_admitted());
        // SAFETY: Loom fails the test unless the access is exclusive.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.readers.admit();
        assert!(self.readers.are_admitted());
    }

    /// Reads the value twice, unless readers are excluded.
    fn read(&self) -> Option<u32> {
        if !self.readers.try_enter() {
            return None;
        }
        // SAFETY: Loom fails the test unless all writes are ordered before or after.
        let first = self.value.with(|value| unsafe { *value });
        // SAFETY: As above.
        let second = self.value.with(|value| unsafe { *value });
        assert!(first == second && first > 0);
        self.readers.leave();
        Some(first)
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Two readers beside a writer.
#[test]
fn readers_beside_a_writer() {
    model(|| {
        let world = World::new();
        let readers = [(); 2].map(|()| {
            let world = world.clone();
            thread::spawn(move || world.read())
        });
        world.change();
        // The writer's own thread reads what it has written.
        assert_eq!(world.read(), Some(2));
        readers.map(|reader| assert_ne!(reader.join().unwrap(), Some(0)));
    });
}

/// A reader beside a writer that changes the value twice, and at last leaves it excluded.
#[test]
fn a_reader_beside_changes() {
    model(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || [world.read(), world.read()])
        };
        world.change();
        world.change();
        world.readers.exclude();
        // Once more, as for a value that is revoked already.
        world.readers.exclude();
        // SAFETY: Loom fails the test unless the access is exclusive.
        world.value.with_mut(|value| unsafe { *value += 1 });
        let [first, second] = reader.join().unwrap();
        assert!(first.is_none() || second.is_none() || first <= second);
        assert_eq!(world.read(), None);
    });
}
