// SPDX-License-Identifier: GPL-2.0

//! The keys of a device, and what they open.
//!
//! Owns the table in which keys are found, and the tie between a window and its region. Does not
//! know who asks, nor why.
//!
//! A key is an index into the table, which is random, and eight bits more. Those of a region of a process
//! are random, too; those of a window or of a region for fast registration are its consumer's to
//! choose.

use crate::{
    limits::{
        MAX_MR,
        MAX_MW, //
    },
    mem::{
        access_request::AccessRequest,
        fast_reg::{
            FastMr,
            FastRegistration, //
        },
        mr::Mr,
        mw::{
            Binding,
            Mw,
            QpIdentity,
            WindowPlace, //
        },
        pd::Pd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    ib::attr::MrKeys,
    mm::memory::Memory,
    sync::{
        rcu_table::RcuTable,
        rw_revocable::RwGuard, //
    },
    util::random, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Region, //
    },
    bind::{
        Bind,
        FastReg,
        WindowType, //
    },
    status::WcStatus, //
};

/// Bits of a key that are not the index.
const GENERATION_BITS: u32 = 8;

/// Indices. 0 stays free, so that no key is 0.
const INDICES: core::ops::Range<u32> = 1..1 << (u32::BITS - GENERATION_BITS);

const _: () = assert!(MAX_MR + MAX_MW == INDICES.end - INDICES.start);

/// What an index stands for.
pub(crate) enum KeyEntry {
    /// Memory of a process, or all of the kernel's.
    Region(Mr),
    /// Pages that a consumer in the kernel registers and invalidates by work requests.
    Fast(Pin<KBox<FastMr>>),
    /// A window to a region.
    Window(Pin<KBox<Mw>>),
}

/// Memory that may be used, for as long as this is kept.
pub(crate) struct Mapped<'g> {
    held: MappedHold<'g>,
    _window: Option<RwGuard<'g, Binding>>,
    at: u64,
}

/// What keeps the memory.
enum MappedHold<'g> {
    /// RCU: it stays until its readers are gone.
    Region(&'g Memory),
    /// A registration, which is not invalidated before its reader is gone.
    Fast(RwGuard<'g, FastRegistration>),
}

impl Mapped<'_> {
    /// The memory.
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        match &self.held {
            MappedHold::Region(memory) => memory,
            MappedHold::Fast(active) => &active.memory,
        }
    }

    /// Where in it the bytes are.
    #[inline]
    pub(crate) fn at(&self) -> u64 {
        self.at
    }
}

/// The keys of one device.
#[pin_data]
pub(crate) struct KeyTable {
    #[pin]
    table: RcuTable<KeyEntry>,
}

/// Index and generation of a key.
#[inline]
fn split(key: u32) -> (u32, u8) {
    // CAST: The generation is the low byte.
    (key >> GENERATION_BITS, key as u8)
}

fn coalesce(index: u32, generation: u8) -> u32 {
    index << GENERATION_BITS | u32::from(generation)
}

fn random_generation() -> u8 {
    // CAST: The low bits are as random as the others.
    random::u32() as u8
}

impl KeyTable {
    /// A device without regions.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { table <- RcuTable::new() })
    }

    /// Gives `memory` a key: local and remote key are the same number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every index is taken.
    pub(crate) fn add_region(
        &self,
        pd: Arc<Pd>,
        access: Access,
        region: Region,
        memory: Arc<Memory>,
    ) -> Result<MrKeys> {
        let generation = random_generation();
        let mr = Mr::new(pd, generation, access, region, memory);
        let entry = Arc::new(KeyEntry::Region(mr), GFP_KERNEL_ACCOUNT)?;
        let key = coalesce(self.table.alloc_random(INDICES, entry)?, generation);
        Ok(MrKeys {
            lkey: key,
            rkey: key,
        })
    }

    /// Makes a region for fast registration of up to `pages` pages. Returns its entry as well, which
    /// is an [`KeyEntry::Fast`].
    ///
    /// # Errors
    ///
    /// As [`KeyTable::add_region`].
    pub(crate) fn add_fast(&self, pd: Arc<Pd>, pages: u32) -> Result<(Arc<KeyEntry>, MrKeys)> {
        let generation = random_generation();
        let fast = FastMr::new(pd, generation, pages)?;
        let entry = Arc::new(KeyEntry::Fast(fast), GFP_KERNEL_ACCOUNT)?;
        let key = coalesce(self.table.alloc_random(INDICES, entry.clone())?, generation);
        let keys = MrKeys {
            lkey: key,
            rkey: key,
        };
        Ok((entry, keys))
    }

    /// Makes a window that is bound to nothing. Returns its key.
    ///
    /// # Errors
    ///
    /// As [`KeyTable::add_region`].
    pub(crate) fn add_window(&self, pd: Arc<Pd>, window_type: WindowType) -> Result<u32> {
        let generation = random_generation();
        let window = Mw::new(pd, window_type, generation)?;
        let entry = Arc::new(KeyEntry::Window(window), GFP_KERNEL_ACCOUNT)?;
        let index = self.table.alloc_random(INDICES, entry)?;
        Ok(coalesce(index, generation))
    }

    /// Puts what `change` makes of a region in its place, under the same key. When it returns, nobody
    /// uses the region as it was.
    ///
    /// # Errors
    ///
    /// `EBUSY`: a window is bound to it; `EINVAL`: no such region can be changed; `ENOMEM`; what
    /// `change` says.
    pub(crate) fn change_region(&self, key: u32, change: impl FnOnce(&Mr) -> Result<Mr>) -> Result {
        let (index, _) = split(key);
        let found = {
            let guard = rcu::read_lock();
            self.table.borrow(index, &guard).map(Arc::from)
        };
        let old: Arc<KeyEntry> = found.ok_or(EINVAL)?;
        let KeyEntry::Region(mr) = &*old else {
            return Err(EINVAL);
        };
        let new = Arc::new(KeyEntry::Region(change(mr)?), GFP_KERNEL_ACCOUNT)?;
        if !mr.windows.close() {
            return Err(EBUSY);
        }
        self.table.replace(index, new).map(drop)
    }

    /// Takes the key of a region back, whatever its low byte is by now. When it returns, nobody reads
    /// or writes the memory any more.
    ///
    /// # Errors
    ///
    /// `EBUSY`: a window is bound to it. Nothing has changed then.
    pub(crate) fn remove_region(&self, key: u32) -> Result {
        let (index, _) = split(key);
        let closed = {
            let guard = rcu::read_lock();
            match self.table.get(index, &guard) {
                Some(KeyEntry::Region(mr)) => mr.windows.close(),
                Some(KeyEntry::Fast(fast)) => fast.windows.close(),
                _ => true,
            }
        };
        if !closed {
            return Err(EBUSY);
        }
        drop(self.table.remove(index));
        Ok(())
    }

    /// Takes the key of a window back, whatever its low byte is by now. When it returns, nobody reads
    /// or writes through it any more.
    pub(crate) fn remove_window(&self, key: u32) {
        let (index, _) = split(key);
        let Some(entry) = self.table.remove(index) else {
            return;
        };
        if let KeyEntry::Window(mw) = &*entry {
            if let Some(region) = mw.region() {
                self.let_go(region, &rcu::read_lock());
            }
        }
    }

    /// Binds a window to a part of a region, or to nothing, for queue pair `identity` of the domain `pd`.
    /// For any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `IB_WC_MW_BIND_ERR`: C10-72 to C10-75 and what is about [`Bind`]. Nothing has changed then.
    pub(crate) fn bind(
        &self,
        pd: &Arc<Pd>,
        identity: QpIdentity,
        bind: &Bind,
    ) -> Result<(), WcStatus> {
        let guard = rcu::read_lock();
        let (index, _) = split(bind.window.get());
        let Some(KeyEntry::Window(mw)) = self.table.get(index, &guard) else {
            return Err(WcStatus::MwBindErr);
        };
        // C10-72: the window's domain is the queue pair's.
        if !Arc::ptr_eq(&mw.pd, pd) {
            return Err(WcStatus::MwBindErr);
        }
        let before = mw
            .bind(identity, bind, || self.hold(pd, bind, &guard))
            .ok_or(WcStatus::MwBindErr)?;
        if let Some(region) = before {
            self.let_go(region, &guard);
        }
        Ok(())
    }

    /// Finds the region that a window is to be bound to, and counts the window.
    fn hold(&self, pd: &Arc<Pd>, bind: &Bind, guard: &rcu::Guard) -> Option<WindowPlace> {
        let (region, generation) = split(bind.region.get());
        let entry = self.table.get(region, guard)?;
        let (windows, domain) = match entry {
            KeyEntry::Region(mr) => (&mr.windows, &mr.pd),
            KeyEntry::Fast(fast) => (&fast.windows, &fast.pd),
            KeyEntry::Window(_) => return None,
        };
        // A stranger's window does not count, not even for a moment: the region could not go.
        if !Arc::ptr_eq(domain, pd) {
            return None;
        }
        // First the count: a region that is counted for a window is not invalidated.
        if !windows.enter() {
            return None;
        }
        let request = AccessRequest {
            pd,
            va: bind.range.iova,
            len: 0,
            access: Access::NONE,
        };
        let offset = match entry {
            KeyEntry::Region(mr) => mr.locate(generation, &request).ok().and_then(|_| {
                // Its rights and its bounds.
                bind.place_in(mr.access, mr.region)
            }),
            KeyEntry::Fast(fast) => fast
                .locate(generation, &request)
                .ok()
                .and_then(|(active, _)| bind.place_in(active.access, active.region)),
            KeyEntry::Window(_) => None,
        };
        if offset.is_none() {
            windows.leave();
        }
        offset.map(|offset| WindowPlace { region, offset })
    }

    /// A window is not bound to a region any more.
    fn let_go(&self, region: u32, guard: &rcu::Guard) {
        match self.table.get(region, guard) {
            Some(KeyEntry::Region(mr)) => mr.windows.leave(),
            Some(KeyEntry::Fast(fast)) => fast.windows.leave(),
            _ => {}
        }
    }

    /// Registers the pages that the consumer has listed, for a queue pair of the domain `pd`. For any
    /// context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `IB_WC_MW_BIND_ERR`, which stands for all operations on keys: no such region, another domain,
    /// or it is registered already.
    pub(crate) fn register(&self, pd: &Arc<Pd>, reg: &FastReg) -> Result<(), WcStatus> {
        let guard = rcu::read_lock();
        let (index, _) = split(reg.key);
        match self.table.get(index, &guard) {
            Some(KeyEntry::Fast(fast)) if Arc::ptr_eq(&fast.pd, pd) && fast.register(reg) => Ok(()),
            _ => Err(WcStatus::MwBindErr),
        }
    }

    /// Takes back what a work request has registered or bound, for queue pair `identity` of the domain
    /// `pd`, or for its peer if `remote`. When it returns, nobody reads or writes by that key any
    /// more. For any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `Key`: nothing has the key; `ProtectionDomain`; `Rights`: it cannot be invalidated like this.
    pub(crate) fn invalidate(
        &self,
        pd: &Arc<Pd>,
        identity: QpIdentity,
        key: u32,
        remote: bool,
    ) -> Result<(), AccessError> {
        let guard = rcu::read_lock();
        let (index, generation) = split(key);
        let entry = self.table.get(index, &guard).ok_or(AccessError::Key)?;
        let domain = match entry {
            KeyEntry::Region(mr) => &mr.pd,
            KeyEntry::Fast(fast) => &fast.pd,
            KeyEntry::Window(mw) => &mw.pd,
        };
        if !Arc::ptr_eq(domain, pd) {
            return Err(AccessError::ProtectionDomain);
        }
        match entry {
            KeyEntry::Region(_) => Err(AccessError::Rights),
            KeyEntry::Fast(fast) => fast.invalidate(generation, remote),
            KeyEntry::Window(mw) => {
                let region = mw.invalidate(identity, generation)?;
                self.let_go(region, &guard);
                Ok(())
            }
        }
    }

    /// The region that `key` names, and the generation that the key says.
    pub(crate) fn region<'g>(&'g self, key: u32, guard: &'g rcu::Guard) -> Option<(&'g Mr, u8)> {
        let (index, generation) = split(key);
        match self.table.get(index, guard) {
            Some(KeyEntry::Region(mr)) => Some((mr, generation)),
            _ => None,
        }
    }

    /// Finds memory that a scatter list names.
    ///
    /// # Errors
    ///
    /// Those of [`AccessRequest::check`], and a key that names no region.
    #[inline]
    pub(crate) fn local<'g>(
        &'g self,
        lkey: u32,
        request: &AccessRequest<'_>,
        guard: &'g rcu::Guard,
    ) -> Result<Mapped<'g>, AccessError> {
        let (index, generation) = split(lkey);
        match self.table.get(index, guard) {
            Some(KeyEntry::Region(mr)) => Ok(Mapped {
                at: mr.locate(generation, request)?,
                held: MappedHold::Region(&mr.memory),
                _window: None,
            }),
            Some(KeyEntry::Fast(fast)) => {
                let (active, at) = fast.locate(generation, request)?;
                Ok(Mapped {
                    held: MappedHold::Fast(active),
                    _window: None,
                    at,
                })
            }
            _ => Err(AccessError::Key),
        }
    }

    /// Finds memory that the peer of queue pair `identity` names.
    ///
    /// # Errors
    ///
    /// Those of [`AccessRequest::check`], and a key that names nothing.
    #[inline]
    pub(crate) fn remote<'g>(
        &'g self,
        identity: QpIdentity,
        rkey: u32,
        request: &AccessRequest<'_>,
        guard: &'g rcu::Guard,
    ) -> Result<Mapped<'g>, AccessError> {
        let (index, generation) = split(rkey);
        let Some(KeyEntry::Window(mw)) = self.table.get(index, guard) else {
            return self.local(rkey, request, guard);
        };
        let (binding, place) = mw.locate(identity, generation, request)?;
        // The region has not gone, because the window is bound to it.
        let held = match self.table.get(place.region, guard) {
            Some(KeyEntry::Region(mr)) => MappedHold::Region(&mr.memory),
            Some(KeyEntry::Fast(fast)) => MappedHold::Fast(fast.enter()?),
            _ => return Err(AccessError::Key),
        };
        Ok(Mapped {
            held,
            _window: Some(binding),
            at: place.offset,
        })
    }
}
