// SPDX-License-Identifier: GPL-2.0

//! Model of the two ends of a ring that the kernel shares with user space.
//!
//! Compiles the file of the module with indices that guarantee no more than the hardware does. The other end is
//! user space: as in rdma-core, or one that writes arbitrary values. Checks that elements are transferred whole,
//! once and in order, that no element is written while it is read, and that no value from user space leads an end
//! out of the ring or into an endless loop.

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{
        atomic::{
            fence,
            AtomicU32,
            Ordering::{
                Acquire,
                Relaxed,
                Release,
                SeqCst, //
            }, //
        },
        Arc, //
    },
    thread::{
        self,
        JoinHandle, //
    }, //
};
use ring::Ring;
use std::{
    collections::BTreeSet,
    convert::Infallible,
    ops::RangeInclusive,
    sync::Mutex, //
};

/// Replaces `rust/rdma/ib/ring.rs`.
#[path = "."]
mod ring {
    use loom::sync::atomic::{
        fence,
        AtomicU32,
        Ordering::{
            Acquire,
            Release,
            SeqCst, //
        }, //
    };

    #[path = "../../rust/rdma/ib/ring/index.rs"]
    mod index;

    /// Replaces that of the kernel.
    fn smp_mb() {
        fence(SeqCst);
    }

    /// The words that the other end may write, and the shape, which it cannot reach.
    pub(crate) struct Ring {
        pub(crate) shared_producer: AtomicU32,
        pub(crate) shared_consumer: AtomicU32,
        pub(crate) no_doorbell: AtomicU32,
        entries: u32,
        index_mask: u32,
    }

    impl Ring {
        /// Creates an empty ring, whose next element is the one at `start`.
        pub(crate) fn new(slots: u32, start: u32) -> Self {
            Self {
                shared_producer: AtomicU32::new(start),
                shared_consumer: AtomicU32::new(start),
                no_doorbell: AtomicU32::new(0),
                entries: slots - 1,
                index_mask: slots - 1,
            }
        }

        /// As [`Ring::new`], with indices that count elements.
        pub(crate) fn counting(places: u32, start: u32) -> Self {
            Self {
                entries: places,
                index_mask: u32::MAX,
                ..Self::new(places, start)
            }
        }

        pub(crate) fn index_mask(&self) -> u32 {
            self.index_mask
        }

        pub(crate) fn entries(&self) -> u32 {
            self.entries
        }

        fn no_doorbell_word(&self) -> Option<&AtomicU32> {
            Some(&self.no_doorbell)
        }

        fn producer_index(&self) -> &AtomicU32 {
            &self.shared_producer
        }

        fn consumer_index(&self) -> &AtomicU32 {
            &self.shared_consumer
        }
    }
}

/// An element that takes two accesses.
///
/// The model panics if an access to the first half is not ordered after all conflicting ones. At the second half
/// the model may switch to the other thread.
struct Element {
    first: UnsafeCell<u32>,
    second: AtomicU32,
}

/// A ring and its elements.
struct Queue {
    ring: Ring,
    elements: Vec<Element>,
}

// SAFETY: One end at a time accesses an element; the model panics otherwise.
unsafe impl Sync for Queue {}

impl Queue {
    fn new(slots: u32, start: u32) -> Arc<Self> {
        let element = |_| Element {
            first: UnsafeCell::new(u32::MAX),
            second: AtomicU32::new(u32::MAX),
        };
        Arc::new(Self {
            ring: Ring::new(slots, start),
            elements: (0..slots).map(element).collect(),
        })
    }

    fn write(&self, index: u32, value: u32) {
        let element = &self.elements[index as usize];
        // SAFETY: The model panics unless this access is ordered after all conflicting ones.
        element.first.with_mut(|first| unsafe { *first = value });
        element.second.store(value, Relaxed);
    }

    fn read(&self, index: u32) -> u32 {
        let element = &self.elements[index as usize];
        let second = element.second.load(Relaxed);
        // SAFETY: The model panics unless this access is ordered after all conflicting ones.
        let first = element.first.with(|first| unsafe { *first });
        assert_eq!(first, second, "half an element");
        first
    }

    /// `ibv_post_recv`, with the order of accesses in rdma-core. rdma-core keeps its position only in the ring. A
    /// separate position has the same value, and reading it from the ring would hide the stores after it from the
    /// model (see `explore`).
    fn user_posts(&self, producer: &mut u32, value: u32) -> bool {
        let next = (*producer + 1) & self.ring.index_mask();
        if next == self.ring.shared_consumer.load(Acquire) {
            return false;
        }
        self.write(*producer, value);
        self.ring.shared_producer.store(next, Release);
        *producer = next;
        true
    }

    /// `ibv_poll_cq`, with the order of accesses in rdma-core.
    fn user_polls(&self, consumer: &mut u32) -> Option<u32> {
        if *consumer == self.ring.shared_producer.load(Acquire) {
            return None;
        }
        let value = self.read(*consumer);
        *consumer = (*consumer + 1) & self.ring.index_mask();
        self.ring.shared_consumer.store(*consumer, Release);
        Some(value)
    }

    /// Takes a receive from an RQ or SRQ, as the driver does.
    fn kernel_takes(&self, next: &mut u32) -> Option<u32> {
        let taken = self
            .ring
            .take(next, |index| Ok::<_, Infallible>(self.read(index)));
        taken.map(|Ok(value)| value)
    }

    /// Pushes a completion, as the driver does.
    fn kernel_pushes(&self, next: &mut u32, value: u32) -> bool {
        let write = |index| self.write(index, value);
        self.ring.push(next, write).is_some()
    }

    /// Fetches the WQEs of a send queue, executes them, and releases them together, as the driver does.
    fn kernel_fetches(&self, next: &mut u32) -> Vec<u32> {
        let oldest = *next;
        let end = self.ring.producer();
        let mut fetched = Vec::new();
        while *next != end {
            fetched.push(self.read(*next));
            *next = self.ring.after(*next);
        }
        let mut index = oldest;
        for value in &fetched {
            assert_eq!(self.read(index), *value, "overwritten while in progress");
            index = self.ring.after(index);
        }
        if oldest != *next {
            self.ring.publish_consumer(*next);
        }
        fetched
    }
}

/// Puts elements with the values 0, 1, ... in `tries` attempts. Returns the number of elements that fitted.
fn produce(tries: u32, mut put: impl FnMut(u32) -> bool) -> u32 {
    (0..tries).fold(0, |value, _| value + u32::from(put(value)))
}

/// Tries the interleavings of `check`, which returns its outcome, and checks that the outcomes are exactly
/// `outcomes`.
///
/// The model reorders an access only with the last access that it depends on. Where a thread reads an index and
/// then writes it, the model may miss an earlier read by the other thread. A model that misses interleavings finds
/// no bug.
fn explore(outcomes: RangeInclusive<u32>, check: impl Fn() -> u32 + Sync + Send + 'static) {
    let seen = outcomes_of(check);
    assert!(seen.iter().copied().eq(outcomes), "{seen:?}");
}

/// Returns the outcomes of `check` in all interleavings that the model tries.
fn outcomes_of<W: Ord + Send + 'static>(
    check: impl Fn() -> W + Sync + Send + 'static,
) -> BTreeSet<W> {
    let seen = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let collected = seen.clone();
    loom::model(move || {
        let outcome = check();
        collected.lock().unwrap().insert(outcome);
    });
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

/// Ring sizes and start positions, so that a test wraps around the end of the ring.
const SHAPES: [(u32, u32); 4] = [(2, 0), (2, 1), (4, 0), (4, 3)];

/// Attempts of each end in a test.
const TRIES: u32 = 3;

/// Starts a thread that posts as user space.
fn posting(queue: &Arc<Queue>, mut producer: u32) -> JoinHandle<u32> {
    let queue = queue.clone();
    thread::spawn(move || produce(TRIES, |value| queue.user_posts(&mut producer, value)))
}

#[test]
fn receives_are_taken_whole_and_in_order() {
    for (slots, start) in SHAPES {
        explore(0..=TRIES, move || {
            let queue = Queue::new(slots, start);
            let user = posting(&queue, start);
            let mut next = start;
            let tries = 0..TRIES;
            let concurrent = Vec::from_iter(tries.filter_map(|_| queue.kernel_takes(&mut next)));
            let posted = user.join().unwrap();
            let rest = std::iter::from_fn(|| queue.kernel_takes(&mut next));
            assert!(concurrent.iter().copied().chain(rest).eq(0..posted));
            concurrent.len() as u32
        });
    }
}

#[test]
fn sends_are_fetched_whole_and_in_order() {
    for (slots, start) in SHAPES {
        explore(0..=TRIES.min(2 * (slots - 1)), move || {
            let queue = Queue::new(slots, start);
            let user = posting(&queue, start);
            let mut next = start;
            let mut seen = queue.kernel_fetches(&mut next);
            seen.extend(queue.kernel_fetches(&mut next));
            let concurrent = seen.len() as u32;
            let posted = user.join().unwrap();
            seen.extend(queue.kernel_fetches(&mut next));
            assert_eq!(seen, Vec::from_iter(0..posted));
            concurrent
        });
    }
}

#[test]
fn completions_are_polled_whole_and_in_order() {
    for (slots, start) in SHAPES {
        explore(0..=TRIES, move || {
            let queue = Queue::new(slots, start);
            let user = {
                let queue = queue.clone();
                let mut consumer = start;
                thread::spawn(move || {
                    let tries = 0..TRIES;
                    let seen = tries.filter_map(|_| queue.user_polls(&mut consumer));
                    (Vec::from_iter(seen), consumer)
                })
            };
            let mut next = start;
            let pushed = produce(TRIES, |value| queue.kernel_pushes(&mut next, value));
            let (concurrent, mut consumer) = user.join().unwrap();
            let rest = std::iter::from_fn(|| queue.user_polls(&mut consumer));
            assert!(concurrent.iter().copied().chain(rest).eq(0..pushed));
            concurrent.len() as u32
        });
    }
}

/// A QP goes to RESET while user space posts. The receives after that are in order.
#[test]
fn posted_receives_can_be_discarded() {
    for (slots, start) in SHAPES {
        explore(0..=TRIES.min(slots - 1), move || {
            let queue = Queue::new(slots, start);
            let user = posting(&queue, start);
            let mut next = queue.ring.producer();
            queue.ring.publish_consumer(next);
            let first = queue.kernel_takes(&mut next);
            let posted = user.join().unwrap();
            let rest = std::iter::from_fn(|| queue.kernel_takes(&mut next));
            let seen = Vec::from_iter(first.into_iter().chain(rest));
            let discarded = posted - seen.len() as u32;
            assert_eq!(seen, Vec::from_iter(discarded..posted));
            discarded
        });
    }
}

/// Fills and empties a ring from every start position. `fill` returns whether there was room.
fn fill_and_empty(
    fill: fn(&Queue, &mut u32, u32) -> bool,
    empty: fn(&Queue, &mut u32) -> Option<u32>,
) {
    for slots in [2, 4, 8] {
        let mut builder = Builder::new();
        builder.max_branches = 10_000;
        builder.check(move || {
            let queue = Queue::new(slots, 0);
            let (mut producer, mut consumer) = (0, 0);
            for round in 0..=slots {
                let value = |piece| 100 * round + piece;
                let pieces = produce(2 * slots, |piece| fill(&queue, &mut producer, value(piece)));
                assert_eq!(pieces, slots - 1, "room");
                let (first, end) = (queue.ring.consumer(), queue.ring.producer());
                assert_eq!(queue.ring.distance(first, end), pieces);

                assert_eq!(empty(&queue, &mut consumer), Some(value(0)));
                assert!(
                    fill(&queue, &mut producer, value(pieces)),
                    "room for one again"
                );
                let rest = std::iter::from_fn(|| empty(&queue, &mut consumer));
                assert!(rest.eq((1..=pieces).map(value)));
            }
        });
    }
}

#[test]
fn a_ring_holds_one_less_than_it_has_slots() {
    fill_and_empty(Queue::kernel_pushes, Queue::user_polls);
    fill_and_empty(Queue::user_posts, Queue::kernel_takes);
}

/// Values that user space might write, for any ring size.
const ARBITRARY_VALUES: [u32; 6] = [0, 1, 3, 4, 0x8000_0002, u32::MAX];

/// User space writes arbitrary values to both indices at any time, while `kernel` works on a ring of four elements,
/// starting at element 2. `kernel` returns the number of elements that it accessed; over all interleavings the
/// model must see none and all of its attempts.
fn with_arbitrary_indices(kernel: fn(&Ring) -> usize) {
    let mut outcomes = BTreeSet::new();
    for (first, second) in ARBITRARY_VALUES
        .iter()
        .flat_map(|first| ARBITRARY_VALUES.map(|second| (*first, second)))
    {
        outcomes.append(&mut outcomes_of(move || {
            let ring = Arc::new(Ring::new(4, 2));
            let user = {
                let ring = ring.clone();
                thread::spawn(move || {
                    ring.shared_producer.store(first, Relaxed);
                    ring.shared_consumer.store(second, Relaxed);
                    ring.shared_producer.store(second, Relaxed);
                })
            };
            let outcome = kernel(&ring);
            user.join().unwrap();
            outcome
        }));
    }
    assert!(
        outcomes.contains(&0) && outcomes.contains(&3),
        "{outcomes:?}"
    );
}

/// Checks that an end that starts at element 2 accessed consecutive elements.
fn assert_consecutive(touched: &[u32], next: u32) {
    let expected = [2, 3, 0, 1, 2, 3];
    assert_eq!(touched, &expected[..touched.len()]);
    assert_eq!(next, expected[touched.len()]);
}

#[test]
fn arbitrary_indices_do_not_move_the_consumer() {
    with_arbitrary_indices(|ring| {
        let (mut next, mut touched) = (2, Vec::new());
        for _ in 0..3 {
            let taken = ring.take(&mut next, Ok::<_, Infallible>);
            touched.extend(taken.map(|Ok(index)| index));
        }
        assert_consecutive(&touched, next);
        assert!(ring.distance(next, ring.producer()) <= ring.index_mask());
        touched.len()
    });
}

#[test]
fn arbitrary_indices_do_not_move_the_producer() {
    with_arbitrary_indices(|ring| {
        let (mut next, mut touched) = (2, Vec::new());
        for _ in 0..3 {
            // User space controls whether there is room, but not the position.
            let _ = ring.push(&mut next, |index| touched.push(index));
        }
        assert_consecutive(&touched, next);
        assert!(ring.distance(ring.consumer(), next) <= ring.index_mask());
        touched.len()
    });
}

#[test]
fn arbitrary_indices_do_not_prolong_a_walk() {
    with_arbitrary_indices(|ring| {
        let (mut next, mut max_steps) = (2, 0);
        for _ in 0..2 {
            let end = ring.producer();
            let mut steps = 0;
            while next != end {
                assert!(next <= ring.index_mask());
                next = ring.after(next);
                steps += 1;
                assert!(steps <= 3, "more than a ring holds");
            }
            ring.publish_consumer(next);
            max_steps = max_steps.max(steps);
        }
        next = ring.producer();
        ring.publish_consumer(next);
        assert!(next <= ring.index_mask());
        max_steps
    });
}

/// The kernel takes the word back while a process posts. Each request is found, or the process rings.
#[test]
fn no_request_is_left_without_a_doorbell() {
    explore(0..=2, || {
        let ring = Arc::new(Ring::counting(4, 0));
        ring.set_no_doorbell(true);
        let user = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut rung_for = 0;
                for posted in 1..=2 {
                    ring.publish_producer(posted);
                    fence(SeqCst);
                    if ring.no_doorbell.load(Acquire) == 0 {
                        rung_for = posted;
                    }
                }
                rung_for
            })
        };
        ring.set_no_doorbell(false);
        let found = ring.producer();
        let rung_for = user.join().unwrap();
        assert_eq!(found.max(rung_for), 2, "found {found}, rung for {rung_for}");
        found
    });
}

/// Indices that count wrap around at 2^32; an impossible index of the other end makes the ring empty, not endless.
#[test]
fn indices_that_count_wrap_around() {
    loom::model(|| {
        let start = u32::MAX - 1;
        let ring = Ring::counting(4, start);
        let (mut producer, mut consumer, mut touched) = (start, start, Vec::new());
        for _ in 0..5 {
            let _ = ring.push(&mut producer, |index| touched.push(index));
        }
        assert_eq!(touched, [start, u32::MAX, 0, 1], "all places are used");
        assert_eq!(ring.distance(start, producer), 4);
        let taken = std::iter::from_fn(|| ring.take(&mut consumer, Ok::<_, Infallible>));
        assert_eq!(taken.count(), 4);
        ring.shared_producer
            .store(consumer.wrapping_add(5), Relaxed);
        assert!(ring.take(&mut consumer, Ok::<_, Infallible>).is_none());
    });
}
