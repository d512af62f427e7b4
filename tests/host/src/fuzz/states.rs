// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: state transitions of two connected QPs, at any time and in any legal order, with work
//! requests, packets and timeouts.
//!
//! The properties of [`pair`](super::pair) hold until a QP is reset. Then, until both are reset,
//! one QP has no knowledge of the state of the other. During that time, each request and each
//! receive is reported once and in order, all are flushed in the error state, and a QP reports
//! nothing that was posted before its reset.

use super::{
    bytes::Bytes,
    pair::World, //
};
use crate::pair::{
    A,
    B, //
};
use roce::qp::state::QpState;

/// Drives two hosts and their consumers with `data`.
///
/// # Panics
///
/// If a property is violated.
pub fn states(data: &[u8]) {
    let mut world = World::new(Bytes::new(data));
    while !world.bytes.is_empty() {
        match world.bytes.below(24) {
            kind @ 0..=15 => world.act(kind),
            16..=18 => world.advance(),
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
    /// Moves a QP one state towards RTS.
    fn advance(&mut self) {
        let at = self.bytes.below(2);
        self.change(at, next_of(self.states[at]));
    }

    /// Moves a QP to another state, if the transition is legal.
    fn change(&mut self, at: usize, next: QpState) {
        let before = self.states[at];
        if !self.modify(at, next) {
            assert_eq!(self.states[at], before);
            return;
        }
        if next == QpState::Reset {
            self.on_reset(at);
        }
    }

    /// Updates the model after a reset.
    fn on_reset(&mut self, at: usize) {
        self.check_reset(at);
        self.hosts[at].sent.clear();
        self.hosts[at].received.clear();
        let retired = self.hosts[at].retired;
        self.sides[at].clear_requests(retired);
        self.sides[1 - at].clear_receives();
        self.reset_in_use = true;
        if self.states == [QpState::Reset; 2] {
            self.reconnect();
        }
    }

    /// Moves the QPs that are not in the error state to RTS.
    fn bring_up(&mut self) {
        for at in [A, B] {
            while !matches!(self.states[at], QpState::Rts | QpState::Err) {
                self.change(at, next_of(self.states[at]));
            }
        }
    }
}

/// Returns the next state on the way to RTS.
const fn next_of(state: QpState) -> QpState {
    match state {
        QpState::Reset => QpState::Init,
        QpState::Init => QpState::Rtr,
        QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => QpState::Rts,
        QpState::Err => QpState::Reset,
    }
}
