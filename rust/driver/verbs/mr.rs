// SPDX-License-Identifier: GPL-2.0

//! Registers, changes and deregisters MRs, and allocates MWs.
//!
//! Called by the verbs, in process context, except [`stage`], which must not sleep. Access checks of a key are in
//! [`mem`](crate::mem).

use crate::{
    device::ferroce::Ferroce,
    limits::MAX_FAST_REG_PAGES,
    mem::{
        key_table::KeyEntry,
        mr::Mr,
        pd::Pd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        UniqueArc, //
    }, //
};
use rdma::{
    errno::EOPNOTSUPP,
    ib::{
        attr::{
            DmaBufInit,
            MrChange,
            MrInit,
            MrKeys,
            MwType, //
        },
        device::Device,
        restrack::RestrackEntry, //
    },
    mm::{
        dma_buf::DmaBuf,
        fast_reg::ScatterList,
        memory::Memory,
        on_demand::OnDemand,
        pinned::Umem, //
    },
    sync::read_section::ReadSection, //
};
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::WindowType, //
};

/// Access rights that an MR can have. The core rejects those that need a capability that the device lacks.
const SUPPORTED: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND)
    .union(Access::ZERO_BASED)
    .union(Access::HUGETLB)
    .union(Access::ON_DEMAND)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT)
    .union(Access::RELAXED_ORDERING);

/// Access rights that need writable memory.
const WRITE_ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

/// An MR of a consumer.
pub(crate) struct MrHandle {
    /// The lkey, by which the key table finds the MR.
    key: u32,
    /// The entry of the key table, if this is an MR for fast registration.
    fast: Option<Arc<KeyEntry>>,
}

/// An MW of a consumer.
pub(crate) struct MwHandle {
    key: u32,
}

/// Returns the access rights with these bits, without unsupported optional ones.
///
/// # Errors
///
/// `EOPNOTSUPP` if another right is not supported.
fn supported(bits: u32) -> Result<Access> {
    let access = Access::from_bits(bits);
    SUPPORTED
        .union(Access::OPTIONAL)
        .contains(access)
        .then_some(access.intersection(SUPPORTED))
        .ok_or(EOPNOTSUPP)
}

/// Pins the memory of a process that `init` describes, or prepares it for ODP. Returns its access rights and address
/// range as well.
fn user_memory(dev: &Device<Ferroce>, init: &MrInit) -> Result<(Access, Region, Arc<Memory>)> {
    let access = supported(init.access)?;
    let memory = match (
        access.contains(Access::ON_DEMAND),
        access.contains(Access::FLUSH_PERSISTENT),
    ) {
        // The pages of an ODP region may change, and not all memory is persistent.
        (true, true) => return Err(EOPNOTSUPP),
        (true, false) => on_demand_memory(init)?,
        (false, _) => Memory::User(Umem::pin(dev.ib(), init.start, init.length, init.access)?),
    };
    let region = Region {
        iova: first_address(access, init.iova),
        length: init.length,
    };
    Ok((access, region, Arc::new(memory, GFP_KERNEL_ACCOUNT)?))
}

/// Returns the memory of an ODP region. A range from address 0 to the end is the whole address space, present and
/// future (implicit ODP). For any other range, the huge page flag has no effect: the pages may be of any size.
///
/// # Errors
///
/// `EINVAL` if the range is empty or not in the address space, or if an implicit region has an `iova` or the huge page
/// flag; `ENOMEM`.
fn on_demand_memory(init: &MrInit) -> Result<Memory> {
    let access = Access::from_bits(init.access);
    let writable = access.intersection(WRITE_ACCESS) != Access::NONE;
    let region = if init.start == 0 && init.length == u64::MAX {
        if init.iova != 0 || access.contains(Access::HUGETLB) {
            return Err(EINVAL);
        }
        OnDemand::implicit(writable)?
    } else {
        OnDemand::new(init.start, init.length, writable)?
    };
    Ok(Memory::OnDemand(region))
}

/// Returns the address of the first byte of a region.
fn first_address(access: Access, iova: u64) -> u64 {
    match access.contains(Access::ZERO_BASED) {
        true => 0,
        false => iova,
    }
}

/// Registers memory of the calling process.
///
/// # Errors
///
/// `EOPNOTSUPP` for unsupported access rights; those of [`Umem::pin`]; `EINVAL` for an invalid ODP range; `ENOMEM`.
pub(crate) fn reg_user(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: &MrInit,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    let (access, region, memory) = user_memory(dev, init)?;
    add_region(dev, pd, access, region, memory)
}

/// Registers a part of a DMA-BUF.
///
/// # Errors
///
/// `EOPNOTSUPP` for unsupported access rights; those of [`DmaBuf::map`]; `ENOMEM`.
pub(crate) fn reg_dma_buf(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: &DmaBufInit,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    let access = supported(init.access)?;
    let buffer = DmaBuf::map(dev.ib(), init.fd, init.offset, init.length, init.access)?;
    let region = Region {
        iova: init.iova,
        length: init.length,
    };
    let memory = Arc::new(Memory::DmaBuf(buffer), GFP_KERNEL_ACCOUNT)?;
    add_region(dev, pd, access, region, memory)
}

/// Registers all kernel memory, for a ULP.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn reg_kernel(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    access: Access,
    memory: Memory,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    let everything = Region {
        iova: 0,
        length: u64::MAX,
    };
    let memory = Arc::new(memory, GFP_KERNEL)?;
    add_region(dev, pd, access, everything, memory)
}

/// Adds a region to the key table.
fn add_region(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    access: Access,
    region: Region,
    memory: Arc<Memory>,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    // Allocated first: no step may fail once the key exists.
    let handle = UniqueArc::new_uninit(GFP_KERNEL_ACCOUNT)?;
    let keys = dev
        .port()
        .keys()
        .add_region(pd.clone(), access, region, memory)?;
    let mr = MrHandle {
        key: keys.lkey,
        fast: None,
    };
    Ok((handle.write(mr).into(), keys))
}

/// Allocates an MR for fast registration of up to `pages` pages.
///
/// # Errors
///
/// `EINVAL` for more than [`MAX_FAST_REG_PAGES`]; `ENOMEM`.
pub(crate) fn alloc_fast(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    pages: u32,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    if pages > MAX_FAST_REG_PAGES {
        return Err(EINVAL);
    }
    let handle = UniqueArc::new_uninit(GFP_KERNEL)?;
    let (entry, keys) = dev.port().keys().add_fast(pd.clone(), pages)?;
    let mr = MrHandle {
        key: keys.lkey,
        fast: Some(entry),
    };
    Ok((handle.write(mr).into(), keys))
}

/// Stores the pages of the next fast registration. Returns the number of elements of `list` that were used.
///
/// # Errors
///
/// `EINVAL` if the MR is not for fast registration; those of [`ScatterList::fill`].
pub(crate) fn stage(mr: &MrHandle, list: ScatterList<'_>) -> Result<u32> {
    match mr.fast.as_deref() {
        Some(KeyEntry::Fast(fast)) => fast.stage(list),
        _ => Err(EINVAL),
    }
}

/// Changes the PD, access rights or address range of a process's MR. It keeps its keys.
///
/// # Errors
///
/// As [`reg_user`]; `EBUSY` if a window is bound to the MR. On error, the MR does not change.
pub(crate) fn change(
    dev: &Device<Ferroce>,
    mr: &MrHandle,
    change: MrChange<'_, Arc<Pd>>,
) -> Result {
    dev.port().keys().change_region(mr.key, |old| {
        let pd = change.pd.unwrap_or(&old.pd).clone();
        let access = supported(change.access.unwrap_or(old.access.bits()))?;
        let (region, memory) = match change.range {
            Some(place) => {
                let init = MrInit {
                    start: place.start,
                    length: place.length,
                    iova: place.iova,
                    access: access.bits(),
                };
                let (_, region, memory) = user_memory(dev, &init)?;
                (region, memory)
            }
            None => {
                // `ZERO_BASED` can change only together with the address range.
                if access.contains(Access::ZERO_BASED) != old.access.contains(Access::ZERO_BASED) {
                    return Err(EOPNOTSUPP);
                }
                (old.region, memory_for_access(dev, old, access)?)
            }
        };
        Ok(Mr::new(pd, old.generation, access, region, memory))
    })
}

/// Returns the memory of `mr` for new access rights. Pins or prepares it again if it must become writable, or if it
/// changes between pinned memory and ODP.
fn memory_for_access(dev: &Device<Ferroce>, mr: &Mr, access: Access) -> Result<Arc<Memory>> {
    if mr.memory.allows(access.bits()) {
        return Ok(mr.memory.clone());
    }
    let (start, length) = mr.memory.user_range().ok_or(EOPNOTSUPP)?;
    let init = MrInit {
        start,
        length,
        iova: mr.region.iova,
        access: access.bits(),
    };
    user_memory(dev, &init).map(|(_, _, memory)| memory)
}

/// Adds the driver's details for `rdma resource show mr`.
pub(crate) fn describe(dev: &Device<Ferroce>, mr: &MrHandle, details: &mut RestrackEntry) {
    let guard = ReadSection::enter();
    let windows = match mr.fast.as_deref() {
        Some(KeyEntry::Fast(fast)) => &fast.windows,
        _ => match dev.port().keys().lookup_mr(mr.key, &guard) {
            Some((region, _)) => {
                let on_demand = matches!(&*region.memory, Memory::OnDemand(_));
                let dma_buf = matches!(&*region.memory, Memory::DmaBuf(_));
                details.put(c"access", region.access.bits().into());
                details.put(c"dma_buf", dma_buf.into());
                details.put(c"on_demand", on_demand.into());
                &region.windows
            }
            None => return,
        },
    };
    details.put(c"fast", mr.fast.is_some().into());
    details.put(c"windows", windows.count().into());
}

/// Deregisters an MR. On return, its keys give no access to the memory.
///
/// # Errors
///
/// `EBUSY` if a window is bound to it. The MR stays registered.
pub(crate) fn dereg(dev: &Device<Ferroce>, mr: &MrHandle) -> Result {
    dev.port().keys().remove_region(mr.key)
}

/// Allocates an MW. Returns its rkey as well.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn alloc_mw(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    mw_type: MwType,
) -> Result<(Arc<MwHandle>, u32)> {
    let window_type = match mw_type {
        MwType::One => WindowType::One,
        MwType::Two => WindowType::TwoB,
    };
    let handle = UniqueArc::new_uninit(GFP_KERNEL_ACCOUNT)?;
    let key = dev.port().keys().add_window(pd.clone(), window_type)?;
    Ok((handle.write(MwHandle { key }).into(), key))
}

/// Deallocates an MW. On return, its key gives no access to memory.
pub(crate) fn dealloc_mw(dev: &Device<Ferroce>, mw: &MwHandle) {
    dev.port().keys().remove_window(mw.key);
}
