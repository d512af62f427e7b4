// SPDX-License-Identifier: GPL-2.0

//! Memory on demand: a region of a process whose pages are not pinned.
//!
//! Owns the chunks of such a region, which are made where memory is used, and not before: so a
//! region may be the whole address space (implicit on-demand paging). Looking at the pages is for
//! any context and may find that some are absent; bringing them in sleeps. Does not know keys,
//! rights or packets.

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
    sync::rcu_table::RcuTable, //
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
        rcu,
        Arc,
        Mutex, //
    }, //
};

/// Most chunks of a region. Each takes about 4 KiB of the kernel's memory, charged to the process.
/// Who uses more addresses at a time pays with more faults.
const MAX_CHUNKS: usize = 8192;

/// Rights for which memory has to be writable, as C has it (`ib_access_writable()`).
pub(super) const WRITABLE: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_MW_BIND;

/// The right for which memory has to be persistent.
pub(super) const PERSISTENT: u32 = bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;

/// A region of a process, without its pages.
#[pin_data]
pub struct OnDemand {
    mm: ARef<Mm>,
    /// The address of the first byte.
    start: u64,
    len: u64,
    writable: bool,
    /// By their distance from the chunk that has the first byte.
    #[pin]
    chunks: RcuTable<HmmRange>,
    #[pin]
    made: Mutex<Made>,
}

/// The chunks that were made, to be replaced in turn.
struct Made {
    numbers: KVVec<u32>,
    /// Place of the one to be replaced next.
    oldest: usize,
}

impl OnDemand {
    /// The `len` bytes at `start` of the calling process, to be written as well if `writable`. It is
    /// not looked at whether there is memory.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no bytes, or not in an address space; `ENOMEM`.
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
                made <- new_mutex!(Made {
                    numbers: KVVec::new(),
                    oldest: 0,
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Every address that the calling process has or will have; the offset is the address.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn everything(writable: bool) -> Result<Arc<Self>> {
        Self::new(0, u64::MAX, writable)
    }

    /// Whether the region can have the rights `access` (`enum ib_access_flags`) as it is.
    pub(super) fn allows(&self, access: u32) -> bool {
        let on_demand = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;
        // Nobody knows whether pages that will come are persistent.
        access & (on_demand | PERSISTENT) == on_demand && (self.writable || access & WRITABLE == 0)
    }

    /// Address and length, if the memory is the calling process's.
    pub(super) fn origin(&self) -> Option<(u64, u64)> {
        let task = current!();
        let mine = task.mm()?.as_raw() == self.mm.as_raw();
        mine.then_some((self.start, self.len))
    }

    /// Calls `f` with each piece of the `len` bytes at `offset`, to read them, or to write them if
    /// `write`. For any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: a page is not there; `f` was called for those before it. `EFAULT`: the region ends
    /// before. `EACCES`: it is not to be written.
    pub(super) fn walk(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize) -> Result,
    ) -> Result {
        let guard = rcu::read_lock();
        for addresses in self.parts(offset, len as u64, write)? {
            let number = self.number_of(addresses.start)?;
            let chunk = self.chunks.get(number, &guard).ok_or(EAGAIN)?;
            // CAST: No more than `len`.
            let len = addresses.end.wrapping_sub(addresses.start) as usize;
            chunk.walk(addresses.start, len, write, &mut f)?;
        }
        Ok(())
    }

    /// Brings in the pages of `len` bytes at `offset`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `EPERM`: the process has no such memory there, or is gone, or the region ends
    /// before; `EACCES`: it is not to be written; `EBUSY`: the pages were taken away again and
    /// again; `EINTR`: a signal is pending; `ENOMEM`.
    pub fn fault(&self, offset: u64, len: u64, fetch: Fetch) -> Result {
        let parts = self.parts(offset, len, fetch == Fetch::Write)?;
        let mm = self.mm.mmget_not_zero().ok_or(EFAULT)?;
        let result = self.fault_parts(parts, &mm, fetch);
        // The last to leave takes the process down, which is not for us to wait for.
        drop(MmWithUser::into_mmput_async(mm));
        result
    }

    fn fault_parts(&self, parts: ChunkRanges, mm: &MmWithUser, fetch: Fetch) -> Result {
        let _charge = Charge::to(mm);
        for addresses in parts {
            if current!().signal_pending() {
                return Err(EINTR);
            }
            let chunk = self.chunk(self.number_of(addresses.start)?, mm)?;
            let len = addresses.end.wrapping_sub(addresses.start);
            chunk.fault(addresses.start, len, fetch)?;
        }
        Ok(())
    }

    /// The addresses of `len` bytes at `offset`, cut where chunks meet.
    fn parts(&self, offset: u64, len: u64, write: bool) -> Result<ChunkRanges> {
        let parts = ChunkRanges::new(self.start, self.len, offset, len).ok_or(EFAULT)?;
        if write && !self.writable {
            return Err(EACCES);
        }
        Ok(parts)
    }

    /// The number of the chunk that has `address`.
    fn number_of(&self, address: u64) -> Result<u32> {
        chunk_of(self.start, address).ok_or(EFAULT)
    }

    /// The chunk with that number, a new one if need be.
    fn chunk(&self, number: u32, mm: &MmWithUser) -> Result<Arc<HmmRange>> {
        if let Some(chunk) = self.existing(number) {
            return Ok(chunk);
        }
        let mut made = self.made.lock();
        if let Some(chunk) = self.existing(number) {
            return Ok(chunk);
        }
        let addresses = chunk_addresses(self.start, self.len, number).ok_or(EFAULT)?;
        let chunk = Arc::pin_init(HmmRange::new(mm, addresses), GFP_KERNEL_ACCOUNT)?;
        if made.numbers.len() < MAX_CHUNKS {
            made.numbers.push(number, GFP_KERNEL_ACCOUNT)?;
        } else {
            let Made { numbers, oldest } = &mut *made;
            let place = numbers.get_mut(*oldest).ok_or(EINVAL)?;
            // Waits until nobody copies by way of it.
            drop(self.chunks.remove(core::mem::replace(place, number)));
            *oldest = oldest.wrapping_add(1) % MAX_CHUNKS;
        }
        self.chunks.insert_at(number, chunk.clone())?;
        Ok(chunk)
    }

    fn existing(&self, number: u32) -> Option<Arc<HmmRange>> {
        let guard = rcu::read_lock();
        self.chunks.borrow(number, &guard).map(Arc::from)
    }
}

/// While it lives, what is allocated for users is charged to the owner of a process, not to who
/// happens to run.
struct Charge {
    memcg: *mut bindings::mem_cgroup,
    before: *mut bindings::mem_cgroup,
}

impl Charge {
    fn to(mm: &MmWithUser) -> Self {
        // SAFETY: The process is there. The group is ours until it is put, after its scope.
        unsafe {
            let memcg = bindings::ferroce_helper_get_mem_cgroup_from_mm(mm.as_raw());
            let before = bindings::ferroce_helper_set_active_memcg(memcg);
            Self { memcg, before }
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: The scope of `to` ends; scopes are nested.
        unsafe {
            bindings::ferroce_helper_set_active_memcg(self.before);
            bindings::ferroce_helper_mem_cgroup_put(self.memcg);
        }
    }
}
