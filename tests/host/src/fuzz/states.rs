// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: the states of two connected QPs, changed by their consumers at any time, in any order that the
//! table allows, under work, packets and timeouts.
//!
//! What [`pair`](super::pair) checks holds as long as neither QP is reset. From then on, until both have been,
//! one does not know what the other does: what must hold then is that each request and each receive is
//! reported once and in order, that all are flushed in the error state, and that a QP tells nothing of what was
//! posted before it was reset.

use super::{
    bytes::Bytes,
    pair::World, //
};
use crate::pair::{
    A,
    B, //
};
use roce::qp::state::QpState;

/// Makes two hosts, and their consumers, do what `data` says.
///
/// # Panics
///
/// If a promise is broken.
pub fn states(data: &[u8]) {
    let mut world = World::new(Bytes::new(data));
    while !world.bytes.is_empty() {
        match world.bytes.below(24) {
            kind @ 0..=15 => world.act(kind),
            16..=18 => world.proceed(),
            _ => {
                let choice = usize::from(world.bytes.byte());
                world.change(choice % 2, QpState::ALL[choice / 2 % 7]);
            }
        }
        world.check();
    }
    world.bring_up();
    world.finish();
}

impl World<'_> {
    /// Takes a QP one step further on the way to RTS.
    fn proceed(&mut self) {
        let at = self.bytes.below(2);
        self.change(at, next_of(self.states[at]));
    }

    /// Takes a QP to another state, if the table says that it may go there.
    fn change(&mut self, at: usize, next: QpState) {
        let before = self.states[at];
        if !self.modify(at, next) {
            assert_eq!(self.states[at], before);
            return;
        }
        if next == QpState::Reset {
            self.forget(at);
        }
    }

    /// A QP was reset.
    fn forget(&mut self, at: usize) {
        self.check_silent(at);
        self.ends[at].sent.clear();
        self.ends[at].received.clear();
        let retired = self.ends[at].retired;
        self.sides[at].forget_requests(retired);
        self.sides[1 - at].forget_receives();
        self.torn = true;
        if self.states == [QpState::Reset; 2] {
            self.begin_again();
        }
    }

    /// Lets those that are not in the error state finish what they have.
    fn bring_up(&mut self) {
        for at in [A, B] {
            while !matches!(self.states[at], QpState::Rts | QpState::Err) {
                self.change(at, next_of(self.states[at]));
            }
        }
    }
}

/// Returns the state that comes after this one on the way to RTS.
const fn next_of(state: QpState) -> QpState {
    match state {
        QpState::Reset => QpState::Init,
        QpState::Init => QpState::Rtr,
        QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => QpState::Rts,
        QpState::Err => QpState::Reset,
    }
}
