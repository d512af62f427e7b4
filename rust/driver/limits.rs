// SPDX-License-Identifier: GPL-2.0

//! Limits that a device reports and that the verbs enforce.
//!
//! Several verbs check their arguments against these constants, and `query_device` reports the same numbers.
//! Each is the largest value that the user ABI can express, or bounds the kernel memory that one object may
//! take.

pub(crate) use roce::wr::MAX_MESSAGE_BYTES;

/// Scatter/gather entries of one work request.
pub(crate) const MAX_SGE: u32 = 32;

/// Inline data of one work request: the space that [`MAX_SGE`] scatter/gather entries take.
pub(crate) const MAX_INLINE_BYTES: u32 = MAX_SGE * 16;

/// Entries of an SQ, RQ or SRQ, as many as adapters have. A ring has a power of two of slots, and one slot stays free,
/// so the largest ring has twice as many.
pub(crate) const MAX_WR: u32 = 1 << 15;

/// Entries of a CQ, as many as adapters have.
pub(crate) const MAX_CQE: u32 = (1 << 22) - 1;

/// Outstanding RDMA READ and atomic requests of a QP, in each direction.
pub(crate) const MAX_RD_ATOMIC: u8 = 128;

/// As [`MAX_RD_ATOMIC`], but as the device reports it: the depth of adapters. Some libraries (UCX) do not exchange
/// depths, and expect of the peer what their own device has.
pub(crate) const MAX_REPORTED_RD_ATOMIC: u8 = 16;

/// Memory regions: half of the 2^24 key indices. Regions and windows share the index space, so a device may
/// have more of one kind if it has fewer of the other.
pub(crate) const MAX_MR: u32 = 1 << 23;

/// Memory windows: the other half of the key indices, without index 0.
pub(crate) const MAX_MW: u32 = MAX_MR - 1;

/// Pages of a memory region for fast registration.
pub(crate) const MAX_FAST_REG_PAGES: u32 = 512;

/// Multicast groups of a port.
pub(crate) const MAX_MCAST_GROUPS: u32 = 512;

/// QPs attached to one multicast group.
pub(crate) const MAX_MCAST_ATTACHED: u32 = 64;

/// Entries of the GID table.
pub(crate) const MAX_GIDS: u32 = 1024;

/// Clock of the timestamps of completions, in kHz: they are nanoseconds.
pub(crate) const TIMESTAMP_KHZ: u64 = 1_000_000;

/// Objects of each other kind (QP, CQ, SRQ, PD, AH). Reported as rdma_rxe reports it, but not enforced.
pub(crate) const MAX_OBJECTS: u32 = 1 << 20;
