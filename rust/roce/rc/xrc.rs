// SPDX-License-Identifier: GPL-2.0

//! XRC: each request names an SRQ of the responder's XRC domain.
//!
//! The SRQ has the receives of the request, the protection domain of all that it accesses, and the CQ. A message has
//! one SRQ. A request that names another one, or one that is not in the domain, gets a NAK.
//!
//! IBA: annex A14.

use super::{
    nak::NakReason,
    replay::ReplayEntry,
    responder::{
        Fatal,
        RequestContext,
        Responder, //
    }, //
};
use crate::{
    id::Srqn,
    status::NakCode,
    wire::packet::Packet, //
};

impl NakReason {
    /// The SRQ is not in the domain. The event is that of adapters.
    const NO_SRQ: Self = Self::Final(NakCode::InvalidRequest, Fatal::AccessError);
}

/// Returns the number of the SRQ that a request names; 0 if it is not of XRC.
#[inline]
pub(super) fn srqn(packet: &Packet<'_>) -> Srqn {
    packet
        .xrceth()
        .map(|xrceth| xrceth.srqn)
        .unwrap_or_default()
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Returns the number of the SRQ that the request executed last has named.
    #[must_use]
    pub const fn srqn(&self) -> Srqn {
        self.srqn
    }

    /// Selects the SRQ that the expected request names.
    pub(super) fn select_srq(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let srqn = packet.xrceth().ok_or(NakReason::INVALID)?.srqn;
        if srqn != self.srqn && !self.assembly.is_idle() {
            return Err(NakReason::INVALID);
        }
        if !host.select_srq(srqn) {
            return Err(NakReason::NO_SRQ);
        }
        self.srqn = srqn;
        Ok(())
    }
}
