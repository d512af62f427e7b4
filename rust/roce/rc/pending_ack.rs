// SPDX-License-Identifier: GPL-2.0

//! What the responder has to say beside data: an acknowledgement or a refusal.
//!
//! Owns what is said first where both are due. Does not know packets.

use crate::{
    psn::Psn,
    status::NakCode, //
};

/// What is to be said after all read responses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PendingReply {
    /// Nothing.
    None,
    /// That everything up to here arrived, at least up to `owed`. Read responses later than that say so as
    /// well.
    Ack { owed: Psn },
    /// That the expected request is missing; and then what is owed as with [`PendingReply::Ack`]. A peer that has not sent the
    /// expected request takes no notice of the former: somebody else may have sent a later one in its name. Others
    /// know the latter from the former.
    Sequence { owed: Option<Psn> },
    /// That the expected request must wait.
    NotReady,
    /// That this request is refused for good.
    NakReason { psn: Psn, code: NakCode },
}

impl PendingReply {
    /// The acknowledgement that is owed.
    pub(super) const fn owed(self) -> Option<Psn> {
        match self {
            Self::Ack { owed } => Some(owed),
            Self::Sequence { owed } => owed,
            Self::None | Self::NotReady | Self::NakReason { .. } => None,
        }
    }

    /// What is still to be said when the first of it has been.
    pub(super) const fn rest(self) -> Self {
        match self {
            Self::Sequence { owed: Some(owed) } => Self::Ack { owed },
            _ => Self::None,
        }
    }

    /// What is still to be said when what is owed has been.
    pub(super) const fn acknowledged(self) -> Self {
        match self {
            Self::Sequence { .. } => Self::Sequence { owed: None },
            _ => Self::None,
        }
    }
}
