// SPDX-License-Identifier: GPL-2.0

//! The two ends of a ring that the kernel shares with user space, interleaved.
//!
//! The very file that the module is built from, over indices that promise no more than the hardware
//! does. The other end is user space: as rdma-core has it, or one that writes whatever it likes. Checked
//! is that elements come whole, once and in order, that none is written while somebody reads it, and
//! that nothing that user space writes leads out of the ring or keeps us there.

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{
        atomic::{
            AtomicU32,
            Ordering::{
                Acquire,
                Relaxed,
                Release, //
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

/// Stands in for `rust/rdma/ib/ring.rs`.
#[path = "."]
mod ring {
    use loom::sync::atomic::{
        AtomicU32,
        Ordering::{
            Acquire,
            Release, //
        }, //
    };

    #[path = "../../rust/rdma/ib/ring/index.rs"]
    mod index;

    /// The indices, which the other end may write as well, and what it cannot reach.
    pub(crate) struct Ring {
        pub(crate) shared_producer: AtomicU32,
        pub(crate) shared_consumer: AtomicU32,
        mask: u32,
    }

    impl Ring {
        /// An empty ring, whose next element is the one at `start`.
        pub(crate) fn new(slots: u32, start: u32) -> Self {
            Self {
                shared_producer: AtomicU32::new(start),
                shared_consumer: AtomicU32::new(start),
                mask: slots - 1,
            }
        }

        pub(crate) fn mask(&self) -> u32 {
            self.mask
        }

        fn producer_index(&self) -> &AtomicU32 {
            &self.shared_producer
        }

        fn consumer_index(&self) -> &AtomicU32 {
            &self.shared_consumer
        }
    }
}

/// An element, which takes more than one access.
///
/// The model panics when an access to the first half does not come after all others that could
/// disturb it. The second is where the other thread may come in between.
struct Element {
    first: UnsafeCell<u32>,
    second: AtomicU32,
}

/// A ring and its elements.
struct Queue {
    ring: Ring,
    elements: Vec<Element>,
}

// SAFETY: An element has one end at a time; the model finds out if not.
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
        // SAFETY: The model panics unless this comes after all other accesses.
        element.first.with_mut(|first| unsafe { *first = value });
        element.second.store(value, Relaxed);
    }

    fn read(&self, index: u32) -> u32 {
        let element = &self.elements[index as usize];
        let second = element.second.load(Relaxed);
        // SAFETY: See `write`.
        let first = element.first.with(|first| unsafe { *first });
        assert_eq!(first, second, "half an element");
        first
    }

    /// `ibv_post_recv`, as rdma-core orders it. It keeps its position in the ring alone; that is the
    /// same, and reading it there would hide the stores behind it from the model (see `explore`).
    fn user_posts(&self, producer: &mut u32, value: u32) -> bool {
        let next = (*producer + 1) & self.ring.mask();
        if next == self.ring.shared_consumer.load(Acquire) {
            return false;
        }
        self.write(*producer, value);
        self.ring.shared_producer.store(next, Release);
        *producer = next;
        true
    }

    /// `ibv_poll_cq`, as rdma-core orders it.
    fn user_polls(&self, consumer: &mut u32) -> Option<u32> {
        if *consumer == self.ring.shared_producer.load(Acquire) {
            return None;
        }
        let value = self.read(*consumer);
        *consumer = (*consumer + 1) & self.ring.mask();
        self.ring.shared_consumer.store(*consumer, Release);
        Some(value)
    }

    /// As a receive is taken, or a shared one.
    fn kernel_takes(&self, next: &mut u32) -> Option<u32> {
        let taken = self
            .ring
            .take(next, |index| Ok::<_, Infallible>(self.read(index)));
        taken.map(|Ok(value)| value)
    }

    /// As a completion is put.
    fn kernel_pushes(&self, next: &mut u32, value: u32) -> bool {
        let write = |index| self.write(index, value);
        self.ring.push(next, write).is_some()
    }

    /// As the entries of a send queue are fetched, carried out, and given back together.
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

/// Puts elements with the values 0, 1, ... until there have been so many `tries`; says how many there
/// was room for.
fn produce(tries: u32, mut put: impl FnMut(u32) -> bool) -> u32 {
    (0..tries).fold(0, |value, _| value + u32::from(put(value)))
}

/// Tries the interleavings of `check`, which says how it went, and makes sure that it went in every way
/// there is.
///
/// The model swaps an access with the last one only that it depends on. So where a thread reads an index
/// that it then writes, it could overlook the other thread's reads before; and a model that tries one
/// interleaving finds nothing.
fn explore(ways: RangeInclusive<u32>, check: impl Fn() -> u32 + Sync + Send + 'static) {
    let seen = ways_of(check);
    assert!(seen.iter().copied().eq(ways), "{seen:?}");
}

/// In which ways `check` says that it went, of all the interleavings that are tried.
fn ways_of<W: Ord + Send + 'static>(check: impl Fn() -> W + Sync + Send + 'static) -> BTreeSet<W> {
    let seen = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let went = seen.clone();
    loom::model(move || {
        let way = check();
        went.lock().unwrap().insert(way);
    });
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

/// Ring sizes, and where in the ring a test begins: so that it comes around the end.
const SHAPES: [(u32, u32); 4] = [(2, 0), (2, 1), (4, 0), (4, 3)];

/// How often either end tries in one test.
const TRIES: u32 = 3;

/// A user that posts as often as it may, in a thread.
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
            let beside = Vec::from_iter(tries.filter_map(|_| queue.kernel_takes(&mut next)));
            let posted = user.join().unwrap();
            let rest = std::iter::from_fn(|| queue.kernel_takes(&mut next));
            assert!(beside.iter().copied().chain(rest).eq(0..posted));
            beside.len() as u32
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
            let beside = seen.len() as u32;
            let posted = user.join().unwrap();
            seen.extend(queue.kernel_fetches(&mut next));
            assert_eq!(seen, Vec::from_iter(0..posted));
            beside
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
            let (beside, mut consumer) = user.join().unwrap();
            let rest = std::iter::from_fn(|| queue.user_polls(&mut consumer));
            assert!(beside.iter().copied().chain(rest).eq(0..pushed));
            beside.len() as u32
        });
    }
}

/// A queue pair goes to RESET while its user posts. What comes afterwards is in order.
#[test]
fn what_waits_can_be_forgotten() {
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
            let forgotten = posted - seen.len() as u32;
            assert_eq!(seen, Vec::from_iter(forgotten..posted));
            forgotten
        });
    }
}

/// Fills a ring and empties it, from every position. `fill` says how much there was room for.
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

/// Values that user space might write, whatever the size of the ring.
const NONSENSE: [u32; 6] = [0, 1, 3, 4, 0x8000_0002, u32::MAX];

/// User space writes nonsense to both indices at any time, while `kernel` does its work in a ring of
/// four, starting with the element at 2. It says how many elements it has touched, and that must have
/// been as few and as many as it tried.
fn beside_nonsense(kernel: fn(&Ring) -> usize) {
    let mut ways = BTreeSet::new();
    for (first, second) in NONSENSE
        .iter()
        .flat_map(|first| NONSENSE.map(|second| (*first, second)))
    {
        ways.append(&mut ways_of(move || {
            let ring = Arc::new(Ring::new(4, 2));
            let user = {
                let ring = ring.clone();
                thread::spawn(move || {
                    ring.shared_producer.store(first, Relaxed);
                    ring.shared_consumer.store(second, Relaxed);
                    ring.shared_producer.store(second, Relaxed);
                })
            };
            let way = kernel(&ring);
            user.join().unwrap();
            way
        }));
    }
    assert!(ways.contains(&0) && ways.contains(&3), "{ways:?}");
}

/// Where an end comes to that begins at 2 and touches one element after the other, with whatever
/// nonsense.
fn assert_in_turn(touched: &[u32], next: u32) {
    let in_turn = [2, 3, 0, 1, 2, 3];
    assert_eq!(touched, &in_turn[..touched.len()]);
    assert_eq!(next, in_turn[touched.len()]);
}

#[test]
fn nonsense_does_not_lead_the_consumer_astray() {
    beside_nonsense(|ring| {
        let (mut next, mut touched) = (2, Vec::new());
        for _ in 0..3 {
            let taken = ring.take(&mut next, Ok::<_, Infallible>);
            touched.extend(taken.map(|Ok(index)| index));
        }
        assert_in_turn(&touched, next);
        assert!(ring.distance(next, ring.producer()) <= ring.mask());
        touched.len()
    });
}

#[test]
fn nonsense_does_not_lead_the_producer_astray() {
    beside_nonsense(|ring| {
        let (mut next, mut touched) = (2, Vec::new());
        for _ in 0..3 {
            // Whether there is room is theirs to say; where, is ours.
            let _ = ring.push(&mut next, |index| touched.push(index));
        }
        assert_in_turn(&touched, next);
        assert!(ring.distance(ring.consumer(), next) <= ring.mask());
        touched.len()
    });
}

#[test]
fn nonsense_does_not_keep_a_walk_going() {
    beside_nonsense(|ring| {
        let (mut next, mut most) = (2, 0);
        for _ in 0..2 {
            let end = ring.producer();
            let mut steps = 0;
            while next != end {
                assert!(next <= ring.mask());
                next = ring.after(next);
                steps += 1;
                assert!(steps <= 3, "more than a ring holds");
            }
            ring.publish_consumer(next);
            most = most.max(steps);
        }
        next = ring.producer();
        ring.publish_consumer(next);
        assert!(next <= ring.mask());
        most
    });
}
