// SPDX-License-Identifier: GPL-2.0

//! When the engines of a QP run although no event causes it to.
//!
//! At the end of each run the owner of an engine stores when the engine must run next, and why. The timer of the QP is
//! armed for the earlier of the two times; when it expires, it runs only an engine that is due, and is armed again for
//! the other. A time that moves into the future costs a store: the timer expires early once, and runs nothing.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use roce::{
    time::Instant,
    wake::{
        NextWake,
        Wake, //
    }, //
};

/// When one engine runs next. In a cache line of its own: its owner writes it at each run.
#[repr(align(64))]
pub(crate) struct EngineWake(Atomic<u64>);

impl EngineWake {
    fn new() -> Self {
        Self(Atomic::new(NextWake::NEVER.to_bits()))
    }

    /// Stores when the engine runs next. Called while it is owned, before the timer is armed.
    #[inline]
    pub(crate) fn set(&self, wake: NextWake) {
        self.0.store(wake.to_bits(), Relaxed);
    }

    fn get(&self) -> NextWake {
        NextWake::from_bits(self.0.load(Relaxed))
    }
}

/// When the engines of a QP run next.
pub(crate) struct Wakes {
    pub(crate) sender: EngineWake,
    pub(crate) receiver: EngineWake,
}

/// What is to be done when the timer has expired.
pub(crate) struct DueWakes {
    /// Why the send engine is due, if it is.
    pub(crate) sender: Option<Wake>,
    /// Why the receive engine is due, if it is.
    pub(crate) receiver: Option<Wake>,
    /// When the timer must expire for an engine that is not due yet.
    pub(crate) next: Option<Instant>,
}

impl Wakes {
    /// Neither runs without an event.
    pub(crate) fn new() -> Self {
        Self {
            sender: EngineWake::new(),
            receiver: EngineWake::new(),
        }
    }

    /// Forgets both times: the QP goes to RESET.
    pub(crate) fn clear(&self) {
        self.sender.set(NextWake::NEVER);
        self.receiver.set(NextWake::NEVER);
    }

    /// Returns which engines are due at `now`.
    pub(crate) fn due(&self, now: Instant) -> DueWakes {
        let (sender, receiver) = (self.sender.get(), self.receiver.get());
        let later = |wake: NextWake| match wake.due(now) {
            Some(_) => NextWake::NEVER,
            None => wake,
        };
        DueWakes {
            sender: sender.due(now),
            receiver: receiver.due(now),
            next: later(sender).or_earlier(later(receiver)).at(),
        }
    }
}
