// SPDX-License-Identifier: GPL-2.0

//! Every limit that a device reports, or that a verb checks its arguments against.
//!
//! A limit that is not the hardware's own (there is none) is either what the user ABI can express or as large as
//! kernel memory on behalf of one user may sensibly grow; the caps that `query_device` reports are these numbers.

/// Longest message, in bytes (C9-87: 2^31).
pub(crate) const MAX_MESSAGE: u32 = 1 << 31;

/// Most scatter/gather entries of one work request.
pub(crate) const MAX_SGE: u32 = 32;

/// Most bytes of inline data of one work request: the room that [`MAX_SGE`] entries take.
pub(crate) const MAX_INLINE: u32 = MAX_SGE * 16;

/// Most entries of a send, receive or shared receive queue: a ring has a power of two of slots, one of which stays
/// free.
pub(crate) const MAX_WR: u32 = (1 << 14) - 1;

/// Most entries of a completion queue.
pub(crate) const MAX_CQE: u32 = (1 << 20) - 1;

/// Most RDMA READ and atomic requests in flight, in each direction of a queue pair.
pub(crate) const MAX_RD_ATOMIC: u8 = 128;

/// Most memory regions: half of the keys that 24 bits of index allow.
pub(crate) const MAX_MR: u32 = 1 << 23;

/// Most memory windows: the other half, without index 0.
pub(crate) const MAX_MW: u32 = MAX_MR - 1;

/// Most pages of a region that a kernel consumer registers by a work request.
pub(crate) const MAX_FAST_REG_PAGES: u32 = 512;

/// Most multicast groups of a port.
pub(crate) const MAX_MCAST_GROUPS: u32 = 512;

/// Most queue pairs attached to one multicast group.
pub(crate) const MAX_MCAST_ATTACHED: u32 = 64;

/// Entries of the GID table.
pub(crate) const MAX_GIDS: u32 = 1024;

/// Most objects of each other kind (QP, CQ, SRQ, PD, AH): each costs little, and rdma_rxe reports as many.
pub(crate) const MAX_OBJECTS: u32 = 1 << 20;
