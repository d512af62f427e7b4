// SPDX-License-Identifier: GPL-2.0

//! Models of the readers and the writer of `rust/rdma/compat/readers.rs`, of both kinds.
//!
//! Compiles the module's own files over models of the kernel's atomics and lock that guarantee no more than the kernel
//! does. Checks that no reader uses the value while the writer does, that each reader sees what the writer admitted it
//! to, and that the writer always gets its turn.

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::Arc,
    thread, //
};

/// The kernel's atomics.
mod atomics {
    use loom::sync::atomic::{
        fence,
        AtomicBool,
        AtomicI32,
        Ordering, //
    };

    pub(crate) struct Acquire;
    pub(crate) struct Full;
    pub(crate) struct Relaxed;
    pub(crate) struct Release;

    /// An ordering of the kernel.
    pub(crate) trait Order {
        /// What it is in this model.
        const ORDERING: Ordering;
        /// Whether full barriers stand before and after.
        const IS_FULL: bool = false;
    }

    impl Order for Acquire {
        const ORDERING: Ordering = Ordering::Acquire;
    }

    impl Order for Full {
        const ORDERING: Ordering = Ordering::AcqRel;
        const IS_FULL: bool = true;
    }

    impl Order for Relaxed {
        const ORDERING: Ordering = Ordering::Relaxed;
    }

    impl Order for Release {
        const ORDERING: Ordering = Ordering::Release;
    }

    /// `Atomic<i32>`.
    pub(crate) struct AtomicNumber(AtomicI32);

    impl AtomicNumber {
        pub(crate) fn new(value: i32) -> Self {
            Self(AtomicI32::new(value))
        }

        pub(crate) fn load<O: Order>(&self, _: O) -> i32 {
            self.0.load(O::ORDERING)
        }

        pub(crate) fn fetch_add<O: Order>(&self, value: i32, _: O) -> i32 {
            if O::IS_FULL {
                fence(Ordering::SeqCst);
            }
            let old = self.0.fetch_add(value, O::ORDERING);
            if O::IS_FULL {
                fence(Ordering::SeqCst);
            }
            old
        }

        pub(crate) fn fetch_sub<O: Order>(&self, value: i32, order: O) -> i32 {
            self.fetch_add(-value, order)
        }
    }

    /// `Atomic<bool>`.
    pub(crate) struct AtomicSwitch(AtomicBool);

    impl AtomicSwitch {
        pub(crate) fn new(value: bool) -> Self {
            Self(AtomicBool::new(value))
        }

        pub(crate) fn load<O: Order>(&self, _: O) -> bool {
            self.0.load(O::ORDERING)
        }

        pub(crate) fn store<O: Order>(&self, value: bool, _: O) {
            self.0.store(value, O::ORDERING);
        }
    }
}

/// Stands in for `rust/rdma/compat/readers.rs` without PREEMPT_RT.
#[path = "."]
mod spinning {
    use crate::atomics::{
        Acquire,
        Full,
        Relaxed,
        Release, //
    };

    #[path = "../../rust/rdma/compat/readers/counted.rs"]
    pub(crate) mod order;

    pub(crate) type ReaderState = crate::atomics::AtomicNumber;

    fn spin_loop() {
        loom::thread::yield_now();
    }

    pub(crate) fn excluded() -> ReaderState {
        ReaderState::new(order::EXCLUDED)
    }

    crate::impl_readers!(Counted);
}

/// Stands in for `rust/rdma/compat/readers.rs` with PREEMPT_RT.
#[path = "."]
mod sleeping {
    use crate::atomics::{
        Acquire,
        AtomicSwitch,
        Relaxed,
        Release, //
    };
    use loom::{
        sync::atomic::{
            AtomicI32,
            Ordering, //
        },
        thread, //
    };

    #[path = "../../rust/rdma/compat/readers/locked.rs"]
    pub(crate) mod order;

    pub(crate) struct ReaderState {
        admitted: AtomicSwitch,
        lock: ReadersLock,
    }

    /// `rwlock_t` with PREEMPT_RT: a count of readers, negative unless a writer waits or holds the lock. Taking it for
    /// writing orders nothing before the last reader has left.
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

    pub(crate) fn excluded() -> ReaderState {
        ReaderState {
            admitted: AtomicSwitch::new(false),
            lock: ReadersLock(AtomicI32::new(READER_BIAS)),
        }
    }

    crate::impl_readers!(Locked);
}

/// The readers of a kind.
trait Readers: Send + Sync + 'static {
    fn new_excluded() -> Self;
    fn try_enter(&self) -> bool;
    fn leave(&self);
    fn are_admitted(&self) -> bool;
    fn admit(&self);
    fn exclude(&self);
}

/// Implements [`Readers`] over `order` of the module around.
#[macro_export]
macro_rules! impl_readers {
    ($name:ident) => {
        pub(crate) struct $name(ReaderState);

        impl $crate::Readers for $name {
            fn new_excluded() -> Self {
                Self(excluded())
            }

            fn try_enter(&self) -> bool {
                order::try_enter(&self.0)
            }

            fn leave(&self) {
                order::leave(&self.0);
            }

            fn are_admitted(&self) -> bool {
                order::are_admitted(&self.0)
            }

            fn admit(&self) {
                order::admit(&self.0);
            }

            fn exclude(&self) {
                order::exclude(&self.0);
            }
        }
    };
}

/// A value with readers. It is 0 until they are admitted for the first time, and grows when a writer changes it.
struct World<R> {
    readers: R,
    /// Loom fails the test if two accesses are not ordered, one of which writes.
    value: UnsafeCell<u32>,
}

// SAFETY: Loom fails the test if accesses to `value` conflict.
unsafe impl<R: Send> Send for World<R> {}
// SAFETY: As for `Send`.
unsafe impl<R: Sync> Sync for World<R> {}

impl<R: Readers> World<R> {
    /// Creates a value, which is admitted as 1.
    fn new() -> Arc<Self> {
        let world = Arc::new(Self {
            readers: R::new_excluded(),
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
fn readers_beside_a_writer<R: Readers>() {
    model(|| {
        let world = World::<R>::new();
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
fn a_reader_beside_changes<R: Readers>() {
    model(|| {
        let world = World::<R>::new();
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

#[test]
fn counted_readers_beside_a_writer() {
    readers_beside_a_writer::<spinning::Counted>();
}

#[test]
fn counted_reader_beside_changes() {
    a_reader_beside_changes::<spinning::Counted>();
}

#[test]
fn locked_readers_beside_a_writer() {
    readers_beside_a_writer::<sleeping::Locked>();
}

#[test]
fn locked_reader_beside_changes() {
    a_reader_beside_changes::<sleeping::Locked>();
}
