// SPDX-License-Identifier: GPL-2.0

//! A FIFO of posted work requests of a ULP, each with a copy of its scatter/gather list or inline data. The
//! owner locks it.

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
    util::alloc::{
        table,
        Table, //
    }, //
};

/// Posted work requests of a ULP.
pub(crate) struct PostedFifo<T> {
    entries: Fifo<PostedEntry<T>>,
    /// Scatter/gather lists or inline data: `max_sge` entries for each slot.
    bodies: Table<WqeSge>,
    max_sge: usize,
    /// Slot of `bodies` for the next request.
    next_slot: usize,
}

/// A request, without its scatter/gather list or data.
struct PostedEntry<T> {
    request: T,
    /// Slot of its body, and the SGEs in use there.
    slot: usize,
    used_sges: usize,
}

impl<T> PostedFifo<T> {
    /// Creates a FIFO for `max_wr` requests, each with up to `max_sge` SGEs or the same number of bytes of
    /// inline data.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let (slots, max_sge) = (max_wr as usize, max_sge as usize);
        let bodies = slots.checked_mul(max_sge).ok_or(ENOMEM)?;
        Ok(Self {
            entries: Fifo::new(max_wr)?,
            bodies: table(WqeSge::default(), bodies)?,
            max_sge,
            next_slot: 0,
        })
    }

    /// Adds the request that `request` returns for the length of its message, in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if its list has too many SGEs or describes too many bytes; `ENOMEM` if the FIFO is full.
    pub(crate) fn push(&mut self, sges: &SgeList<'_>, request: impl FnOnce(u32) -> T) -> Result {
        self.push_with(sges.len(), |body| {
            for (to, from) in body.iter_mut().zip(sges.iter()) {
                *to = from.into();
            }
            abi::wqe::total_length(body).map(request).ok_or(EINVAL)
        })
    }

    /// Adds `request` with a copy of `data`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the data is too long; `ENOMEM` if the FIFO is full.
    pub(crate) fn push_inline(&mut self, data: &InlineData<'_>, request: T) -> Result {
        // CAST: `u32` to `usize`, on 64 bits.
        let bytes = data.len() as usize;
        self.push_with(bytes.div_ceil(size_of::<WqeSge>()), |body| {
            data.copy_to(body.as_mut_bytes().get_mut(..bytes).ok_or(EINVAL)?)?;
            Ok(request)
        })
    }

    /// Adds the request that `fill` returns after it has filled a body of `used_sges` SGEs.
    fn push_with(
        &mut self,
        used_sges: usize,
        fill: impl FnOnce(&mut [WqeSge]) -> Result<T>,
    ) -> Result {
        if used_sges > self.max_sge {
            return Err(EINVAL);
        }
        if self.len() >= self.capacity() {
            return Err(ENOMEM);
        }
        let slot = self.next_slot;
        let body = body_of(&mut self.bodies, slot, self.max_sge);
        let entry = PostedEntry {
            request: fill(body.get_mut(..used_sges).ok_or(EINVAL)?)?,
            slot,
            used_sges,
        };
        self.entries.push(entry).map_err(|_| ENOMEM)?;
        // CAST: `u32` to `usize`, on 64 bits.
        let slots = self.capacity() as usize;
        self.next_slot = slot.wrapping_add(1).checked_rem(slots).unwrap_or(0);
        Ok(())
    }

    /// Returns the oldest request.
    pub(crate) fn first(&self) -> Option<&T> {
        self.entries.first().map(|entry| &entry.request)
    }

    /// Takes the oldest request. `body` receives the number of its SGEs, and returns where to copy its body.
    pub(crate) fn take<'a>(
        &mut self,
        body: impl FnOnce(usize) -> Option<&'a mut [WqeSge]>,
    ) -> Option<T> {
        let PostedEntry {
            request,
            slot,
            used_sges,
        } = self.entries.pop()?;
        let from = body_of(&mut self.bodies, slot, self.max_sge);
        for (to, from) in body(used_sges)?.iter_mut().zip(from) {
            *to = *from;
        }
        Some(request)
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Returns the maximum number of requests.
    pub(crate) fn capacity(&self) -> u32 {
        self.entries.capacity()
    }

    /// Discards all requests.
    pub(crate) fn clear(&mut self) {
        while self.entries.pop().is_some() {}
    }
}

/// Returns the body in `slot`.
fn body_of(bodies: &mut [WqeSge], slot: usize, max_sge: usize) -> &mut [WqeSge] {
    let start = slot.saturating_mul(max_sge);
    bodies
        .get_mut(start..start.saturating_add(max_sge))
        .unwrap_or_default()
}
