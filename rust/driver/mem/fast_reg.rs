// SPDX-License-Identifier: GPL-2.0

//! Regions of kernel consumers that a work request registers and another invalidates (FRWR, `IB_WR_REG_MR`).

use crate::mem::{
    access_request::AccessRequest,
    mr::BoundWindows,
    pd::Pd, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    static_lock_class,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    mm::{
        fast_reg::{
            FastRegPages,
            ScatterList, //
        },
        memory::Memory, //
    },
    sync::rw_revocable::{
        RwGuard,
        RwRevocable, //
    }, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Region, //
    },
    bind::FastReg, //
};

/// A region for fast registration, which a work request fills with pages and another empties.
#[pin_data]
pub(crate) struct FastMr {
    pub(crate) pd: Arc<Pd>,
    /// What peers and scatter lists get; open while the region is registered.
    #[pin]
    active: RwRevocable<FastRegistration>,
    /// What the next work request registers.
    #[pin]
    staged: SpinLockIrq<StagedPages>,
    pub(crate) windows: BoundWindows,
}

/// A registration.
pub(crate) struct FastRegistration {
    pub(crate) generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Always [`Memory::FastRegPages`].
    pub(crate) memory: Memory,
}

/// Pages that a consumer has listed.
struct StagedPages {
    pages: FastRegPages,
    /// They are not registered yet.
    fresh: bool,
}

/// Rights that only peers need.
const REMOTE: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

impl FastMr {
    /// A region without memory, for up to `pages` pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: Arc<Pd>, generation: u8, pages: u32) -> Result<Pin<KBox<Self>>> {
        let nothing = FastRegistration {
            generation,
            access: Access::NONE,
            region: Region { iova: 0, length: 0 },
            memory: Memory::FastRegPages(FastRegPages::new(pages)?),
        };
        let staged = StagedPages {
            pages: FastRegPages::new(pages)?,
            fresh: false,
        };
        let windows = BoundWindows::new();
        windows.close();
        KBox::pin_init(
            pin_init!(Self {
                pd,
                active <- RwRevocable::new_revoked(nothing, c"ferroce::FastMr", static_lock_class!()),
                staged <- new_spinlock_irq!(staged, "ferroce::FastMr::staged"),
                windows,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Notes pages for the next registration. Returns how many elements of the list were taken.
    ///
    /// # Errors
    ///
    /// As [`ScatterList::fill`].
    pub(crate) fn stage(&self, list: ScatterList<'_>) -> Result<u32> {
        let mut staged = self.staged.lock();
        let taken = list.fill(&mut staged.pages)?;
        staged.fresh = true;
        Ok(taken)
    }

    /// Registers the pages that were noted last. `false`: the region is registered already.
    pub(crate) fn register(&self, reg: &FastReg) -> bool {
        let mut active = self.active.lock();
        if active.is_accessible() {
            return false;
        }
        let now = active.revoke();
        let mut staged = self.staged.lock();
        if staged.fresh {
            if let Memory::FastRegPages(pages) = &mut now.memory {
                core::mem::swap(pages, &mut staged.pages);
            }
            staged.fresh = false;
        }
        drop(staged);
        // CAST: The generation is the low byte.
        now.generation = reg.key as u8;
        now.access = reg.access;
        now.region = Region {
            iova: reg.iova,
            length: match &now.memory {
                Memory::FastRegPages(pages) => pages.length(),
                _ => 0,
            },
        };
        active.make_accessible();
        self.windows.reopen();
        true
    }

    /// Takes the registration back. When it returns, nobody reads or writes the pages any more.
    ///
    /// # Errors
    ///
    /// `Key`: that is not its key; `Rights`: a peer has no right to it, or a window is bound.
    pub(crate) fn invalidate(&self, generation: u8, remote: bool) -> Result<(), AccessError> {
        let mut active = self.active.lock();
        if active.generation != generation || (remote && !active.is_accessible()) {
            return Err(AccessError::Key);
        }
        if remote && active.access.intersection(REMOTE) == Access::NONE {
            return Err(AccessError::Rights);
        }
        if !self.windows.close() {
            return Err(AccessError::Rights);
        }
        active.revoke();
        Ok(())
    }

    /// The registration, if there is one.
    pub(crate) fn enter(&self) -> Result<RwGuard<'_, FastRegistration>, AccessError> {
        self.active.try_access().ok_or(AccessError::Key)
    }

    /// [`AccessRequest::check`] for this region.
    ///
    /// # Errors
    ///
    /// Those of [`AccessRequest::check`], the wrong generation, and no registration.
    pub(crate) fn locate(
        &self,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<(RwGuard<'_, FastRegistration>, u64), AccessError> {
        let active = self.enter()?;
        if active.generation != generation {
            return Err(AccessError::Key);
        }
        let at = request.check(&self.pd, active.access, active.region)?;
        Ok((active, at))
    }
}
