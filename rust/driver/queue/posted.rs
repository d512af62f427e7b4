// SPDX-License-Identifier: GPL-2.0

//! Work requests with scatter lists or inline data, copied and kept in order.
//!
//! Owns the ring of copies, which has room for the longest list of each; inline data stands in the same
//! room. Does not know what the requests ask for; whoever shares a backlog locks it.

use crate::{
    abi::{
        self,
        wqe::WqeSge, //
    },
    queue::fifo::Fifo, //
};
use kernel::prelude::*;
use rdma::{
    ib::wr::{
        InlineData,
        SgeList, //
    },
    util::alloc::gfp_user, //
};

/// Requests of a consumer in the kernel that wait.
pub(crate) struct PostedFifo<T> {
    heads: Fifo<Head<T>>,
    /// Scatter lists or inline data, each with the room of the longest list.
    lists: KVVec<WqeSge>,
    max_sge: usize,
    /// Which of them is next.
    next: usize,
}

/// A request without its scatter list or data.
struct Head<T> {
    request: T,
    /// Where that is, and how many entries of it are in use.
    slot: usize,
    entries: usize,
}

impl<T> PostedFifo<T> {
    /// Room for `max_wr` requests with up to `max_sge` entries each, or as many bytes of inline data as
    /// fit there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let (slots, max_sge) = (max_wr as usize, max_sge as usize);
        let lists = slots.checked_mul(max_sge).ok_or(ENOMEM)?;
        Ok(Self {
            heads: Fifo::new(max_wr)?,
            lists: KVVec::from_elem(WqeSge::default(), lists, gfp_user())?,
            max_sge,
            next: 0,
        })
    }

    /// Adds the request that `request` makes of the length of its message, in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its scatter list is too long, in entries or in bytes; `ENOMEM` if there is no room.
    pub(crate) fn push(&mut self, sges: &SgeList<'_>, request: impl FnOnce(u32) -> T) -> Result {
        self.add(sges.len(), |room| {
            for (to, from) in room.iter_mut().zip(sges.iter()) {
                *to = from.into();
            }
            abi::wqe::total_length(room).map(request).ok_or(EINVAL)
        })
    }

    /// Adds `request` with a copy of `data`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room for so much; `ENOMEM` if there is none at all.
    pub(crate) fn push_inline(&mut self, data: &InlineData<'_>, request: T) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        let bytes = data.len() as usize;
        self.add(bytes.div_ceil(size_of::<WqeSge>()), |room| {
            data.copy_to(room.as_mut_bytes().get_mut(..bytes).ok_or(EINVAL)?)?;
            Ok(request)
        })
    }

    /// Adds the request that `fill` makes when it has filled room of so many entries.
    fn add(&mut self, entries: usize, fill: impl FnOnce(&mut [WqeSge]) -> Result<T>) -> Result {
        if entries > self.max_sge {
            return Err(EINVAL);
        }
        if self.len() >= self.capacity() {
            return Err(ENOMEM);
        }
        let slot = self.next;
        let room = list(&mut self.lists, slot, self.max_sge);
        let head = Head {
            request: fill(room.get_mut(..entries).ok_or(EINVAL)?)?,
            slot,
            entries,
        };
        self.heads.push(head).map_err(|_| ENOMEM)?;
        // CAST: `u32` to `usize`, on 64 bits.
        let slots = self.capacity() as usize;
        self.next = slot.wrapping_add(1).checked_rem(slots).unwrap_or(0);
        Ok(())
    }

    /// The oldest request.
    pub(crate) fn first(&self) -> Option<&T> {
        self.heads.first().map(|head| &head.request)
    }

    /// Takes the oldest request; its scatter list or data goes to where `room` says, which is asked for as
    /// many entries as it has.
    pub(crate) fn take<'a>(
        &mut self,
        room: impl FnOnce(usize) -> Option<&'a mut [WqeSge]>,
    ) -> Option<T> {
        let Head {
            request,
            slot,
            entries,
        } = self.heads.pop()?;
        let from = list(&mut self.lists, slot, self.max_sge);
        for (to, from) in room(entries)?.iter_mut().zip(from) {
            *to = *from;
        }
        Some(request)
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> u32 {
        self.heads.len()
    }

    /// Most requests that can wait.
    pub(crate) fn capacity(&self) -> u32 {
        self.heads.capacity()
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        while self.heads.pop().is_some() {}
    }
}

/// The room of one scatter list.
fn list(lists: &mut [WqeSge], slot: usize, max_sge: usize) -> &mut [WqeSge] {
    let start = slot.saturating_mul(max_sge);
    lists
        .get_mut(start..start.saturating_add(max_sge))
        .unwrap_or_default()
}
