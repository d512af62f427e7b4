// SPDX-License-Identifier: GPL-2.0

//! Why a responder does not carry a request out.
//!
//! Owns the two kinds of no. Does not know how the peer is told.

use super::responder::Fatal;
use crate::{
    access::{
        AccessError,
        Obstacle, //
    },
    status::NakCode, //
};

/// Why a request is not carried out.
pub(super) enum Refusal {
    /// It must come again later.
    NotReady,
    /// It must be looked at again later.
    Absent,
    /// It is wrong, and this is the end.
    Final(NakCode, Fatal),
}

impl Refusal {
    /// The request makes no sense.
    pub(super) const INVALID: Self = Self::Final(NakCode::InvalidRequest, Fatal::RequestError);

    /// The memory it asks for is not for the peer.
    pub(super) const ACCESS: Self = Self::Final(NakCode::RemoteAccess, Fatal::AccessError);
}

impl From<Obstacle<AccessError>> for Refusal {
    fn from(obstacle: Obstacle<AccessError>) -> Self {
        match obstacle {
            Obstacle::Absent => Self::Absent,
            Obstacle::Refused(_) => Self::ACCESS,
        }
    }
}
