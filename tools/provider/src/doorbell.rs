// SPDX-License-Identifier: GPL-2.0

//! Doorbells, and when a queue may do without.
//!
//! While the kernel has promised to look at a send queue (`ferroce_ring.no_doorbell`), posts are held back: they are
//! published, but no call is made. The queue is noted at its completion queue, and a thread that waits there calls for
//! it.
//! All of this is about time only: the kernel's promise holds without a call.

use crate::{
    errno::Errno,
    ffi::{
        libc,
        lock::SpinLock, //
    },
    sync::{
        fence,
        AtomicBool,
        AtomicU32,
        Ordering, //
    },
};

/// The file of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandFile {
    pub(crate) fd: i32,
    pub(crate) driver_id: u32,
    /// Commands go by ioctl at once, as `write` would be refused.
    pub(crate) by_ioctl: bool,
}

/// Makes the kernel look at the send queue of a QP.
///
/// # Errors
///
/// The kernel's: of a QP that cannot send, for example.
pub(crate) fn ring(file: CommandFile, qp_handle: u32) -> Result<(), Errno> {
    if !file.by_ioctl {
        match libc::post_send(file.fd, qp_handle) {
            // The kernel refuses `write` to a process whose credentials are not those that opened the file, as after
            // setuid() or in a child.
            Err(Errno::ACCES) => {}
            rung => return rung,
        }
    }
    libc::invoke_post_send(file.fd, file.driver_id, qp_handle)
}

/// What a send queue holds back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    posts: u32,
    bytes: u64,
    /// [`Dirty::epoch`] of the completion queue of sends when the queue was noted there.
    epoch: Option<u32>,
    /// The same of the completion queue of receives, if that is another one.
    recv_epoch: Option<u32>,
}

impl Held {
    /// With 64, perftest, which has 128 requests in progress, makes 20 calls per 1000 writes of 64 bytes; so 11.
    const MAX_POSTS: u32 = 128;
    /// With 256 KiB, 64 KiB writes over one device are a quarter slower.
    const MAX_BYTES: u64 = 1 << 20;

    /// Adds posts. Returns whether they may be held back, of a ring with this many elements.
    fn add(&mut self, posts: u32, bytes: u64, entries: u32) -> bool {
        self.posts = self.posts.saturating_add(posts);
        self.bytes = self.bytes.saturating_add(bytes);
        // The kernel works on the rest of the ring meanwhile.
        let most = Self::MAX_POSTS.min(entries / 4 * 3);
        self.posts < most && self.bytes < Self::MAX_BYTES
    }

    /// All that was held back is called for. The queue stays noted.
    pub(crate) fn clear(&mut self) {
        self.posts = 0;
        self.bytes = 0;
    }
}

/// How many queues may hold posts back at one completion queue. Further ones call.
const SLOTS: usize = 16;

/// The send queues that hold posts back at a completion queue, by handle. A handle may belong to no QP any more, or to
/// another one: a doorbell too many does no harm.
pub(crate) struct Dirty {
    handles: SpinLock<[Option<u32>; SLOTS]>,
    /// Entries of the array, so that an empty one costs no lock.
    count: AtomicU32,
    /// Changes when a queue leaves the array: one that was noted in this epoch still is.
    epoch: AtomicU32,
    /// Threads that call for queues they have taken out of the array.
    flushing: AtomicU32,
    /// A thread may sleep until there is a completion, and would not call for what is held back.
    armed: AtomicBool,
}

impl Dirty {
    /// Nothing is held back.
    pub(crate) fn new() -> Self {
        Self {
            handles: SpinLock::new([None; SLOTS]),
            count: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            flushing: AtomicU32::new(0),
            armed: AtomicBool::new(false),
        }
    }

    /// A thread asks for an event, and calls [`flush`](Self::flush) next.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        // A queue is in the array when it is flushed, or the thread that notes it sees the store: see `note`.
        fence(Ordering::SeqCst);
    }

    /// A thread has taken completions, so none is known to sleep.
    #[inline]
    pub(crate) fn disarm(&self) {
        if self.is_armed() {
            self.armed.store(false, Ordering::Relaxed);
        }
    }

    /// Holds back published posts of a queue with this many elements, if it may and there is a place to note it.
    /// Returns whether it does. If not, the caller calls.
    pub(crate) fn hold(
        &self,
        handle: u32,
        held: &mut Held,
        (posts, bytes): (u32, u64),
        entries: u32,
    ) -> bool {
        // The fence of `Producer::no_doorbell` lies between the index and this load. If the epoch is still the
        // same, then the thread that empties the array calls after the store of the index.
        let noted = held.epoch == Some(self.epoch.load(Ordering::Relaxed));
        if !noted {
            held.clear();
        }
        let may_hold = held.add(posts, bytes, entries) && !self.is_armed();
        may_hold && (noted || self.note(handle, &mut held.epoch))
    }

    /// As [`hold`](Self::hold), where the receives of the queue complete, too: a program may wait there only.
    #[inline]
    pub(crate) fn also_hold(&self, handle: u32, held: &mut Held) -> bool {
        let noted = held.recv_epoch == Some(self.epoch.load(Ordering::Relaxed));
        !self.is_armed() && (noted || self.note(handle, &mut held.recv_epoch))
    }

    /// Returns whether a thread sleeps until there is a completion.
    #[inline]
    fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Notes a queue. Returns whether posts may be held back: there is a place, and no thread sleeps that might not
    /// have found the queue.
    #[cold]
    fn note(&self, handle: u32, epoch: &mut Option<u32>) -> bool {
        if !self.insert(handle, epoch) {
            return false;
        }
        // Pairs with the fence of `arm`: either that thread finds the queue, or this one sees that it sleeps.
        fence(Ordering::SeqCst);
        !self.is_armed()
    }

    fn insert(&self, handle: u32, epoch: &mut Option<u32>) -> bool {
        self.handles.with(|handles| {
            // It has a place already if another queue has left the array.
            if !handles.contains(&Some(handle)) {
                let Some(slot) = handles.iter_mut().find(|slot| slot.is_none()) else {
                    return false;
                };
                *slot = Some(handle);
                self.count.fetch_add(1, Ordering::Relaxed);
            }
            *epoch = Some(self.epoch.load(Ordering::Relaxed));
            true
        })
    }

    /// Removes a queue that goes away, and waits until no thread calls for it: the kernel refuses to destroy a QP that
    /// a call refers to.
    pub(crate) fn forget(&self, handle: u32) {
        self.handles.with(|handles| {
            for slot in handles.iter_mut().filter(|slot| **slot == Some(handle)) {
                *slot = None;
                self.count.fetch_sub(1, Ordering::Relaxed);
                self.epoch.fetch_add(1, Ordering::Relaxed);
            }
        });
        while self.flushing.load(Ordering::Acquire) != 0 {
            libc::yield_now();
        }
    }

    /// Calls for all queues that hold posts back. Returns whether there were any.
    #[inline]
    pub(crate) fn flush(&self, file: CommandFile) -> bool {
        self.count.load(Ordering::Relaxed) != 0 && self.flush_all(file)
    }

    #[cold]
    fn flush_all(&self, file: CommandFile) -> bool {
        let handles = self.handles.with(|handles| {
            self.count.store(0, Ordering::Relaxed);
            self.epoch.fetch_add(1, Ordering::Relaxed);
            self.flushing.fetch_add(1, Ordering::Relaxed);
            core::mem::replace(handles, [None; SLOTS])
        });
        // Pairs with the fence of `Producer::no_doorbell`: see `hold`.
        fence(Ordering::SeqCst);
        let mut any = false;
        for handle in handles.into_iter().flatten() {
            // A failure concerns posts that were accepted: the QP's completions tell.
            let _ = ring(file, handle);
            any = true;
        }
        self.flushing.fetch_sub(1, Ordering::Release);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No file has this number, so no doorbell is rung.
    const NO_FILE: CommandFile = CommandFile {
        fd: -1,
        driver_id: 0,
        by_ioctl: false,
    };

    #[test]
    fn posts_are_held_back_up_to_a_number() {
        let mut held = Held::default();
        let times = (0..).take_while(|_| held.add(1, 64, 1024)).count();
        assert_eq!(times, 127);
        held.clear();
        assert!(held.add(1, 64, 1024));
    }

    #[test]
    fn or_to_three_quarters_of_a_ring() {
        let mut held = Held::default();
        let times = (0..).take_while(|_| held.add(1, 64, 16)).count();
        assert_eq!(times, 11);
        assert!(!Held::default().add(1, 64, 2));
        assert!(!Held::default().add(1, 64, 1));
    }

    #[test]
    fn or_to_a_number_of_bytes() {
        let mut held = Held::default();
        let times = (0..).take_while(|_| held.add(1, 65536, 1024)).count();
        assert_eq!(times, 15);
    }

    #[test]
    fn a_queue_is_noted_once_until_it_is_flushed() {
        let (dirty, mut held) = (Dirty::new(), Held::default());
        assert!(!dirty.flush(NO_FILE));
        for _ in 0..3 * SLOTS {
            assert!(dirty.hold(7, &mut held, (1, 1), 1024));
            held.clear();
        }
        assert!(dirty.flush(NO_FILE));
        assert!(!dirty.flush(NO_FILE));
        assert!(dirty.hold(7, &mut held, (1, 1), 1024));
        dirty.forget(7);
        assert!(!dirty.flush(NO_FILE));
    }

    #[test]
    fn a_flush_begins_the_count_anew() {
        let (dirty, mut held) = (Dirty::new(), Held::default());
        for _ in 0..10 {
            assert!(dirty.hold(7, &mut held, (100, 1), 1024));
            assert!(dirty.flush(NO_FILE));
        }
        assert!(dirty.hold(7, &mut held, (100, 1), 1024));
        assert!(!dirty.hold(7, &mut held, (100, 1), 1024));
    }

    #[test]
    fn a_queue_that_goes_away_takes_no_place_of_others() {
        let (dirty, mut held) = (Dirty::new(), [Held::default(); SLOTS]);
        for _ in 0..3 {
            for (handle, held) in (0..).zip(&mut held) {
                assert!(dirty.hold(handle, held, (1, 1), 1024));
            }
            dirty.forget(3);
            assert_eq!(dirty.count.load(Ordering::Relaxed), 15);
        }
    }

    #[test]
    fn nothing_is_held_back_while_a_thread_sleeps() {
        let (dirty, mut held) = (Dirty::new(), Held::default());
        dirty.arm();
        assert!(!dirty.hold(7, &mut held, (1, 1), 1024));
        dirty.disarm();
        assert!(dirty.hold(7, &mut held, (1, 1), 1024));
    }

    #[test]
    fn only_so_many_queues_are_noted() {
        let dirty = Dirty::new();
        let hold = |&handle: &u32| dirty.hold(handle, &mut Held::default(), (1, 1), 1024);
        assert_eq!((0..100).filter(hold).count(), SLOTS);
    }
}
