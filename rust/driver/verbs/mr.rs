// SPDX-License-Identifier: GPL-2.0

//! The verbs of memory: regions and windows come, change and go.
//!
//! Owns what their consumers hold, and the checks of what is asked for. What a key opens is decided
//! elsewhere.

use crate::{
    device::ferroce::Ferroce,
    limits::MAX_FAST_REG_PAGES,
    mem::{
        key_table::KeyEntry,
        mr::Mr,
        pd::Pd, //
    },
    verbs::advise_mr, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc,
        UniqueArc, //
    }, //
};
use rdma::{
    ib::{
        attr::{
            DmaBufInit,
            MrChange,
            MrInit,
            MrKeys,
            MwType, //
        },
        device::Device,
        restrack::Details, //
    },
    mm::{
        dma_buf::DmaBuf,
        fast_reg::ScatterList,
        memory::Memory,
        pinned::Umem, //
    }, //
};
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::WindowType, //
};

/// Rights that a region can be given. The core refuses those that the device does not claim.
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

/// A region as its consumer holds it: the key, under which the device finds it.
pub(crate) struct MrHandle {
    key: u32,
    /// For fast registration.
    fast: Option<Arc<KeyEntry>>,
}

/// A window as its consumer holds it.
pub(crate) struct MwHandle {
    key: u32,
}

/// The rights with these bits, without optional ones that do not exist here.
///
/// # Errors
///
/// `EOPNOTSUPP` if another one does not exist here.
fn supported(bits: u32) -> Result<Access> {
    let access = Access::from_bits(bits);
    SUPPORTED
        .union(Access::OPTIONAL)
        .contains(access)
        .then_some(access.intersection(SUPPORTED))
        .ok_or(EOPNOTSUPP)
}

/// The memory of a process that `init` describes, and its addresses.
fn memory(dev: &Device<Ferroce>, init: &MrInit) -> Result<(Access, Region, Arc<Memory>)> {
    let access = supported(init.access)?;
    let memory = match (
        access.contains(Access::ON_DEMAND),
        access.contains(Access::FLUSH_PERSISTENT),
    ) {
        // Nobody knows what pages there will be.
        (true, true) => return Err(EOPNOTSUPP),
        (true, false) => advise_mr::memory(init)?,
        (false, _) => Memory::User(Umem::pin(dev.ib(), init.start, init.length, init.access)?),
    };
    let region = Region {
        iova: first_address(access, init.iova),
        length: init.length,
    };
    Ok((access, region, Arc::new(memory, GFP_KERNEL_ACCOUNT)?))
}

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
/// `EOPNOTSUPP` for rights that do not exist here; those of [`Umem::pin`]; `ENOMEM`.
pub(crate) fn reg_user(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    init: &MrInit,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    let (access, region, memory) = self::memory(dev, init)?;
    add(dev, pd, access, region, memory)
}

/// Registers a part of a DMA buffer.
///
/// # Errors
///
/// `EOPNOTSUPP` for rights that do not exist here; those of [`DmaBuf::map`]; `ENOMEM`.
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
    add(dev, pd, access, region, memory)
}

/// Registers all memory of the kernel.
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
    add(dev, pd, access, everything, memory)
}

fn add(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    access: Access,
    region: Region,
    memory: Arc<Memory>,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    let held = UniqueArc::new_uninit(GFP_KERNEL_ACCOUNT)?;
    let keys = dev
        .port()
        .keys()
        .add_region(pd.clone(), access, region, memory)?;
    let registered = MrHandle {
        key: keys.lkey,
        fast: None,
    };
    Ok((held.write(registered).into(), keys))
}

/// Makes a region for fast registration.
///
/// # Errors
///
/// `EINVAL`: more than [`MAX_FAST_REG_PAGES`]; `ENOMEM`.
pub(crate) fn alloc_fast(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    pages: u32,
) -> Result<(Arc<MrHandle>, MrKeys)> {
    if pages > MAX_FAST_REG_PAGES {
        return Err(EINVAL);
    }
    let held = UniqueArc::new_uninit(GFP_KERNEL)?;
    let (entry, keys) = dev.port().keys().add_fast(pd.clone(), pages)?;
    let registered = MrHandle {
        key: keys.lkey,
        fast: Some(entry),
    };
    Ok((held.write(registered).into(), keys))
}

/// Notes the pages that the next fast registration is for.
///
/// # Errors
///
/// `EINVAL`: not such a region; those of [`ScatterList::fill`].
pub(crate) fn stage(mr: &MrHandle, list: ScatterList<'_>) -> Result<u32> {
    match mr.fast.as_deref() {
        Some(KeyEntry::Fast(fast)) => fast.stage(list),
        _ => Err(EINVAL),
    }
}

/// Changes a region of a process.
///
/// # Errors
///
/// As [`reg_user`]; `EBUSY` if a window is bound to it. The region is as it was then.
pub(crate) fn change(
    dev: &Device<Ferroce>,
    mr: &MrHandle,
    change: MrChange<'_, Arc<Pd>>,
) -> Result {
    dev.port().keys().change_region(mr.key, |old| {
        let pd = change.pd.unwrap_or(&old.pd).clone();
        let access = supported(change.access.unwrap_or(old.access.bits()))?;
        let (region, memory) = match change.place {
            Some(place) => {
                let init = MrInit {
                    start: place.start,
                    length: place.length,
                    iova: place.iova,
                    access: access.bits(),
                };
                let (_, region, memory) = self::memory(dev, &init)?;
                (region, memory)
            }
            None => {
                // Whether addresses count from 0 is settled with the addresses.
                if access.contains(Access::ZERO_BASED) != old.access.contains(Access::ZERO_BASED) {
                    return Err(EOPNOTSUPP);
                }
                (old.region, with_rights(dev, old, access)?)
            }
        };
        Ok(Mr::new(pd, old.generation, access, region, memory))
    })
}

/// The memory of a region, for other rights than it has: registered anew if it was not to be written, or
/// is not to be pinned any more, or the other way round.
fn with_rights(dev: &Device<Ferroce>, mr: &Mr, access: Access) -> Result<Arc<Memory>> {
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
    memory(dev, &init).map(|(_, _, memory)| memory)
}

/// Tells what the core does not know of a region.
pub(crate) fn describe(dev: &Device<Ferroce>, mr: &MrHandle, details: &mut Details) {
    let guard = rcu::read_lock();
    let windows = match mr.fast.as_deref() {
        Some(KeyEntry::Fast(fast)) => &fast.windows,
        _ => match dev.port().keys().region(mr.key, &guard) {
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

/// Ends a region.
///
/// # Errors
///
/// `EBUSY`: a window is bound to it.
pub(crate) fn dereg(dev: &Device<Ferroce>, mr: &MrHandle) -> Result {
    dev.port().keys().remove_region(mr.key)
}

/// Makes a window. Returns its key as well.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn alloc_window(
    dev: &Device<Ferroce>,
    pd: &Arc<Pd>,
    mw_type: MwType,
) -> Result<(Arc<MwHandle>, u32)> {
    let window_type = match mw_type {
        MwType::One => WindowType::One,
        MwType::Two => WindowType::TwoB,
    };
    let held = UniqueArc::new_uninit(GFP_KERNEL_ACCOUNT)?;
    let key = dev.port().keys().add_window(pd.clone(), window_type)?;
    Ok((held.write(MwHandle { key }).into(), key))
}

/// Ends a window.
pub(crate) fn dealloc_window(dev: &Device<Ferroce>, mw: &MwHandle) {
    dev.port().keys().remove_window(mw.key);
}
