// SPDX-License-Identifier: GPL-2.0

//! On-demand memory: a region of a process whose pages are not pinned (ODP).
//!
//! The region is divided into chunks of 2 MiB, each an [`HmmRange`], which are created on first use. So a
//! region may cover the whole address space (implicit ODP). Access is for any context except hard interrupts
//! and fails if a page is absent; faulting in sleeps.

use crate::mm::{
    extents::{
        chunk_addresses,
        chunk_of,
        ChunkRanges, //
    },
    hmm_range::{
        Fetch,
        HmmRange, //
    }, //
};
use crate::{
    bindings,
    sync::{
        rcu_table::RcuTable,
        read_section::ReadSection, //
    }, //
};
use kernel::{
    current,
    mm::{
        Mm,
        MmWithUser, //
    },
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    }, //
};

/// Chunks of one region, at most. Each takes about 4 KiB of kernel memory, charged to the process. A process
/// that uses more addresses at a time has more faults.
const MAX_CHUNKS: usize = 8192;

/// Rights that require writable memory, as in C (`ib_access_writable()`).
pub(super) const WRITABLE: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_MW_BIND;

/// The right that requires persistent memory.
pub(super) const PERSISTENT: u32 = bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;

/// On-demand memory of a process.
#[pin_data]
pub struct OnDemand {
    mm: ARef<Mm>,
    /// Address of the first byte.
    start: u64,
    len: u64,
    writable: bool,
    /// Chunks, numbered from the one that contains the first byte.
    #[pin]
    chunks: RcuTable<HmmRange>,
    #[pin]
    chunk_list: Mutex<ChunkList>,
}

/// The existing chunks. Once there are [`MAX_CHUNKS`], a new one replaces the oldest.
struct ChunkList {
    numbers: KVVec<u64>,
    /// Index of the chunk to be replaced next.
    oldest: usize,
}

impl OnDemand {
    /// Creates a region of `len` bytes at `start` of the calling process, writable if `writable` is set. Does
    /// not check that the process has memory there.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: `len` is 0, or the range wraps around the address space.
    /// - `ENOMEM`.
    pub fn new(start: u64, len: u64, writable: bool) -> Result<Arc<Self>> {
        if len == 0 || start.checked_add(len).is_none() {
            return Err(EINVAL);
        }
        let task = current!();
        let mm: &Mm = task.mm().ok_or(EINVAL)?;
        Arc::pin_init(
            pin_init!(Self {
                mm: ARef::from(mm),
                start,
                len,
                writable,
                chunks <- RcuTable::new(),
                chunk_list <- new_mutex!(ChunkList {
                    numbers: KVVec::new(),
                    oldest: 0,
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Creates a region of the whole address space of the calling process (implicit ODP); an offset is an
    /// address.
    pub fn implicit(writable: bool) -> Result<Arc<Self>> {
        Self::new(0, u64::MAX, writable)
    }

    /// Returns whether a region with the rights `access` (`enum ib_access_flags`) can use this memory.
    pub(super) fn allows(&self, access: u32) -> bool {
        let on_demand = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;
        // Pages that are faulted in later may not be persistent.
        access & (on_demand | PERSISTENT) == on_demand && (self.writable || access & WRITABLE == 0)
    }

    /// Returns address and length if the memory belongs to the calling process.
    pub(super) fn user_range(&self) -> Option<(u64, u64)> {
        let task = current!();
        let is_current = task.mm()?.as_raw() == self.mm.as_raw();
        is_current.then_some((self.start, self.len))
    }

    /// Calls `f` with each piece of the `len` bytes at `offset`: for reading, and for writing if `write` is
    /// set. For any context except hard interrupts.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: a page is absent; `f` was called for the pieces before it.
    /// - `EFAULT`: the range ends beyond the region.
    /// - `EACCES`: `write` is set, and the region is read-only.
    /// - Any error of `f`.
    pub(super) fn for_each_piece(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        let guard = ReadSection::enter();
        for addresses in self.chunk_ranges(offset, len as u64, write)? {
            let number = self.number_of(addresses.start);
            let chunk = self.chunks.get(number, &guard).ok_or(EAGAIN)?;
            // CAST: `u64` to `usize`, which has 64 bits. At most the parameter `len`.
            let len = addresses.end.wrapping_sub(addresses.start) as usize;
            chunk.for_each_piece(addresses.start, len, write, &mut f)?;
        }
        Ok(())
    }

    /// Faults in the pages of `len` bytes at `offset`. Sleeps.
    ///
    /// # Errors
    ///
    /// - `EFAULT`, `EPERM`: the process has no such memory there or has exited, or the range ends beyond the
    ///   region.
    /// - `EACCES`: a write fault, and the region is read-only.
    /// - `EBUSY`: invalidations interrupted every try.
    /// - `EINTR`: a signal is pending.
    /// - `ENOMEM`.
    pub fn fault(&self, offset: u64, len: u64, fetch: Fetch) -> Result {
        let ranges = self.chunk_ranges(offset, len, fetch == Fetch::Write)?;
        let mm = self.mm.mmget_not_zero().ok_or(EFAULT)?;
        let result = self.fault_ranges(ranges, &mm, fetch);
        // If this is the last user, the address space is torn down asynchronously, not here.
        drop(MmWithUser::into_mmput_async(mm));
        result
    }

    fn fault_ranges(&self, ranges: ChunkRanges, mm: &MmWithUser, fetch: Fetch) -> Result {
        let _memcg = MemcgScope::enter(mm);
        for addresses in ranges {
            if current!().signal_pending() {
                return Err(EINTR);
            }
            let chunk = self.chunk(self.number_of(addresses.start), mm)?;
            let len = addresses.end.wrapping_sub(addresses.start);
            chunk.fault(addresses.start, len, fetch)?;
        }
        Ok(())
    }

    /// Returns the addresses of `len` bytes at `offset`, split at chunk boundaries.
    fn chunk_ranges(&self, offset: u64, len: u64, write: bool) -> Result<ChunkRanges> {
        let ranges = ChunkRanges::new(self.start, self.len, offset, len).ok_or(EFAULT)?;
        if write && !self.writable {
            return Err(EACCES);
        }
        Ok(ranges)
    }

    /// Returns the number of the chunk that contains `address`.
    fn number_of(&self, address: u64) -> u64 {
        chunk_of(self.start, address)
    }

    /// Returns chunk `number`, and creates it if it does not exist. Sleeps.
    fn chunk(&self, number: u64, mm: &MmWithUser) -> Result<Arc<HmmRange>> {
        if let Some(chunk) = self.existing(number) {
            return Ok(chunk);
        }
        let mut list = self.chunk_list.lock();
        if let Some(chunk) = self.existing(number) {
            return Ok(chunk);
        }
        let addresses = chunk_addresses(self.start, self.len, number).ok_or(EFAULT)?;
        let chunk = Arc::pin_init(HmmRange::new(mm, addresses), GFP_KERNEL_ACCOUNT)?;
        if list.numbers.len() < MAX_CHUNKS {
            list.numbers.push(number, GFP_KERNEL_ACCOUNT)?;
        } else {
            let ChunkList { numbers, oldest } = &mut *list;
            let replaced = numbers.get_mut(*oldest).ok_or(EINVAL)?;
            // Waits for copies by way of the replaced chunk.
            drop(self.chunks.remove(core::mem::replace(replaced, number)));
            *oldest = oldest.wrapping_add(1) % MAX_CHUNKS;
        }
        self.chunks.insert_at(number, chunk.clone())?;
        Ok(chunk)
    }

    fn existing(&self, number: u64) -> Option<Arc<HmmRange>> {
        let guard = ReadSection::enter();
        self.chunks.borrow(number, &guard).map(Arc::from)
    }
}

/// While it exists, accounted allocations of this task are charged to the memory cgroup of another process,
/// not to that of the current one.
struct MemcgScope {
    memcg: *mut bindings::mem_cgroup,
    before: *mut bindings::mem_cgroup,
}

impl MemcgScope {
    fn enter(mm: &MmWithUser) -> Self {
        // SAFETY: `mm` is valid. C returns a counted cgroup, which `drop` releases only after it has restored
        // the previous one, so the active cgroup is always valid. The previous one is held by its own scope.
        unsafe {
            let memcg = bindings::ferroce_helper_get_mem_cgroup_from_mm(mm.as_raw());
            let before = bindings::ferroce_helper_set_active_memcg(memcg);
            Self { memcg, before }
        }
    }
}

impl Drop for MemcgScope {
    fn drop(&mut self) {
        // SAFETY: Scopes nest within one task, so `before` is still valid and the active cgroup is `memcg`,
        // whose reference is owned.
        unsafe {
            bindings::ferroce_helper_set_active_memcg(self.before);
            bindings::ferroce_helper_mem_cgroup_put(self.memcg);
        }
    }
}
