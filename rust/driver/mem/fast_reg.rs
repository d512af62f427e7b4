// SPDX-License-Identifier: GPL-2.0

//! Memory regions of ULPs for fast registration (FRWR): a work request registers them (`IB_WR_REG_MR`), and
//! another invalidates them.
//!
//! Registration and invalidation run in the send engine, in process context or softirq. Readers therefore go
//! through an [`RwRevocable`]. `map_mr_sg` stages pages in any context, under the spinlock of the staged
//! pages. That spinlock nests inside the lock of the [`RwRevocable`].

use crate::mem::{
    access_request::AccessRequest,
    mr::BoundWindows,
    pd::Pd, //
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        Arc, //
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
    sync::{
        new_spinlock_irq,
        rw_revocable::{
            RwGuard,
            RwRevocable, //
        },
        SpinLockIrq, //
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

/// A memory region for fast registration.
#[pin_data]
pub(crate) struct FastMr {
    pub(crate) pd: Arc<Pd>,
    /// The registration that accesses use. Open while the region is registered.
    #[pin]
    active: RwRevocable<FastRegistration>,
    /// Pages of the next registration.
    #[pin]
    staged: SpinLockIrq<StagedPages>,
    pub(crate) windows: BoundWindows,
}

/// The properties of the registered region.
pub(crate) struct FastRegistration {
    pub(crate) generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Always [`Memory::FastRegPages`].
    pub(crate) memory: Memory,
}

/// Pages that the ULP passed to `ib_map_mr_sg()`.
struct StagedPages {
    pages: FastRegPages,
    /// Not registered yet.
    fresh: bool,
}

/// Rights that only peers use.
const REMOTE_RIGHTS: Access = Access::REMOTE_READ
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC);

impl FastMr {
    /// Creates an unregistered region for up to `pages` pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: Arc<Pd>, generation: u8, pages: u32) -> Result<Pin<KBox<Self>>> {
        let inactive = FastRegistration {
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
                active <- RwRevocable::new_revoked(inactive, c"ferroce::FastMr", static_lock_class!()),
                staged <- new_spinlock_irq!(staged, "ferroce::FastMr::staged"),
                windows,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Stages pages for the next registration. Returns the number of list elements used.
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

    /// Registers the pages staged last. Returns false if the region is registered already.
    pub(crate) fn register(&self, reg: &FastReg) -> bool {
        let mut active = self.active.lock();
        if active.is_accessible() {
            return false;
        }
        let registration = active.revoke();
        let mut staged = self.staged.lock();
        if staged.fresh {
            if let Memory::FastRegPages(pages) = &mut registration.memory {
                core::mem::swap(pages, &mut staged.pages);
            }
            staged.fresh = false;
        }
        drop(staged);
        // CAST: The generation is the low byte of the key.
        registration.generation = reg.key as u8;
        registration.access = reg.access;
        registration.region = Region {
            iova: reg.iova,
            length: match &registration.memory {
                Memory::FastRegPages(pages) => pages.length(),
                _ => 0,
            },
        };
        active.make_accessible();
        self.windows.reopen();
        true
    }

    /// Invalidates the registration. When it returns, the pages are no longer accessed.
    ///
    /// # Errors
    ///
    /// `Key`: the key is wrong, or a peer invalidates a region that is not registered. `Rights`: a peer
    /// invalidates a region without remote rights, or a window is bound.
    pub(crate) fn invalidate(&self, generation: u8, remote: bool) -> Result<(), AccessError> {
        let mut active = self.active.lock();
        if active.generation != generation || (remote && !active.is_accessible()) {
            return Err(AccessError::Key);
        }
        if remote && active.access.intersection(REMOTE_RIGHTS) == Access::NONE {
            return Err(AccessError::Rights);
        }
        if !self.windows.close() {
            return Err(AccessError::Rights);
        }
        active.revoke();
        Ok(())
    }

    /// Returns the registration.
    ///
    /// # Errors
    ///
    /// `Key` if the region is not registered.
    pub(crate) fn enter(&self) -> Result<RwGuard<'_, FastRegistration>, AccessError> {
        self.active.try_access().ok_or(AccessError::Key)
    }

    /// Checks `request` as [`AccessRequest::check`] does. Returns the registration and the offset of the
    /// bytes.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if the generation is wrong or the region is not registered.
    pub(crate) fn locate(
        &self,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<(RwGuard<'_, FastRegistration>, u64), AccessError> {
        let active = self.enter()?;
        if active.generation != generation {
            return Err(AccessError::Key);
        }
        let offset = request.check(&self.pd, active.access, active.region)?;
        Ok((active, offset))
    }
}
