// SPDX-License-Identifier: GPL-2.0

//! READ split: a long READ is requested in parts, each with a READ request of its own.
//!
//! Only the request limits what a responder sends. A READ of 64 MiB in one request arrives as fast
//! as the peer can send, overflows queues in the network, and its losses are detected late. Parts
//! are requested as the window allows, like WRITEs.
//!
//! The end of a part depends only on its READ: after a loss, the responder accepts only requests
//! that match the earlier ones and NAKs all others.

use super::config::FlowLimit;
use crate::segmentation::{
    mtu::Mtu,
    tx_desc::BurstLimit, //
};
use core::num::NonZeroU32;

/// Most parts that share a window, if the peer serves that many.
const MAX_PARTS_PER_WINDOW: u32 = 8;

/// The length of the parts of a READ, in packets. Packets are counted from the start of the READ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReadSplit(NonZeroU32);

impl ReadSplit {
    /// No split: one request for the whole READ.
    pub(super) const WHOLE: Self = Self(NonZeroU32::MAX);

    /// Returns a split into parts of `packets` packets, at least one.
    pub(super) const fn of(packets: u32) -> Self {
        match NonZeroU32::new(packets) {
            Some(packets) => Self(packets),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// Returns the split for a READ that begins now, with the given limit and a peer that serves
    /// `depth` requests at a time. Several parts fill the window, so that the response to the next
    /// part reveals a loss at the end of a part.
    pub(super) fn for_window(FlowLimit { bytes, packets }: FlowLimit, depth: u8, mtu: Mtu) -> Self {
        let shift = u32::from(depth)
            .min(MAX_PARTS_PER_WINDOW)
            .checked_ilog2()
            .unwrap_or(0);
        let share = BurstLimit {
            bytes: bytes.wrapping_shr(shift),
            packets: packets.wrapping_shr(shift),
        };
        Self::of(share.full_packets(mtu))
    }

    /// Returns the end (exclusive) of the part that contains packet `index` of `packets`.
    #[inline]
    pub(super) fn part_end(self, index: u32, packets: u32) -> u32 {
        let before = index / self.0;
        let end = before.saturating_add(1).saturating_mul(self.0.get());
        end.min(packets)
    }

    /// Returns the number of parts that end within packets `from` to `to` (exclusive) of `packets`.
    #[inline]
    pub(super) fn parts_ended(self, from: u32, to: u32, packets: u32) -> u32 {
        let ended = |index: u32| match index == packets {
            true => packets.div_ceil(self.0.get()),
            false => index / self.0,
        };
        ended(to).saturating_sub(ended(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_consecutive() {
        for part_packets in 1..6 {
            let split = ReadSplit::of(part_packets);
            for packets in 1..20 {
                for index in 0..packets {
                    let end = split.part_end(index, packets);
                    assert!(
                        index < end && end <= packets,
                        "{part_packets} {packets} {index}"
                    );
                    assert!(
                        end == packets || end % part_packets == 0,
                        "{part_packets} {packets} {index}"
                    );
                    assert!(
                        end - index <= part_packets,
                        "{part_packets} {packets} {index}"
                    );
                    assert_eq!(
                        split.part_end(end - 1, packets),
                        end,
                        "same for each of its packets"
                    );
                }
            }
        }
    }

    #[test]
    fn parts_ended_counts_each_part_once() {
        for part_packets in 1..6 {
            let split = ReadSplit::of(part_packets);
            for packets in 1..20 {
                for to in 0..=packets {
                    for from in 0..=to {
                        let ends =
                            (from + 1..=to).filter(|end| split.part_end(end - 1, packets) == *end);
                        assert_eq!(split.parts_ended(from, to, packets), ends.count() as u32);
                    }
                }
            }
        }
    }

    #[test]
    fn the_window_holds_as_many_parts_as_the_peer_serves() {
        let flow = FlowLimit {
            bytes: 1 << 20,
            packets: 256,
        };
        let depths = [
            (0, 256),
            (1, 256),
            (2, 128),
            (3, 128),
            (4, 64),
            (8, 32),
            (255, 32),
        ];
        for (depth, packets) in depths {
            for mtu in [Mtu::Mtu256, Mtu::Mtu4096] {
                assert_eq!(
                    ReadSplit::for_window(flow, depth, mtu),
                    ReadSplit::of(packets),
                    "{depth}"
                );
            }
        }
        let small = FlowLimit {
            bytes: 8192,
            packets: 256,
        };
        assert_eq!(
            ReadSplit::for_window(small, 1, Mtu::Mtu4096),
            ReadSplit::of(2)
        );
        assert_eq!(
            ReadSplit::for_window(small, 8, Mtu::Mtu4096),
            ReadSplit::of(1)
        );
    }

    #[test]
    fn the_longest_read_can_stay_unsplit() {
        assert_eq!(ReadSplit::WHOLE.part_end(0, 1 << 23), 1 << 23);
        assert_eq!(ReadSplit::WHOLE.parts_ended(0, 1 << 23, 1 << 23), 1);
        assert_eq!(ReadSplit::of(0), ReadSplit::of(1));
    }
}
