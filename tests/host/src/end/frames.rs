// SPDX-License-Identifier: GPL-2.0

//! From what the core plans to frames, and from frames to what the core takes.
//!
//! Owns how a run becomes frames, and how frames become a run again. Does not know what is in them.

use super::*;

/// What a request carries. If its own memory is bad, the slot that asked, and how it shall end.
pub(super) fn request_payload(
    segment: &TxDesc,
    memory: &Memory,
    locals: &[Option<u64>],
    absences: &mut Absences,
) -> Result<Vec<u8>, Obstacle<(SlotIndex, WcStatus)>> {
    match segment.source {
        TxPayload::Value(number) => Ok(number.to_ne_bytes().to_vec()),
        TxPayload::Slot(slot) => {
            let va = locals[u32_as_usize(slot.0)]
                .ok_or(Obstacle::Refused((slot, WcStatus::LocProtErr)))?;
            if absences.strike() {
                return Err(Obstacle::Absent);
            }
            let (at, len) = (va + u64::from(segment.offset), u32_as_usize(segment.length));
            Ok(memory.get(at, len).to_vec())
        }
        _ => Ok(Vec::new()),
    }
}

/// What a request whose memory is there carries.
pub(super) fn all_of_it(segment: &TxDesc, memory: &Memory, locals: &[Option<u64>]) -> Vec<u8> {
    let mut present = Absences {
        chances: Random::new(0),
        chance: 0,
    };
    request_payload(segment, memory, locals, &mut present).unwrap_or_default()
}

/// Returns the frames of the packets that `segment` stands for.
pub(super) fn split<'a>(
    segment: &TxDesc,
    mtu: Mtu,
    payload: &'a [u8],
) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let mut packets = segment.split(mtu);
    let mut left = payload;
    std::iter::from_fn(move || {
        let (headers, length) = packets.advance()?;
        let (now, later) = left.split_at(u32_as_usize(length));
        left = later;
        Some(frame_of(headers, now))
    })
}

/// Joins to a packet, which is in the first frame, those that go on with its message. Returns the bytes of all.
pub(super) fn join<'a>(
    mut packet: Packet<'a>,
    first: &[u8],
    behind: &[Vec<u8>],
    mtu: Mtu,
) -> (Packet<'a>, Vec<u8>) {
    let mut bytes = first.to_vec();
    for frame in behind {
        let Ok(next) = Packet::parse(frame, frame.len() + 4) else {
            break;
        };
        let Some(joined) = packet.coalesce(&next, mtu) else {
            break;
        };
        packet = joined;
        bytes.extend_from_slice(&frame[next.payload_offset()..]);
    }
    (packet, bytes)
}

/// Returns a frame from the BTH to the pad.
pub(super) fn frame(segment: &TxDesc, payload: &[u8]) -> Vec<u8> {
    assert_eq!(payload.len(), u32_as_usize(segment.length));
    frame_of(&segment.headers.emit(payload.len()), payload)
}

fn frame_of(headers: &HeaderBuf, payload: &[u8]) -> Vec<u8> {
    let mut frame = headers.as_slice().to_vec();
    frame.extend_from_slice(payload);
    frame.resize(frame.len().next_multiple_of(4), 0);
    frame
}
