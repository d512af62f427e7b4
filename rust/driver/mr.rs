// SPDX-License-Identifier: GPL-2.0

//! Memory regions and the keys that name them.
//!
//! Owns the checks between a key and the memory behind it: generation, protection domain, rights,
//! bounds. Does not know packets or queue pairs; whoever passes the checks gets an offset into
//! [`Memory`], which copies but never lends.
//!
//! A key is an index into the table of the device, and eight random bits that tell a region from
//! the one that had the index before it.

use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    attr::MrKeys,
    random,
    table::Table,
    umem::Memory, //
};
use roce::access::{
    Access,
    AccessError,
    Region, //
};

/// A protection domain: two objects may meet if they hold the same one.
pub(crate) struct Pd {
    /// Not empty, so that no two of them have one address.
    _identity: u8,
}

impl Pd {
    /// A domain without objects.
    pub(crate) fn new() -> Self {
        Self { _identity: 0 }
    }
}

/// Bits of a key that are not the index.
const GENERATION_BITS: u32 = 8;

/// Indices of regions. 0 stays free, so that no key is 0.
const INDICES: core::ops::Range<u32> = 1..1 << (u32::BITS - GENERATION_BITS);

/// Most regions of a device.
pub(crate) const MAX_MR: u32 = INDICES.end - INDICES.start;

/// Memory that a consumer has registered.
pub(crate) struct Mr {
    pd: Arc<Pd>,
    generation: u8,
    access: Access,
    region: Region,
    memory: Memory,
}

impl Mr {
    /// The memory; [`Mr::locate`] gives offsets into it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Checks that a holder of `pd` may do `access` to `len` bytes at `va`, and says where they
    /// are (C9-88).
    ///
    /// # Errors
    ///
    /// Another protection domain, missing rights, or bytes outside the region.
    pub(crate) fn locate(
        &self,
        pd: &Arc<Pd>,
        va: u64,
        len: u32,
        access: Access,
    ) -> Result<u64, AccessError> {
        if !Arc::ptr_eq(&self.pd, pd) {
            return Err(AccessError::ProtectionDomain);
        }
        if !self.access.contains(access) {
            return Err(AccessError::Rights);
        }
        self.region
            .offset_of(va, u64::from(len))
            .ok_or(AccessError::Bounds)
    }
}

/// The keys of one device.
#[pin_data]
pub(crate) struct Keys {
    #[pin]
    table: Table<Mr>,
}

impl Keys {
    /// A device without regions.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { table <- Table::new() })
    }

    /// Gives `memory` a key: local and remote key are the same number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every index is taken.
    pub(crate) fn register(
        &self,
        pd: Arc<Pd>,
        access: Access,
        region: Region,
        memory: Memory,
    ) -> Result<MrKeys> {
        // CAST: The low bits are as random as the others.
        let generation = random::u32() as u8;
        let mr = Arc::new(
            Mr {
                pd,
                generation,
                access,
                region,
                memory,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let index = self.table.alloc_cyclic(INDICES, mr)?;
        let key = index << GENERATION_BITS | u32::from(generation);
        Ok(MrKeys {
            lkey: key,
            rkey: key,
        })
    }

    /// Takes the key back. When it returns, nothing reads or writes the memory any more.
    pub(crate) fn deregister(&self, key: u32) {
        drop(self.table.remove(key >> GENERATION_BITS));
    }

    /// Finds the region that `key` names.
    pub(crate) fn get<'g>(&'g self, key: u32, guard: &'g rcu::Guard) -> Option<&'g Mr> {
        let mr = self.table.get(key >> GENERATION_BITS, guard)?;
        // CAST: The generation is the low byte.
        (mr.generation == key as u8).then_some(mr)
    }

    /// [`Keys::get`] and [`Mr::locate`] in one step.
    ///
    /// # Errors
    ///
    /// Those of [`Mr::locate`], and a key that names nothing.
    pub(crate) fn locate<'g>(
        &'g self,
        pd: &Arc<Pd>,
        key: u32,
        va: u64,
        len: u32,
        access: Access,
        guard: &'g rcu::Guard,
    ) -> Result<(&'g Mr, u64), AccessError> {
        let mr = self.get(key, guard).ok_or(AccessError::Key)?;
        Ok((mr, mr.locate(pd, va, len, access)?))
    }
}
