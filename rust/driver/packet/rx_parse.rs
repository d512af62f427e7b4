// SPDX-License-Identifier: GPL-2.0

//! Parses and verifies received packets, and coalesces consecutive ones.
//!
//! The engines call it for each packet in their inbox, in process context or softirq. The ICRC is computed over the
//! fragments of the buffer in place. Takes no lock and allocates nothing.

use crate::{
    packet::tx_packet::KernelCrc,
    port::state::Port, //
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
    segmentation::{
        mtu::Mtu,
        super_packet::SuperPacketSize, //
    },
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

/// Buffer for headers that are not contiguous in the skb.
type HeaderCopy = [u8; MAX_HEADERS_LEN];

/// Parses the headers of a packet or super-packet, and checks its ICRC and P_Key.
///
/// # Errors
///
/// The reason to drop the packet.
#[inline]
pub(crate) fn packet<'a>(
    port: &Port,
    rx: &RxPacket<'a>,
    header_copy: &'a mut HeaderCopy,
) -> Result<Packet<'a>, DropReason> {
    let (headers, packet) = parse(rx, header_copy)?;
    trace_packet_in(rx, &packet);
    verify_icrc(port, (rx, headers), &packet)?;
    match packet.pkey().matches(Pkey::DEFAULT) {
        true => Ok(packet),
        false => Err(DropReason::BadPkey),
    }
}

/// Adds to `coalesced` the packets that continue the message of its only packet, `first`, and returns one packet for
/// all of them. Does nothing unless `first` has the expected PSN: the engine must examine duplicate and early packets
/// one by one. `None` if for that reason a super-packet must be split first. Stops at the first packet that does not
/// continue the message or is invalid; the caller handles it next.
#[inline]
pub(crate) fn coalesce<'a>(
    port: &Port,
    coalesced: &mut CoalescedPackets<'_>,
    first: &Packet<'a>,
    (expected_psn, mtu): (Psn, Mtu),
) -> Option<Packet<'a>> {
    let in_sync = first.psn() == expected_psn;
    if first.packets() > 1 {
        // CAST: A super-packet has less than 64 KiB.
        let len = first.payload_len() as u32;
        let position = first.opcode().position();
        let fits = mtu.allows_super_packet(position, first.packets(), len);
        return (in_sync && fits).then_some(*first);
    }
    if !in_sync {
        return Some(*first);
    }
    let layout = PayloadLayout {
        start: first.payload_offset(),
        skip: BTH_LEN,
        // CAST: `usize` has 64 bits.
        per_packet: mtu.bytes() as usize,
    };
    let mut packet = *first;
    // Terminates: a buffer has at most 64 packets.
    while let Some(next) = coalesced.next() {
        let mut header_copy = [0; MAX_HEADERS_LEN];
        let parsed = parse(&next, &mut header_copy).ok();
        let longer = parsed.and_then(|(headers, next_packet)| {
            let longer = packet.coalesce(&next_packet, mtu)?;
            verify_icrc(port, (&next, headers), &next_packet).ok()?;
            trace_packet_in(&next, &next_packet);
            Some(longer)
        });
        let Some(longer) = longer else {
            break;
        };
        packet = longer;
        coalesced.push(next, layout);
    }
    Some(packet)
}

/// Returns the length of the packets in bytes of UDP payload, as on the wire. `first` is the first packet.
#[inline]
pub(crate) fn wire_len(coalesced: &CoalescedPackets<'_>, first: &Packet<'_>) -> usize {
    let Some((_, longest)) = coalesced.first().skb().super_packet_size() else {
        return coalesced.udp_payload_len();
    };
    let mtu = Mtu::of_longest_packet(longest.into());
    mtu.map_or(0, |mtu| first.wire_len(mtu))
}

/// Returns the headers of a packet, as bytes and parsed.
#[inline]
fn parse<'a>(
    rx: &RxPacket<'a>,
    header_copy: &'a mut HeaderCopy,
) -> Result<(&'a [u8], Packet<'a>), DropReason> {
    let headers: &[u8] = rx.peek(header_copy).map_err(|_| DropReason::TooShort)?;
    let packet = match rx.skb().super_packet_size() {
        Some(size) => parse_super_packet(rx, headers, size)?,
        None => Packet::parse(headers, rx.udp_payload_len())?,
    };
    Ok((headers, packet))
}

/// Returns the super-packet with these headers, which has that many packets of that length at most. Not inlined, so
/// that the code of a packet stays small.
#[inline(never)]
fn parse_super_packet<'a>(
    rx: &RxPacket<'_>,
    headers: &'a [u8],
    (packets, longest): (u16, u16),
) -> Result<Packet<'a>, DropReason> {
    let size = SuperPacketSize {
        len: rx.udp_payload_len(),
        packets: packets.into(),
        longest: longest.into(),
    };
    let (packet, _) = Packet::parse_super_packet(headers, size)?;
    Ok(packet)
}

/// Emits the tracepoint of a received packet.
#[inline]
fn trace_packet_in(rx: &RxPacket<'_>, packet: &Packet<'_>) {
    trace::packet_in(|| {
        Some(trace::TracedPacket {
            dest_qpn: packet.dest_qpn().get(),
            opcode: packet.opcode().to_byte(),
            psn: packet.psn().get(),
            bytes: rx.udp_payload_len(),
        })
    });
}

/// Checks the ICRC of `packet`. Skips buffers that this module built and no link has carried. The IP and UDP headers
/// are always checked.
fn verify_icrc(
    port: &Port,
    (rx, headers): (&RxPacket<'_>, &[u8]),
    packet: &Packet<'_>,
) -> Result<(), DropReason> {
    let skb = rx.skb();
    let skip_icrc = skb.is_local_gso() && !port.verifies_every_icrc();
    // All packets of a buffer share the IP and UDP headers, which were checked with the first.
    if skip_icrc && rx.index() != 0 {
        return Ok(());
    }
    let mut masked = Masked::received(skb.ip_and_udp_header())?;
    if skip_icrc {
        return Ok(());
    }
    if skb.packets() > 1 {
        masked.select_packet(rx.index(), rx.udp_payload_len());
    }
    let start = packet.payload_offset();
    let headers = headers.get(..start).ok_or(DropReason::TooShort)?;
    let end = packet.icrc_offset();
    let mut received = [0; ICRC_LEN];
    rx.copy(end, &mut received)
        .map_err(|_| DropReason::TooShort)?;
    Icrc::<KernelCrc>::headers(&masked, headers)
        .payload_with(|crc| rx.crc32(start, end.wrapping_sub(start), crc))
        .verify(received)
}
