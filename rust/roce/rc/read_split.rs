// SPDX-License-Identifier: GPL-2.0

//! How a long READ is asked for: in parts, each by a request of its own.
//!
//! Nothing but the request itself limits what a responder sends: a READ of 64 MiB that is asked for at once comes as
//! fast as the peer can, past every queue on the way, and what is lost of it is known late. Parts are asked for as the
//! window allows, like WRITEs. Where a part ends follows from its READ alone: after a loss the peer repeats what it was
//! asked for before, and takes anything else for a mistake.
//!
//! Owns the cut. Does not know what is in flight.

use super::attributes::FlowLimit;
use crate::segmentation::tx_desc::{
    BurstLimit,
    Mtu, //
};
use core::num::NonZeroU32;

/// In how many parts a window is filled, where the peer serves as many.
const MANY: u32 = 8;

/// How READs are cut: into so many packets at most. Packets are counted from the start of a READ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReadSplit(NonZeroU32);

impl ReadSplit {
    /// None is cut.
    pub(super) const WHOLE: Self = Self(NonZeroU32::MAX);

    /// Parts of `most` packets, at least of one.
    pub(super) const fn of(most: u32) -> Self {
        match NonZeroU32::new(most) {
            Some(most) => Self(most),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// Parts for a READ that begins when so much may be in flight, to a peer that serves `depth` at a time. As many as
    /// that, or as are of use, fill the window: of one that is lost at its end, others behind it tell.
    pub(super) fn filling(FlowLimit { bytes, packets }: FlowLimit, depth: u8, mtu: Mtu) -> Self {
        let shift = u32::from(depth).min(MANY).checked_ilog2().unwrap_or(0);
        let share = BurstLimit {
            bytes: bytes.wrapping_shr(shift),
            packets: packets.wrapping_shr(shift),
        };
        Self::of(share.full_packets(mtu))
    }

    /// Returns before which packet the part ends to which packet `index` of `packets` belongs.
    #[inline]
    pub(super) fn end(self, index: u32, packets: u32) -> u32 {
        let before = index / self.0;
        let end = before.saturating_add(1).saturating_mul(self.0.get());
        end.min(packets)
    }

    /// Returns how many parts end where packets `from` to `to` of `packets` do, the last not included, or between.
    #[inline]
    pub(super) fn ended(self, from: u32, to: u32, packets: u32) -> u32 {
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
    fn parts_lie_one_after_the_other() {
        for most in 1..6 {
            let parts = ReadSplit::of(most);
            for packets in 1..20 {
                for index in 0..packets {
                    let end = parts.end(index, packets);
                    assert!(index < end && end <= packets, "{most} {packets} {index}");
                    assert!(
                        end == packets || end % most == 0,
                        "{most} {packets} {index}"
                    );
                    assert!(end - index <= most, "{most} {packets} {index}");
                    assert_eq!(parts.end(end - 1, packets), end, "of all its packets");
                }
            }
        }
    }

    #[test]
    fn each_part_ends_once() {
        for most in 1..6 {
            let parts = ReadSplit::of(most);
            for packets in 1..20 {
                for to in 0..=packets {
                    for from in 0..=to {
                        let ends =
                            (from + 1..=to).filter(|end| parts.end(end - 1, packets) == *end);
                        assert_eq!(parts.ended(from, to, packets), ends.count() as u32);
                    }
                }
            }
        }
    }

    #[test]
    fn as_many_as_the_peer_serves_fill_the_window() {
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
                    ReadSplit::filling(flow, depth, mtu),
                    ReadSplit::of(packets),
                    "{depth}"
                );
            }
        }
        let little = FlowLimit {
            bytes: 8192,
            packets: 256,
        };
        assert_eq!(
            ReadSplit::filling(little, 1, Mtu::Mtu4096),
            ReadSplit::of(2)
        );
        assert_eq!(
            ReadSplit::filling(little, 8, Mtu::Mtu4096),
            ReadSplit::of(1)
        );
    }

    #[test]
    fn the_longest_read_may_stay_whole() {
        assert_eq!(ReadSplit::WHOLE.end(0, 1 << 23), 1 << 23);
        assert_eq!(ReadSplit::WHOLE.ended(0, 1 << 23, 1 << 23), 1);
        assert_eq!(ReadSplit::of(0), ReadSplit::of(1));
    }
}
