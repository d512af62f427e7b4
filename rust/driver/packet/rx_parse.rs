// SPDX-License-Identifier: GPL-2.0

//! Parses and verifies received packets.
//!
//! The engines call it for each packet in their inbox, in process context or softirq. The ICRC is computed over the
//! fragments of the buffer in place. Takes no lock and allocates nothing.

use crate::{
    packet::icrc::KernelCrc,
    port::state::Port, //
};
use rdma::{
    ib::trace,
    net::rx::packet::RxPacket, //
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

/// Returns whether an engine that expects this PSN can handle `packet` at once. `false`: it is several packets, which
/// the engine must examine one by one, because they are duplicate or early, or are divided for another path MTU.
#[inline]
pub(crate) fn is_whole(packet: &Packet<'_>, (expected_psn, mtu): (Psn, Mtu)) -> bool {
    if packet.packets() == 1 {
        return true;
    }
    // CAST: A super-packet has less than 64 KiB.
    let len = packet.payload_len() as u32;
    let position = packet.opcode().position();
    packet.psn() == expected_psn && mtu.allows_super_packet(position, packet.packets(), len)
}

/// Returns the length of the packets in bytes of UDP payload, as on the wire.
#[inline]
pub(crate) fn wire_len(rx: &RxPacket<'_>, packet: &Packet<'_>) -> usize {
    let Some(longest) = rx.skb().longest_packet() else {
        return rx.udp_payload_len();
    };
    let mtu = Mtu::of_longest_packet(longest.into());
    mtu.map_or(0, |mtu| packet.wire_len(mtu))
}

/// Returns the headers of a packet, as bytes and parsed.
#[inline]
fn parse<'a>(
    rx: &RxPacket<'a>,
    header_copy: &'a mut HeaderCopy,
) -> Result<(&'a [u8], Packet<'a>), DropReason> {
    let headers: &[u8] = rx.peek(header_copy).map_err(|_| DropReason::TooShort)?;
    let packet = match rx.skb().longest_packet() {
        Some(longest) => parse_entry(rx, headers, longest)?,
        None => Packet::parse(headers, rx.udp_payload_len())?,
    };
    Ok((headers, packet))
}

/// Returns the packets of an entry of a super-packet. Not inlined, so that the code of a packet stays small.
#[inline(never)]
fn parse_entry<'a>(
    rx: &RxPacket<'_>,
    headers: &'a [u8],
    longest: u16,
) -> Result<Packet<'a>, DropReason> {
    let size = SuperPacketSize {
        len: rx.udp_payload_len(),
        packets: rx.packets().into(),
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
    // All entries of a super-packet share the IP and UDP headers, which were checked with the first.
    if skip_icrc && rx.index() != 0 {
        return Ok(());
    }
    let masked = Masked::received(skb.ip_and_udp_header())?;
    if skip_icrc {
        return Ok(());
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
