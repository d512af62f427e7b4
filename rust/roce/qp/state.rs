// SPDX-License-Identifier: GPL-2.0

//! The states of a QP, the transitions between them, and what each does to the two halves.
//!
//! Owns the table. Which attributes a transition needs is not known here.
//!
//! IBA: section 10.3.1. C: `enum ib_qp_state`, `rdma/ib_verbs.h`.

/// The state of a QP.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum QpState {
    /// As created: nothing can be posted.
    Reset = 0,
    /// Receives can be posted; packets are dropped.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send, too.
    Rts = 3,
    /// Send queue drained, or being drained: no request is begun.
    Sqd = 4,
    /// Send queue error: sends are flushed, receiving goes on. Never for RC.
    Sqe = 5,
    /// Error: everything is flushed.
    Err = 6,
}

/// What a transition does to the sending half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendAction {
    /// Nothing.
    Keep,
    /// Forget all requests.
    Reset,
    /// Accept requests.
    Init,
    /// Send.
    Start,
    /// Begin no further request.
    Drain,
    /// Begin requests again.
    Resume,
    /// Flush all requests.
    Fail,
}

/// What a transition does to the receiving half.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecvAction {
    /// Nothing.
    Keep,
    /// Forget everything.
    Reset,
    /// Accept receives.
    Init,
    /// Carry out requests.
    Start,
    /// Flush all receives.
    Fail,
}

/// A legal transition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transition {
    /// What the sending half does.
    pub send: SendAction,
    /// What the receiving half does.
    pub recv: RecvAction,
}

impl QpState {
    /// Every state, in the order of verbs.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Returns the state with this number in verbs; `None` if there is none.
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

    /// Returns the number in verbs.
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the name that IBA gives it.
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

    /// Returns what happens when a consumer takes a QP of this state to `next`; `None` if it may
    /// not.
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

    /// Prints every transition, one to a line.
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
    fn the_table_is_the_reviewed_one() {
        let printed = print();
        assert!(
            printed == include_str!("transitions.txt"),
            "now it is\n{printed}"
        );
    }

    #[test]
    fn codes_are_those_of_verbs() {
        for (code, state) in (0..).zip(QpState::ALL) {
            assert_eq!(state.code(), code);
            assert_eq!(QpState::from_code(code), Some(state));
        }
        assert_eq!(QpState::from_code(7), None);
    }
}
