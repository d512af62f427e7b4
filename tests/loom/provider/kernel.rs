// SPDX-License-Identifier: GPL-2.0

//! The kernel's side: what the driver does with the rings of a process.
//!
//! `ring/index.rs` and `queue/doorbell.rs` are the driver's own files. The rest repeats, in its order of accesses, what
//! depends on the kernel: the end of a run of `queue/sq.rs`, `Cq::push` and `Cq::arm` of `queue/cq.rs`, and
//! `write_completion` of the ABI. A run of the engine is under a lock here; that runs are exclusive, and none is lost,
//! is the matter of `exclusive.rs`.

use crate::{
    abi::direct::{
        bytes,
        ring::{
            CONSUMER,
            ENTRIES,
            HEAD_WORDS,
            NO_DOORBELL,
            PRODUCER,
            STRIDE, //
        },
        Mapping, //
    },
    ffi::memory::halves,
    sync::{
        AtomicU32,
        AtomicU64, //
    },
};
use loom::{
    cell::UnsafeCell,
    sync::{
        atomic::Ordering::{
            Relaxed,
            Release, //
        },
        Mutex, //
    },
};
use ring::Ring;
use roce::time::{
    Duration,
    Instant, //
};
use std::{
    cell::RefCell,
    sync::Arc, //
};
use suppressor::{
    DoorbellSuppressor,
    Suppression, //
};

#[path = "../../../rust/driver/queue/doorbell.rs"]
mod suppressor;

/// Replaces `rust/rdma/ib/ring.rs`.
#[path = "."]
mod ring {
    use super::{
        halves,
        AtomicU32,
        RingMemory,
        CONSUMER,
        ENTRIES,
        NO_DOORBELL,
        PRODUCER, //
    };
    use loom::sync::atomic::{
        fence,
        Ordering::{
            Acquire,
            Relaxed,
            Release,
            SeqCst, //
        }, //
    };

    #[path = "../../../rust/rdma/ib/ring/index.rs"]
    mod index;

    /// Replaces that of the kernel.
    fn smp_mb() {
        fence(SeqCst);
    }

    pub(crate) struct Ring(pub(super) RingMemory);

    impl Ring {
        pub(crate) fn entries(&self) -> u32 {
            halves(&self.0)[ENTRIES].load(Relaxed)
        }

        fn index_mask(&self) -> u32 {
            u32::MAX
        }

        fn producer_index(&self) -> &AtomicU32 {
            &halves(&self.0)[PRODUCER]
        }

        fn consumer_index(&self) -> &AtomicU32 {
            &halves(&self.0)[CONSUMER]
        }

        fn no_doorbell_word(&self) -> Option<&AtomicU32> {
            Some(&halves(&self.0)[NO_DOORBELL])
        }
    }
}

/// A ring that both sides have.
pub(crate) type RingMemory = Arc<Vec<AtomicU64>>;

/// Words of 32 bits of a completion.
const CQE_WORDS: usize = bytes::CQE as usize / 4;

fn new_ring(entries: u32, stride: u32, has_turns: bool) -> RingMemory {
    let words = HEAD_WORDS as u32 + entries * stride / 8;
    let half = |at: usize| match at {
        ENTRIES => AtomicU32::constant(entries),
        STRIDE => AtomicU32::constant(stride),
        PRODUCER | CONSUMER | NO_DOORBELL => AtomicU32::new(0),
        // The last word of a completion.
        at if has_turns && at % CQE_WORDS == CQE_WORDS - 1 => AtomicU32::new(0),
        _ => AtomicU32::data(),
    };
    let word = |at: u32| AtomicU64::of([half(2 * at as usize), half(2 * at as usize + 1)]);
    Arc::new((0..words).map(word).collect())
}

/// The kernel of one run of a model.
pub(crate) struct Kernel {
    objects: std::sync::Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    rings: Vec<RingMemory>,
    engines: Vec<Arc<Engine>>,
    cqs: Vec<Arc<CompletionQueue>>,
}

thread_local! {
    /// A model runs all of its threads in one of the system.
    static CURRENT: RefCell<Option<Arc<Kernel>>> = const { RefCell::new(None) };
}

/// Returns the kernel of this run.
pub(crate) fn current() -> Arc<Kernel> {
    CURRENT.with_borrow(|kernel| kernel.clone().unwrap())
}

/// The send queue of a QP.
struct Engine {
    ring: Ring,
    run: Mutex<EngineState>,
    /// Written when the QP is destroyed. The model panics if a use of the QP is not ordered before that.
    is_destroyed: UnsafeCell<bool>,
}

struct EngineState {
    suppressor: DoorbellSuppressor,
    now: Instant,
    /// Index behind the last request that was seen.
    seen: u32,
    /// When the timer is due.
    look_at: Option<Instant>,
}

// SAFETY: The model panics if two threads use the cell at once.
unsafe impl Sync for Engine {}

struct CompletionQueue {
    ring: Ring,
    state: Mutex<CompletionState>,
}

#[derive(Default)]
struct CompletionState {
    producer: u32,
    is_armed: bool,
    events: u32,
}

impl Kernel {
    /// Starts one for this run of a model.
    pub(crate) fn start() -> Arc<Self> {
        let kernel = Arc::new(Self {
            objects: std::sync::Mutex::default(),
        });
        CURRENT.set(Some(kernel.clone()));
        kernel
    }

    /// Ends the run.
    pub(crate) fn stop(&self) {
        CURRENT.set(None);
    }

    pub(crate) fn memory(&self, mapping: Mapping) -> RingMemory {
        self.objects.lock().unwrap().rings[mapping.offset as usize].clone()
    }

    /// Returns the ring, and where it can be mapped.
    fn add_ring(&self, entries: u32, stride: u32, has_turns: bool) -> (Ring, Mapping) {
        let memory = new_ring(entries, stride, has_turns);
        let rings = &mut self.objects.lock().unwrap().rings;
        rings.push(memory.clone());
        let mapping = Mapping {
            offset: rings.len() as u64 - 1,
            size: 8 * memory.len() as u32,
            reserved: 0,
        };
        (Ring(memory), mapping)
    }

    /// Returns handle and ring of a send queue.
    pub(crate) fn create_qp(&self, entries: u32) -> (u32, Mapping) {
        let (ring, mapping) = self.add_ring(entries, bytes::SEND, false);
        let state = EngineState {
            suppressor: DoorbellSuppressor::new(),
            now: Instant::from_nanos(1_000_000_000),
            seen: 0,
            look_at: None,
        };
        let engines = &mut self.objects.lock().unwrap().engines;
        engines.push(Arc::new(Engine {
            ring,
            run: Mutex::new(state),
            is_destroyed: UnsafeCell::new(false),
        }));
        (engines.len() as u32 - 1, mapping)
    }

    /// Returns handle and ring.
    pub(crate) fn create_cq(&self, entries: u32) -> (u32, Mapping) {
        let (ring, mapping) = self.add_ring(entries, bytes::CQE, true);
        let cqs = &mut self.objects.lock().unwrap().cqs;
        cqs.push(Arc::new(CompletionQueue {
            ring,
            state: Mutex::default(),
        }));
        (cqs.len() as u32 - 1, mapping)
    }

    fn engine(&self, qp_handle: u32) -> Arc<Engine> {
        self.objects.lock().unwrap().engines[qp_handle as usize].clone()
    }

    fn cq(&self, handle: u32) -> Arc<CompletionQueue> {
        self.objects.lock().unwrap().cqs[handle as usize].clone()
    }

    pub(crate) fn ring_doorbell(&self, qp_handle: u32) {
        let engine = self.engine(qp_handle);
        engine.check_alive();
        engine.run();
        // The call refers to the QP until it ends.
        engine.check_alive();
    }

    pub(crate) fn destroy_qp(&self, qp_handle: u32) {
        // SAFETY: The model panics if another thread uses it at the same time.
        let destroy = |is_destroyed: *mut bool| unsafe { *is_destroyed = true };
        self.engine(qp_handle).is_destroyed.with_mut(destroy);
    }

    /// The timer of a send queue expires, if it is queued. Returns whether it is.
    pub(crate) fn expire(&self, qp_handle: u32) -> bool {
        let engine = self.engine(qp_handle);
        {
            let mut state = engine.run.lock().unwrap();
            let Some(at) = state.look_at else {
                return false;
            };
            state.now = at;
        }
        engine.run();
        true
    }

    /// So much time passes.
    pub(crate) fn pass(&self, qp_handle: u32, time: Duration) {
        let engine = self.engine(qp_handle);
        let mut state = engine.run.lock().unwrap();
        state.now = state.now.saturating_add(time);
    }

    /// Returns how many requests the kernel has seen, and whether it will look for more.
    pub(crate) fn seen(&self, qp_handle: u32) -> (u32, bool) {
        let engine = self.engine(qp_handle);
        let state = engine.run.lock().unwrap();
        (state.seen, state.look_at.is_some())
    }

    /// Pushes a completion whose words say `value`. Returns whether there was room.
    pub(crate) fn complete(&self, cq_handle: u32, value: u32) -> bool {
        let cq = self.cq(cq_handle);
        let mut state = cq.state.lock().unwrap();
        let pushed = cq.ring.push(&mut state.producer, |index| {
            let place = index % cq.ring.entries();
            let element = &cq.ring.0[HEAD_WORDS + 8 * place as usize..][..8];
            let (turn, fields) = halves(element).split_last().unwrap();
            for field in fields {
                field.store(value, Relaxed);
            }
            turn.store(index.wrapping_add(1), Release);
        });
        if pushed.is_some() && std::mem::take(&mut state.is_armed) {
            state.events += 1;
        }
        pushed.is_some()
    }

    pub(crate) fn arm(&self, cq_handle: u32) {
        self.cq(cq_handle).state.lock().unwrap().is_armed = true;
    }

    /// Returns how many events there were.
    pub(crate) fn events(&self, cq_handle: u32) -> u32 {
        self.cq(cq_handle).state.lock().unwrap().events
    }
}

impl Engine {
    fn check_alive(&self) {
        self.is_destroyed.with(|is_destroyed| {
            // SAFETY: The model panics if another thread writes it at the same time.
            assert!(!unsafe { *is_destroyed }, "a doorbell of no QP");
        });
    }

    /// Reads the request with this index. The model panics if what it consists of is not there yet.
    fn read(&self, index: u32) {
        let place = HEAD_WORDS + bytes::SEND as usize / 8 * (index % self.ring.entries()) as usize;
        // Those that the library has written.
        for word in &self.ring.0[place..][..4] {
            word.load(Relaxed);
        }
    }

    /// The engine runs until there is nothing new. There is no barrier in the beginning, though that of the driver has
    /// one.
    fn run(&self) {
        let mut state = self.run.lock().unwrap();
        loop {
            let next = self.ring.producer();
            (state.seen..next).for_each(|index| self.read(index));
            let has_new = std::mem::replace(&mut state.seen, next) != next;
            let now = state.now;
            match state.suppressor.end_run(now, has_new, 0) {
                Suppression::Off => state.look_at = None,
                Suppression::Begin(at) => {
                    self.ring.set_no_doorbell(true);
                    state.look_at = Some(at);
                }
                Suppression::Until(at) => state.look_at = Some(at),
                Suppression::End => {
                    self.ring.set_no_doorbell(false);
                    state.look_at = None;
                    if self.ring.producer() != next {
                        continue;
                    }
                }
            }
            return;
        }
    }
}
