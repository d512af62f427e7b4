// SPDX-License-Identifier: GPL-2.0

//! QP states, legal transitions, and the action of each transition on the two engines. The caller
//! checks the attributes that a transition requires.
//!
//! IBA: section 10.3.1. C: `enum ib_qp_state`, `rdma/ib_verbs.h`.

/// The state of a QP.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum QpState {
    /// Initial state. Nothing can be posted.
    Reset = 0,
    /// Receives can be posted; packets are dropped.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send and receive.
    Rts = 3,
    /// Send queue draining or drained: no new request is started.
    Sqd = 4,
    /// Send queue error: sends are flushed, receives continue. Not used for RC.
    Sqe = 5,
    /// Error: all work requests are flushed.
    Err = 6,
}

/// The action of a transition on the send engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendAction {
    /// No action.
    Keep,
    /// Discard all requests.
    Reset,
    /// Accept requests.
    Init,
    /// Start sending.
    Start,
    /// Start no further request.
    Drain,
    /// Start requests again.
    Resume,
    /// Flush all requests.
    Fail,
}

/// The action of a transition on the receive engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecvAction {
    /// No action.
    Keep,
    /// Discard all state.
    Reset,
    /// Accept receives.
    Init,
    /// Execute requests.
    Start,
    /// Flush all receives.
    Fail,
}

/// A legal transition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transition {
    /// Action on the send engine.
    pub send: SendAction,
    /// Action on the receive engine.
    pub recv: RecvAction,
}

impl QpState {
    /// All states, in the order of `enum ib_qp_state`.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Returns the state with this `enum ib_qp_state` value; `None` if it is invalid.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Reset),
            1 => Some(Self::Init),
            2 => Some(Self::Rtr),
            3 => Some(Self::Rts),
            4 => Some(Self::Sqd),
            5 => Some(Self::Sqe),
            6 => Some(Self::Err),
            _ => None,
        }
    }

    /// Returns the `enum ib_qp_state` value.
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the name in IBA.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        }
    }

    /// Returns the transition to `next` that a consumer requests; `None` if it is illegal.
    #[must_use]
    pub const fn to(self, next: Self) -> Option<Transition> {
        use RecvAction as R;
        use SendAction as S;

        let (send, recv) = match (self, next) {
            (_, Self::Reset) => (S::Reset, R::Reset),
            (Self::Reset, Self::Init) => (S::Init, R::Init),
            (Self::Init, Self::Init) => (S::Keep, R::Keep),
            (Self::Init, Self::Rtr) => (S::Keep, R::Start),
            (Self::Rtr, Self::Rts) => (S::Start, R::Keep),
            (Self::Rts, Self::Rts) => (S::Keep, R::Keep),
            (Self::Rts, Self::Sqd) => (S::Drain, R::Keep),
            (Self::Sqd, Self::Sqd) => (S::Keep, R::Keep),
            (Self::Sqd | Self::Sqe, Self::Rts) => (S::Resume, R::Keep),
            (Self::Reset, Self::Err) => return None,
            (_, Self::Err) => (S::Fail, R::Fail),
            _ => return None,
        };
        Some(Transition { send, recv })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::{
        format,
        string::String, //
    };

    /// Prints all transitions, one per line.
    fn print() -> String {
        let mut table = String::new();
        for from in QpState::ALL {
            for next in QpState::ALL {
                let (from_name, next_name) = (from.name(), next.name());
                table += &match from.to(next) {
                    Some(Transition { send, recv }) => {
                        format!("{from_name:5} -> {next_name:5}  send {send:?}, recv {recv:?}\n")
                    }
                    None => format!("{from_name:5} -> {next_name:5}  -\n"),
                };
            }
        }
        table
    }

    #[test]
    fn the_table_matches_the_reviewed_file() {
        let printed = print();
        assert!(
            printed == include_str!("transitions.txt"),
            "the table is now\n{printed}"
        );
    }

    #[test]
    fn codes_match_enum_ib_qp_state() {
        for (code, state) in (0..).zip(QpState::ALL) {
            assert_eq!(state.code(), code);
            assert_eq!(QpState::from_code(code), Some(state));
        }
        assert_eq!(QpState::from_code(7), None);
    }
}
