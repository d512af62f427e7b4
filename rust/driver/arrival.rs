// SPDX-License-Identifier: GPL-2.0

//! A received packet as the transport wants it.
//!
//! Owns the steps from a socket buffer to a [`Packet`], and the check of the ICRC over whatever
//! fragments the buffer has. Does not know whom the packet is for.

use crate::frame::KernelCrc;
use rdma::net::rx::RxSkb;
use roce::{
    status::DropReason,
    wire::{
        icrc::{
            Icrc,
            ICRC_LEN, //
        },
        ip::Masked,
        packet::{
            Packet,
            MAX_HEADERS, //
        }, //
    }, //
};

/// Makes the headers of `skb` one piece, so that [`packet`] finds them.
pub(crate) fn gather_headers(skb: &mut RxSkb) -> Result<(), DropReason> {
    let len = skb.udp_payload_len().min(MAX_HEADERS);
    if skb.pull(len) {
        Ok(())
    } else {
        Err(DropReason::TooShort)
    }
}

/// Takes the headers of `skb` apart.
///
/// # Errors
///
/// What is wrong with the form of the packet.
pub(crate) fn packet(skb: &RxSkb) -> Result<Packet<'_>, DropReason> {
    let len = skb.udp_payload_len();
    Packet::parse(
        skb.header(len.min(MAX_HEADERS))
            .ok_or(DropReason::TooShort)?,
        len,
    )
}

/// Checks the ICRC of `packet`, which came in `skb`, unless it has never left this machine: there is
/// no wire that could have damaged it.
///
/// # Errors
///
/// [`DropReason::BadIcrc`], and what is wrong with the IP header.
pub(crate) fn verify(skb: &RxSkb, packet: &Packet<'_>) -> Result<(), DropReason> {
    let masked = Masked::received(skb.ip_and_udp_header())?;
    if skb.came_by_loopback() {
        return Ok(());
    }
    let start = packet.payload_offset();
    let headers = skb.header(start).ok_or(DropReason::TooShort)?;
    let end = packet.icrc_offset();
    let mut received = [0; ICRC_LEN];
    skb.copy(end, &mut received)
        .map_err(|_| DropReason::TooShort)?;
    Icrc::<KernelCrc>::headers(&masked, headers)
        .try_payload_with(|crc| Ok(skb.crc32(start, end.wrapping_sub(start), crc)))?
        .verify(received)
}
