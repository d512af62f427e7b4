// SPDX-License-Identifier: GPL-2.0

//! Tells GRO which packets it may join. The rules are those of [`roce::segmentation::gro`].

use rdma::net::rx::receive::{
    GroPacket,
    BTH_PEEK_LEN, //
};
use roce::{
    segmentation::gro,
    wire::bth::BTH_LEN, //
};

const _: () = assert!(BTH_PEEK_LEN == BTH_LEN);

/// A packet that GRO asks about.
pub(crate) struct RoceGroPacket(gro::GroHeader);

impl GroPacket for RoceGroPacket {
    #[inline]
    fn parse(first: &[u8; BTH_PEEK_LEN]) -> Option<Self> {
        gro::GroHeader::parse(first).map(Self)
    }

    #[inline]
    fn is_same_stream(&self, other: &Self) -> bool {
        self.0.is_same_stream(&other.0)
    }

    #[inline]
    fn can_join(&self) -> bool {
        self.0.can_join()
    }

    #[inline]
    fn follows(&self, last: &Self) -> bool {
        self.0.follows(&last.0)
    }

    #[inline]
    fn is_urgent(&self) -> bool {
        self.0.is_urgent()
    }
}
