// SPDX-License-Identifier: GPL-2.0

//! Doorbell suppression: the process need not ring the doorbell while the kernel looks at the send queue by itself.
//!
//! A doorbell is a system call, and costs more than a small message. While a process posts a stream of requests, the
//! kernel sets a word in the ring and looks again after [`POLL_DELAY`]. The provider then rings the doorbell for many
//! requests together: when it has polled an empty CQ, or has held back so many. `include/uapi/rdma/ferroce-abi.h` has
//! the rules.
//!
//! - **Given** to a stream: [`STREAM_DOORBELLS`] doorbells in a row, each soon after the one before, with no request of
//!   the peer in between. So a ping-pong, whose program may wait for something else than a completion, does not get it.
//! - **Kept** only by doorbells (or other events that run the engine for new requests): one at least from one look to
//!   the next. So a process causes no more looks than it makes calls, and an idle queue causes none.
//! - **Taken back** at a look without them, or if requests were waiting for that look and the last doorbell was long
//!   ago. Then the process does not do its part, and must ring twice as many doorbells before it is given the word
//!   again; half as many after each look at which it did.
//!
//! Depends on nothing of the kernel. `tests/host/tests/doorbell.rs` compiles this file, too.

use roce::time::{
    Duration,
    Instant, //
};

/// How long requests wait at most if the process neither rings the doorbell nor polls. An expired timer costs as much
/// as some doorbells, so it must be rare compared with them.
pub(crate) const POLL_DELAY: Duration = Duration::from_micros(1_000);

/// A process that goes on posting or polling calls more often than this. Requests that a look finds so long after the
/// last doorbell have probably waited for the look.
const LONG: Duration = Duration::from_micros(500);

/// Doorbells in a row that are a stream, at first.
const STREAM_DOORBELLS: u32 = 8;

/// The most that a process which has let requests wait must ring.
const MAX_STREAM_DOORBELLS: u32 = 1 << 16;

/// Two doorbells of a stream are not further apart. With KASAN, a doorbell alone may take longer than that.
const STREAM_GAP: Duration = Duration::from_micros(if cfg!(CONFIG_KASAN) { 96 } else { 32 });

/// What the engine must do with the word of the ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Suppression {
    /// It is not set, and stays so.
    Off,
    /// Set it, and look at the queue at this time at the latest.
    Begin(Instant),
    /// It is set, and stays so. Look at the queue at this time at the latest.
    Until(Instant),
    /// Clear it, and look at the queue after that.
    End,
}

/// Decides when the process must ring the doorbell of one send queue.
#[derive(Clone, Debug)]
pub(crate) struct DoorbellSuppressor {
    /// When the engine last ran for new requests.
    last: Instant,
    /// Requests of the peer received then.
    received: u32,
    /// Doorbells of the stream so far.
    doorbells: u32,
    /// Doorbells that are needed.
    needed: u32,
    /// When the engine must look, while the word is set.
    look_at: Option<Instant>,
    /// New requests were found since the last look, before it was due.
    is_kept: bool,
}

impl DoorbellSuppressor {
    /// Returns that of a new queue.
    pub(crate) const fn new() -> Self {
        Self {
            last: Instant::from_nanos(0),
            received: 0,
            doorbells: 0,
            needed: STREAM_DOORBELLS,
            look_at: None,
            is_kept: false,
        }
    }

    /// A run of the engine ends at `now`. `has_new`: it has found new requests. `received`: requests of the peer
    /// that the QP has received.
    pub(crate) fn end_run(&mut self, now: Instant, has_new: bool, received: u32) -> Suppression {
        let Some(look_at) = self.look_at else {
            return match has_new && self.is_stream(now, received) {
                true => Suppression::Begin(self.look_later(now)),
                false => Suppression::Off,
            };
        };
        if now.is_before(look_at) {
            if has_new {
                self.is_kept = true;
                self.last = now;
            }
            return Suppression::Until(look_at);
        }
        let have_waited = has_new && !now.is_before(self.last.saturating_add(LONG));
        if self.is_kept && !have_waited {
            // A process that was preempted at the wrong time earns its place again.
            self.needed = (self.needed / 2).max(STREAM_DOORBELLS);
            return Suppression::Until(self.look_later(now));
        }
        if have_waited {
            self.needed = self.needed.saturating_mul(2).min(MAX_STREAM_DOORBELLS);
        }
        self.doorbells = 0;
        self.look_at = None;
        Suppression::End
    }

    /// The QP goes to RESET: the word is cleared.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    fn look_later(&mut self, now: Instant) -> Instant {
        let at = now.saturating_add(POLL_DELAY);
        self.look_at = Some(at);
        self.is_kept = false;
        at
    }

    /// Counts a doorbell. Returns whether there have been enough.
    fn is_stream(&mut self, now: Instant, received: u32) -> bool {
        let is_soon = !self.last.saturating_add(STREAM_GAP).is_before(now);
        self.doorbells = match is_soon && received == self.received {
            true => self.doorbells.saturating_add(1),
            false => 0,
        };
        self.last = now;
        self.received = received;
        self.doorbells >= self.needed
    }
}
