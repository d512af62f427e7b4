// SPDX-License-Identifier: GPL-2.0

//! Conversion of planned packets to frames, and of frames to packets.

use super::*;
use roce::{
    segmentation::{
        gso::MAX_COALESCED_PACKETS,
        super_packet::SuperPacketSize, //
    },
    wire::{
        bth::BTH_LEN,
        icrc::ICRC_LEN,
        opcode::{
            Opcode,
            Position, //
        }, //
    }, //
};

/// Returns the payload of a request.
///
/// # Errors
///
/// Memory not present, or the slot and final status of a request with invalid memory.
pub(super) fn request_payload(
    desc: &TxDesc,
    memory: &Memory,
    locals: &[Option<u64>],
    page_faults: &mut PageFaults,
) -> Result<Vec<u8>, Obstacle<(SlotIndex, WcStatus)>> {
    match desc.source {
        TxPayload::Value(number) => Ok(number.to_ne_bytes().to_vec()),
        TxPayload::Slot(slot) => {
            let va = locals[u32_as_usize(slot.0)]
                .ok_or(Obstacle::Refused((slot, WcStatus::LocProtErr)))?;
            if page_faults.occurs() {
                return Err(Obstacle::Absent);
            }
            let (at, len) = (va + u64::from(desc.offset), u32_as_usize(desc.length));
            Ok(memory.get(at, len).to_vec())
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns the payload of a request, without page faults.
pub(super) fn payload_if_present(
    desc: &TxDesc,
    memory: &Memory,
    locals: &[Option<u64>],
) -> Vec<u8> {
    let mut no_faults = PageFaults {
        random: Random::new(0),
        per_mille: 0,
    };
    request_payload(desc, memory, locals, &mut no_faults).unwrap_or_default()
}

/// Returns the frames of the packets of `desc`.
pub(super) fn split<'a>(
    desc: &TxDesc,
    mtu: Mtu,
    payload: &'a [u8],
) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let mut packets = desc.split(mtu);
    let mut left = payload;
    std::iter::from_fn(move || {
        let (headers, length) = packets.advance()?;
        let (now, later) = left.split_at(u32_as_usize(length));
        left = later;
        Some(frame_of(headers, now))
    })
}

/// Returns the super-packet of the first frames, as many as belong to one message, and the number of its packets.
pub(super) fn coalesce(frames: &[Vec<u8>], mtu: Mtu) -> (Vec<u8>, u32) {
    let packets: Vec<_> = frames
        .iter()
        .map_while(|frame| Packet::parse(frame, frame.len() + 4).ok())
        .collect();
    let first = &packets[0];
    let full = u32_as_usize(mtu.bytes());
    let continues = |&(last, next): &(&Packet<'_>, &Packet<'_>)| {
        let (preceding, following) = (last.opcode(), next.opcode());
        let requests_nothing = !last.ack_request() && !last.solicited();
        last.payload_len() == full
            && requests_nothing
            && !preceding.ends_message()
            && !following.starts_message()
            && following.operation() == preceding.operation()
            && next.psn() == last.psn().next()
            && (1..=full).contains(&next.payload_len())
            && (following.ends_message() || next.payload_len() == full)
            && next.payload_offset() == BTH_LEN
    };
    let joined = packets.iter().zip(&packets[1..]).take_while(continues);
    let count = (joined.count() + 1).min(u32_as_usize(MAX_COALESCED_PACKETS));
    let last = &packets[count - 1];

    let position = match (
        first.opcode().starts_message(),
        last.opcode().ends_message(),
    ) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    let opcode = first.opcode();
    let opcode = Opcode::of(
        opcode.service(),
        opcode.operation(),
        position,
        opcode.has_imm(),
    );
    let mut bytes = frames[0][..first.payload_offset()].to_vec();
    bytes[0] = opcode.map_or(bytes[0], Opcode::to_byte);
    // AckReq and the solicited-event bit are those of the last packet.
    let last_frame = &frames[count - 1];
    bytes[1] = bytes[1] & 0x7f | last_frame[1] & 0x80;
    bytes[8] = bytes[8] & 0x7f | last_frame[8] & 0x80;
    for (frame, packet) in frames.iter().zip(&packets).take(count) {
        bytes.extend_from_slice(&frame[packet.payload_offset()..][..packet.payload_len()]);
    }
    (bytes, count as u32)
}

/// Parses what [`coalesce`] has returned.
pub(super) fn parse_coalesced(bytes: &[u8], packets: u32, mtu: Mtu) -> Packet<'_> {
    let size = SuperPacketSize {
        len: bytes.len(),
        packets,
        longest: BTH_LEN + u32_as_usize(mtu.bytes()) + ICRC_LEN,
    };
    let (packet, _) = Packet::parse_super_packet(bytes, size).unwrap();
    packet
}

/// Returns the frame of a packet or super-packet.
pub(super) fn frame(desc: &TxDesc, payload: &[u8]) -> Vec<u8> {
    assert_eq!(payload.len(), u32_as_usize(desc.length));
    frame_of(&desc.headers.emit(payload.len()), payload)
}

fn frame_of(headers: &HeaderBuf, payload: &[u8]) -> Vec<u8> {
    let mut frame = headers.as_slice().to_vec();
    frame.extend_from_slice(payload);
    frame.resize(frame.len().next_multiple_of(4), 0);
    frame
}
