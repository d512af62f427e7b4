// SPDX-License-Identifier: GPL-2.0

//! A received packet as the transport wants it.
//!
//! Owns the steps from a piece of a socket buffer to a [`Packet`], or from several to one that stands for a run,
//! and the check of the ICRC over whatever fragments there are. Does not know what the packet is for.

use crate::packet::tx_packet::KernelCrc;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use rdma::{
    ib::trace,
    net::rx::{
        coalesced::{
            CoalescedPackets,
            PayloadLayout, //
        },
        packet::RxPacket, //
    }, //
};
use roce::{
    id::Pkey,
    psn::Psn,
    segmentation::mtu::Mtu,
    status::DropReason,
    wire::{
        bth::BTH_LEN,
        icrc::{
            Icrc,
            ICRC_LEN, //
        },
        ip::Masked,
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    }, //
};

/// Room for the headers of a packet that are not in one piece.
pub(crate) type HeaderRoom = [u8; MAX_HEADERS_LEN];

/// Whether the ICRC is checked even where no wire could have damaged a packet.
static VERIFY_ALWAYS: Atomic<bool> = Atomic::new(false);

/// Sets whether the ICRC is checked even where no wire could have damaged a packet.
pub(crate) fn verify_always(always: bool) {
    VERIFY_ALWAYS.store(always, Relaxed);
}

/// Takes the headers of a packet apart, and checks that it is whole, and of the only partition that there is.
///
/// # Errors
///
/// What is wrong with the packet.
#[inline]
pub(crate) fn packet<'a>(
    from: &RxPacket<'a>,
    room: &'a mut HeaderRoom,
) -> Result<Packet<'a>, DropReason> {
    let (headers, packet) = parse(from, room)?;
    traced(from, &packet);
    verify(from, headers, &packet)?;
    match packet.pkey().matches(Pkey::DEFAULT) {
        true => Ok(packet),
        false => Err(DropReason::BadPkey),
    }
}

/// Joins to `first`, the only packet of `run` so far, those that go on with its message, if it is the one that is
/// `due`: what is repeated, or comes too early, is judged packet by packet. Whatever else comes next, and what is
/// wrong with it, is found when it is looked at by itself.
#[inline]
pub(crate) fn coalesce<'a>(
    run: &mut CoalescedPackets<'_>,
    first: &Packet<'a>,
    due: Psn,
    mtu: Mtu,
) -> Packet<'a> {
    if first.psn() != due {
        return *first;
    }
    let split = PayloadLayout {
        start: first.payload_offset(),
        skip: BTH_LEN,
        // CAST: `u32` to `usize`, on 64 bits.
        each: mtu.bytes() as usize,
    };
    let mut packet = *first;
    // Ends: a buffer has 64 packets at most.
    while let Some(next) = run.next() {
        let mut room = [0; MAX_HEADERS_LEN];
        let joined = parse(&next, &mut room).ok().and_then(|(headers, found)| {
            let joined = packet.coalesce(&found, mtu)?;
            verify(&next, headers, &found).ok()?;
            traced(&next, &found);
            Some(joined)
        });
        let Some(joined) = joined else {
            break;
        };
        packet = joined;
        run.push(next, split);
    }
    packet
}

/// The headers of a packet, and what they say.
#[inline]
fn parse<'a>(
    from: &RxPacket<'a>,
    room: &'a mut HeaderRoom,
) -> Result<(&'a [u8], Packet<'a>), DropReason> {
    let headers: &[u8] = from.peek(room).map_err(|_| DropReason::TooShort)?;
    let packet = Packet::parse(headers, from.udp_payload_len())?;
    Ok((headers, packet))
}

/// Tells those who watch of a packet that has come in.
#[inline]
fn traced(from: &RxPacket<'_>, packet: &Packet<'_>) {
    trace::packet_in(|| {
        Some(trace::TracedPacket {
            dest_qpn: packet.dest_qpn().get(),
            opcode: packet.opcode().to_byte(),
            psn: packet.psn().get(),
            bytes: from.udp_payload_len(),
        })
    });
}

/// Checks the ICRC of `packet`, unless it is as this module has made it: there is no wire that could have damaged it.
fn verify(from: &RxPacket<'_>, headers: &[u8], packet: &Packet<'_>) -> Result<(), DropReason> {
    let skb = from.skb();
    let stayed = skb.is_as_made() && !VERIFY_ALWAYS.load(Relaxed);
    // All packets of a buffer have one header, which was looked at with the first.
    if stayed && from.index() != 0 {
        return Ok(());
    }
    let mut masked = Masked::received(skb.ip_and_udp_header())?;
    if stayed {
        return Ok(());
    }
    if skb.packets() > 1 {
        masked.select_packet(from.index(), from.udp_payload_len());
    }
    let start = packet.payload_offset();
    let headers = headers.get(..start).ok_or(DropReason::TooShort)?;
    let end = packet.icrc_offset();
    let mut received = [0; ICRC_LEN];
    from.copy(end, &mut received)
        .map_err(|_| DropReason::TooShort)?;
    Icrc::<KernelCrc>::headers(&masked, headers)
        .payload_with(|crc| from.crc32(start, end.wrapping_sub(start), crc))
        .verify(received)
}
