// SPDX-License-Identifier: GPL-2.0

//! Why a responder does not carry a request out, and what becomes of it if that is for good.
//!
//! Owns the kinds of no. Does not know how the peer is told.

use super::{
    pending_ack::PendingReply,
    replay::ReplayEntry,
    responder::{
        Fatal,
        Responder, //
        ResponderState,
    }, //
};
use crate::{
    access::{
        AccessError,
        Obstacle, //
    },
    psn::Psn,
    status::NakCode, //
};

/// Most packets that still leave before the refusal, in answer to earlier requests: 8 MiB with the largest path MTU.
const MOST_LAST_WORDS: u32 = 2048;

/// Why a request is not carried out.
pub(super) enum NakReason {
    /// It must come again later.
    NotReady,
    /// It must be looked at again later.
    Absent,
    /// It is wrong, and this is the end.
    Final(NakCode, Fatal),
}

impl NakReason {
    /// The request makes no sense.
    pub(super) const INVALID: Self = Self::Final(NakCode::InvalidRequest, Fatal::RequestError);

    /// The memory it asks for is not for the peer.
    pub(super) const ACCESS: Self = Self::Final(NakCode::RemoteAccess, Fatal::AccessError);
}

impl From<Obstacle<AccessError>> for NakReason {
    fn from(obstacle: Obstacle<AccessError>) -> Self {
        match obstacle {
            Obstacle::Absent => Self::Absent,
            Obstacle::Refused(_) => Self::ACCESS,
        }
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Refuses the request with this PSN for good. Answers to those before it come first, unless that would take
    /// long: the queue pair is in the error state by then, and nobody expects that its memory is still read.
    pub(super) fn refuse(&mut self, psn: Psn, code: NakCode, fatal: Fatal) {
        let many = |(_, packets): &(Psn, u32)| *packets > MOST_LAST_WORDS;
        if self.replay.pending_since().is_some_and(|all| many(&all)) {
            self.replay.leave_repeats();
        }
        let (psn, code) = match self.replay.pending_since().filter(many) {
            Some((unanswered, _)) => {
                self.replay.clear();
                (unanswered, NakCode::RemoteOperational)
            }
            None => (psn, code),
        };
        self.state = ResponderState::Error;
        self.reply = PendingReply::NakReason { psn, code };
        self.fatal = Some(fatal);
        self.stats.fatal_naks = self.stats.fatal_naks.wrapping_add(1);
    }
}
