// SPDX-License-Identifier: GPL-2.0

//! Conversion of planned packets to frames, and of frames to packets.

use super::*;

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

/// Coalesces the packet in frame `first` with the following ones of its message. Returns the
/// super-packet and the bytes of all.
pub(super) fn coalesce<'a>(
    mut packet: Packet<'a>,
    first: &[u8],
    following: &[Vec<u8>],
    mtu: Mtu,
) -> (Packet<'a>, Vec<u8>) {
    let mut bytes = first.to_vec();
    for frame in following {
        let Ok(next) = Packet::parse(frame, frame.len() + 4) else {
            break;
        };
        let Some(coalesced) = packet.coalesce(&next, mtu) else {
            break;
        };
        packet = coalesced;
        bytes.extend_from_slice(&frame[next.payload_offset()..]);
    }
    (packet, bytes)
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
