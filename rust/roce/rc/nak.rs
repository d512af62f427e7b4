// SPDX-License-Identifier: GPL-2.0

//! Reasons to NAK a request, and the transition to the error state after a fatal NAK.

use super::{
    replay::ReplayEntry,
    responder::{
        AckPoint,
        Fatal,
        PendingAck,
        Responder,
        ResponderState, //
    }, //
};
use crate::{
    access::{
        AccessError,
        Obstacle, //
    },
    message::assembly::Refusal,
    psn::Psn,
    status::NakCode, //
};

/// Most response packets to earlier requests that are still sent before a fatal NAK: 8 MiB with the
/// largest path MTU.
const MAX_RESPONSE_PACKETS_BEFORE_NAK: u32 = 2048;

/// Why a request gets a NAK.
pub(super) enum NakReason {
    /// No receive is posted: the peer must retry later.
    NotReady,
    /// Fatal error: NAK the request and enter the error state.
    Final(NakCode, Fatal),
}

impl NakReason {
    /// The request is invalid.
    pub(super) const INVALID: Self = Self::Final(NakCode::InvalidRequest, Fatal::RequestError);

    /// The key does not grant the requested access.
    pub(super) const ACCESS: Self = Self::Final(NakCode::RemoteAccess, Fatal::AccessError);
}

/// Why a request is not executed: memory is absent, and the responder must handle the packet again later; or it gets a
/// NAK.
pub(super) type NotExecuted = Obstacle<NakReason>;

impl From<Refusal> for NakReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Sequence | Refusal::Length | Refusal::Rights => Self::INVALID,
            Refusal::Key => Self::ACCESS,
            Refusal::NoReceive => Self::NotReady,
            Refusal::ReceiveLength => Self::Final(NakCode::InvalidRequest, Fatal::LocalError),
            Refusal::BadReceive | Refusal::ReceiveMemory(_) => {
                Self::Final(NakCode::RemoteOperational, Fatal::LocalError)
            }
        }
    }
}

impl From<Obstacle<Refusal>> for NotExecuted {
    fn from(obstacle: Obstacle<Refusal>) -> Self {
        obstacle.map(NakReason::from)
    }
}

impl From<Obstacle<AccessError>> for NotExecuted {
    fn from(obstacle: Obstacle<AccessError>) -> Self {
        obstacle.map(|_| NakReason::ACCESS)
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Returns the point of a NAK for the expected request.
    #[inline]
    pub(super) const fn expected_point(&self) -> AckPoint {
        AckPoint {
            psn: self.expected,
            msn: self.msn,
        }
    }

    /// Returns the point of a NAK for the response with this PSN.
    pub(super) fn nak_point(&self, psn: Psn) -> AckPoint {
        AckPoint {
            psn,
            msn: self.replay.msn_before(psn).unwrap_or(self.msn),
        }
    }

    /// Issues a fatal NAK for the request at this point and enters the error state. Pending responses
    /// to earlier requests are sent first, unless there are too many: the QP is in the error state by
    /// then, and the consumer does not expect that its memory is still read.
    pub(super) fn nak_fatal(&mut self, at: AckPoint, code: NakCode, fatal: Fatal) {
        let is_too_long = |(_, packets): &(Psn, u32)| *packets > MAX_RESPONSE_PACKETS_BEFORE_NAK;
        if self
            .replay
            .pending_packets()
            .is_some_and(|pending| is_too_long(&pending))
        {
            self.replay.cancel_repeats();
        }
        let (at, code) = match self.replay.pending_packets().filter(is_too_long) {
            Some((first_pending, _)) => {
                let at = self.nak_point(first_pending);
                self.replay.clear();
                (at, NakCode::RemoteOperational)
            }
            None => (at, code),
        };
        self.state = ResponderState::Error;
        self.pending_ack = PendingAck::FatalNak { at, code };
        self.fatal = Some(fatal);
    }
}
