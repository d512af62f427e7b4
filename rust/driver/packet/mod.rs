// SPDX-License-Identifier: GPL-2.0

//! One packet, in and out: parsed and verified, or built, segmented and sent along a path.
//!
//! May use: the folders above it in main.rs.

pub(crate) mod path;
pub(crate) mod rx_parse;
pub(crate) mod segmenter;
pub(crate) mod tx_packet;
