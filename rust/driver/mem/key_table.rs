// SPDX-License-Identifier: GPL-2.0

//! The key table of a device: finds memory regions and windows by their keys, and binds windows to regions.
//!
//! A key is a random index into the table, and the generation: eight more bits. The generation of a
//! user-space region is random, too. For windows and regions for fast registration, the consumer chooses it.
//!
//! Lookups are done in a [`ReadSection`]. Adding and removing entries is done by verbs, in process context. Binding,
//! registration and invalidation run in the send and receive engines.

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
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::attr::MrKeys,
    mm::memory::Memory,
    sync::{
        rcu_table::RcuTable,
        read_section::ReadSection,
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

/// Bits of the generation in a key.
const GENERATION_BITS: u32 = 8;

/// Valid indices. Index 0 is not used, so no key is 0.
const INDICES: core::ops::Range<u32> = 1..1 << (u32::BITS - GENERATION_BITS);

const _: () = assert!(MAX_MR + MAX_MW == INDICES.end - INDICES.start);

/// An entry of the key table.
pub(crate) enum KeyEntry {
    /// Memory of a process, a DMA buffer, or all kernel memory.
    Region(Mr),
    /// Pages that a ULP registers and invalidates by work requests.
    Fast(Pin<KBox<FastMr>>),
    /// A window, which may be bound to a part of a region.
    Window(Pin<KBox<Mw>>),
}

/// Memory that a key grants access to. It remains valid while this value exists.
pub(crate) struct Mapped<'g> {
    memory: MappedRef<'g>,
    _window: Option<RwGuard<'g, Binding>>,
    offset: u64,
}

/// Reference to mapped memory.
enum MappedRef<'g> {
    /// Protected by the section.
    Region(&'g Memory),
    /// Protected by the registration, which is not invalidated while it has readers.
    Fast(RwGuard<'g, FastRegistration>),
}

impl Mapped<'_> {
    /// Returns the memory.
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        match &self.memory {
            MappedRef::Region(memory) => memory,
            MappedRef::Fast(active) => &active.memory,
        }
    }

    /// Returns the offset of the bytes in the memory.
    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// The key table of one device.
#[pin_data]
pub(crate) struct KeyTable {
    #[pin]
    table: RcuTable<KeyEntry>,
}

/// Splits a key into index and generation.
#[inline]
fn split_key(key: u32) -> (u32, u8) {
    // CAST: The generation is the low byte of the key.
    (key >> GENERATION_BITS, key as u8)
}

fn make_key(index: u32, generation: u8) -> u32 {
    index << GENERATION_BITS | u32::from(generation)
}

fn random_generation() -> u8 {
    // CAST: Any eight bits of the random number will do.
    random::u32() as u8
}

/// The key table as one run of an engine reads it: in one section, and the entry found last is looked up once.
///
/// The removal of an entry waits for this reader. Until then an access may find the entry
/// that is being removed, as if the access had come before.
pub(crate) struct KeyReader<'a> {
    table: &'a KeyTable,
    guard: &'a ReadSection,
    /// Entry found last for a key of a scatter/gather list.
    last_local: Cell<Option<(u32, &'a KeyEntry)>>,
    /// Entry found last for a key of the peer.
    last_remote: Cell<Option<(u32, &'a KeyEntry)>>,
}

impl<'a> KeyReader<'a> {
    /// Returns the key table.
    pub(crate) fn table(&self) -> &'a KeyTable {
        self.table
    }

    /// Returns the section.
    #[inline]
    pub(crate) fn guard(&self) -> &'a ReadSection {
        self.guard
    }

    /// Returns the entry at the index of `key`, whatever its generation.
    #[inline]
    fn entry(
        &self,
        key: u32,
        last: &Cell<Option<(u32, &'a KeyEntry)>>,
    ) -> Result<&'a KeyEntry, AccessError> {
        if let Some((last_key, entry)) = last.get() {
            if last_key == key {
                return Ok(entry);
            }
        }
        let (index, _) = split_key(key);
        let entry = self.table.table.get(index, self.guard);
        let entry = entry.ok_or(AccessError::Key)?;
        last.set(Some((key, entry)));
        Ok(entry)
    }

    /// Returns the memory of a scatter/gather list entry.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if the key is not that of a region.
    #[inline]
    pub(crate) fn lookup_local(
        &self,
        lkey: u32,
        request: &AccessRequest<'_>,
    ) -> Result<Mapped<'a>, AccessError> {
        let (_, generation) = split_key(lkey);
        self.entry(lkey, &self.last_local)?
            .locate(generation, request)
    }

    /// Returns the memory that the peer of the QP `identity` names.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if the key is not valid.
    #[inline]
    pub(crate) fn lookup_remote(
        &self,
        identity: QpIdentity,
        rkey: u32,
        request: &AccessRequest<'_>,
    ) -> Result<Mapped<'a>, AccessError> {
        let (_, generation) = split_key(rkey);
        match self.entry(rkey, &self.last_remote)? {
            KeyEntry::Window(mw) => self.locate_in_window(mw, identity, generation, request),
            region => region.locate(generation, request),
        }
    }

    /// Returns the addresses of the region or window that the peer of the QP `identity` names. They may be those of
    /// another region by the time of the next look-up.
    ///
    /// # Errors
    ///
    /// `Key` if the key is not valid; `Rights` if the window belongs to another QP.
    pub(crate) fn remote_addresses(
        &self,
        identity: QpIdentity,
        rkey: u32,
    ) -> Result<Region, AccessError> {
        let (_, generation) = split_key(rkey);
        match self.entry(rkey, &self.last_remote)? {
            KeyEntry::Region(mr) => Ok(mr.region),
            KeyEntry::Fast(fast) => Ok(fast.enter()?.region),
            KeyEntry::Window(mw) => mw.addresses(identity, generation),
        }
    }

    fn locate_in_window(
        &self,
        mw: &'a Mw,
        identity: QpIdentity,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<Mapped<'a>, AccessError> {
        let (binding, place) = mw.locate(identity, generation, request)?;
        // The region exists, because a window is bound to it.
        let memory = match self.table.table.get(place.region, self.guard) {
            Some(KeyEntry::Region(mr)) => MappedRef::Region(&mr.memory),
            Some(KeyEntry::Fast(fast)) => MappedRef::Fast(fast.enter()?),
            _ => return Err(AccessError::Key),
        };
        Ok(Mapped {
            memory,
            _window: Some(binding),
            offset: place.offset,
        })
    }
}

impl KeyEntry {
    /// Returns the memory of a region.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if this is not a region, or its generation is another.
    #[inline]
    fn locate(
        &self,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<Mapped<'_>, AccessError> {
        match self {
            Self::Region(mr) => Ok(Mapped {
                offset: mr.locate(generation, request)?,
                memory: MappedRef::Region(&mr.memory),
                _window: None,
            }),
            Self::Fast(fast) => {
                let (active, offset) = fast.locate(generation, request)?;
                Ok(Mapped {
                    memory: MappedRef::Fast(active),
                    _window: None,
                    offset,
                })
            }
            Self::Window(_) => Err(AccessError::Key),
        }
    }
}

impl KeyTable {
    /// Begins to read the table.
    #[inline]
    pub(crate) fn reader<'a>(&'a self, guard: &'a ReadSection) -> KeyReader<'a> {
        KeyReader {
            table: self,
            guard,
            last_local: Cell::new(None),
            last_remote: Cell::new(None),
        }
    }

    /// Creates an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { table <- RcuTable::new() })
    }

    /// Adds a region with the given `memory`. Its lkey and rkey are the same number.
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
        let key = make_key(self.table.alloc_random(INDICES, entry)?, generation);
        Ok(MrKeys {
            lkey: key,
            rkey: key,
        })
    }

    /// Adds a region for fast registration of up to `pages` pages. Also returns its entry, a
    /// [`KeyEntry::Fast`].
    ///
    /// # Errors
    ///
    /// As [`KeyTable::add_region`].
    pub(crate) fn add_fast(&self, pd: Arc<Pd>, pages: u32) -> Result<(Arc<KeyEntry>, MrKeys)> {
        let generation = random_generation();
        let fast = FastMr::new(pd, generation, pages)?;
        let entry = Arc::new(KeyEntry::Fast(fast), GFP_KERNEL_ACCOUNT)?;
        let key = make_key(self.table.alloc_random(INDICES, entry.clone())?, generation);
        let keys = MrKeys {
            lkey: key,
            rkey: key,
        };
        Ok((entry, keys))
    }

    /// Adds an unbound window. Returns its key.
    ///
    /// # Errors
    ///
    /// As [`KeyTable::add_region`].
    pub(crate) fn add_window(&self, pd: Arc<Pd>, window_type: WindowType) -> Result<u32> {
        let generation = random_generation();
        let window = Mw::new(pd, window_type, generation)?;
        let entry = Arc::new(KeyEntry::Window(window), GFP_KERNEL_ACCOUNT)?;
        let index = self.table.alloc_random(INDICES, entry)?;
        Ok(make_key(index, generation))
    }

    /// Replaces a region by the one that `change` creates from it. The key remains the same. When it returns,
    /// the old region is no longer in use.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a window is bound to it; `EINVAL` if the key is not that of an [`Mr`]; `ENOMEM`; the errors
    /// of `change`.
    pub(crate) fn change_region(&self, key: u32, change: impl FnOnce(&Mr) -> Result<Mr>) -> Result {
        let (index, _) = split_key(key);
        let found = {
            let guard = ReadSection::enter();
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

    /// Removes a region, whatever the generation in `key`. When it returns, the memory is no longer accessed.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a window is bound to it. The region is unchanged then.
    pub(crate) fn remove_region(&self, key: u32) -> Result {
        let (index, _) = split_key(key);
        let closed = {
            let guard = ReadSection::enter();
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

    /// Removes a window, whatever the generation in `key`. When it returns, memory is no longer accessed
    /// through it.
    pub(crate) fn remove_window(&self, key: u32) {
        let (index, _) = split_key(key);
        let Some(entry) = self.table.remove(index) else {
            return;
        };
        if let KeyEntry::Window(mw) = &*entry {
            if let Some(region) = mw.region() {
                self.detach_window(region, &ReadSection::enter());
            }
        }
    }

    /// Binds a window to a part of a region, or unbinds it, for the QP `identity` of the domain `pd`.
    /// Callable from any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `IB_WC_MW_BIND_ERR` (C10-72 to C10-75, and the rules of [`Bind`]). Nothing has changed then.
    pub(crate) fn bind(
        &self,
        pd: &Arc<Pd>,
        identity: QpIdentity,
        bind: &Bind,
    ) -> Result<(), WcStatus> {
        let guard = ReadSection::enter();
        let (index, _) = split_key(bind.window.get());
        let Some(KeyEntry::Window(mw)) = self.table.get(index, &guard) else {
            return Err(WcStatus::MwBindErr);
        };
        // C10-72: the window belongs to the domain of the QP.
        if !Arc::ptr_eq(&mw.pd, pd) {
            return Err(WcStatus::MwBindErr);
        }
        let before = mw
            .bind(identity, bind, || self.attach_window(pd, bind, &guard))
            .ok_or(WcStatus::MwBindErr)?;
        if let Some(region) = before {
            self.detach_window(region, &guard);
        }
        Ok(())
    }

    /// Finds the region that a window will be bound to, and counts the window there.
    fn attach_window(&self, pd: &Arc<Pd>, bind: &Bind, guard: &ReadSection) -> Option<WindowPlace> {
        let (region, generation) = split_key(bind.region.get());
        let entry = self.table.get(region, guard)?;
        let (windows, domain) = match entry {
            KeyEntry::Region(mr) => (&mr.windows, &mr.pd),
            KeyEntry::Fast(fast) => (&fast.windows, &fast.pd),
            KeyEntry::Window(_) => return None,
        };
        // A window of another domain must not count, not even briefly: the region could not be deregistered
        // then.
        if !Arc::ptr_eq(domain, pd) {
            return None;
        }
        // Count first: a region with bound windows is not invalidated.
        if !windows.try_attach() {
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
                // Checks the rights and bounds of the region.
                bind.offset_in(mr.access, mr.region)
            }),
            KeyEntry::Fast(fast) => fast
                .locate(generation, &request)
                .ok()
                .and_then(|(active, _)| bind.offset_in(active.access, active.region)),
            KeyEntry::Window(_) => None,
        };
        if offset.is_none() {
            windows.detach();
        }
        offset.map(|offset| WindowPlace { region, offset })
    }

    /// Uncounts a window that is no longer bound to the region.
    fn detach_window(&self, region: u32, guard: &ReadSection) {
        match self.table.get(region, guard) {
            Some(KeyEntry::Region(mr)) => mr.windows.detach(),
            Some(KeyEntry::Fast(fast)) => fast.windows.detach(),
            _ => {}
        }
    }

    /// Registers the pages that the ULP has staged, for a QP of the domain `pd`. Callable from any context
    /// but hard interrupts.
    ///
    /// # Errors
    ///
    /// `IB_WC_MW_BIND_ERR`, the status of all failed key operations: not a region for fast registration,
    /// another domain, or already registered.
    pub(crate) fn register(&self, pd: &Arc<Pd>, reg: &FastReg) -> Result<(), WcStatus> {
        let guard = ReadSection::enter();
        let (index, _) = split_key(reg.key);
        match self.table.get(index, &guard) {
            Some(KeyEntry::Fast(fast)) if Arc::ptr_eq(&fast.pd, pd) && fast.register(reg) => Ok(()),
            _ => Err(WcStatus::MwBindErr),
        }
    }

    /// Invalidates a registration or binding, for the QP `identity` of the domain `pd`, or for its peer if
    /// `remote`. When it returns, memory is no longer accessed through the key. Callable from any context but
    /// hard interrupts.
    ///
    /// # Errors
    ///
    /// `Key` if the key is not valid; `ProtectionDomain`; `Rights` if it cannot be invalidated in this way.
    pub(crate) fn invalidate(
        &self,
        pd: &Arc<Pd>,
        identity: QpIdentity,
        key: u32,
        remote: bool,
    ) -> Result<(), AccessError> {
        let guard = ReadSection::enter();
        let (index, generation) = split_key(key);
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
                self.detach_window(region, &guard);
                Ok(())
            }
        }
    }

    /// Returns the [`Mr`] of `key` and the generation in the key.
    pub(crate) fn lookup_mr<'g>(
        &'g self,
        key: u32,
        guard: &'g ReadSection,
    ) -> Option<(&'g Mr, u8)> {
        let (index, generation) = split_key(key);
        match self.table.get(index, guard) {
            Some(KeyEntry::Region(mr)) => Some((mr, generation)),
            _ => None,
        }
    }
}
