// SPDX-License-Identifier: GPL-2.0

//! Memory regions: what stands behind a key.
//!
//! Owns the checks between a key and the memory of one region: generation, protection domain,
//! rights, bounds. Does not know packets or queue pairs; whoever passes the checks gets an offset
//! into [`Memory`], which only copies.
//!
//! A region of a process does not change as long as it has its place in the table. One for fast
//! registration changes in softirq, so its readers go through a [`Gate`].

use kernel::{
    new_spinlock_irq,
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};
use rdma::{
    gate::{
        Entered,
        Gate, //
    },
    umem::{
        Memory,
        Pages,
        ScatterList, //
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

/// What somebody wants of memory.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    /// Protection domain of the queue pair.
    pub(crate) pd: &'a Arc<Pd>,
    /// First address.
    pub(crate) va: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// For what.
    pub(crate) access: Access,
}

impl Wish<'_> {
    /// Checks it against what a region or a window gives, and says where in it the bytes are (C9-88).
    ///
    /// # Errors
    ///
    /// Another protection domain, missing rights, or bytes outside.
    pub(crate) fn check(
        &self,
        pd: &Arc<Pd>,
        access: Access,
        region: Region,
    ) -> Result<u64, AccessError> {
        if !Arc::ptr_eq(self.pd, pd) {
            return Err(AccessError::ProtectionDomain);
        }
        if !access.contains(self.access) {
            return Err(AccessError::Rights);
        }
        region
            .offset_of(self.va, u64::from(self.len))
            .ok_or(AccessError::Bounds)
    }
}

/// Counts the windows that are bound to a region, so that it does not go while there are any.
pub(crate) struct Windows(Atomic<i32>);

/// No window may be bound.
const CLOSED: i32 = -1;

impl Windows {
    fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// A window wants to be bound. `false`: the region is going.
    pub(crate) fn enter(&self) -> bool {
        let mut count = self.0.load(Relaxed);
        loop {
            if count == CLOSED {
                return false;
            }
            match self.0.cmpxchg(count, count.wrapping_add(1), Full) {
                Ok(_) => return true,
                Err(other) => count = other,
            }
        }
    }

    /// A window is not bound any more.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Full);
    }

    /// How many are bound.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }

    /// From now on no window can be bound. `false`: there are some.
    pub(crate) fn close(&self) -> bool {
        matches!(self.0.cmpxchg(0, CLOSED, Full), Ok(_) | Err(CLOSED))
    }

    /// Takes [`Windows::close`] back.
    fn reopen(&self) {
        let _ = self.0.cmpxchg(CLOSED, 0, Full);
    }
}

/// Memory that a consumer has registered.
pub(crate) struct Mr {
    pub(crate) pd: Arc<Pd>,
    /// The low byte of the key.
    pub(crate) generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Shared with the region that takes the place of this one when it is changed.
    pub(crate) memory: Arc<Memory>,
    pub(crate) windows: Windows,
}

impl Mr {
    /// A region without windows.
    pub(crate) fn new(
        pd: Arc<Pd>,
        generation: u8,
        access: Access,
        region: Region,
        memory: Arc<Memory>,
    ) -> Self {
        Self {
            pd,
            generation,
            access,
            region,
            memory,
            windows: Windows::new(),
        }
    }

    /// [`Wish::check`] for this region.
    ///
    /// # Errors
    ///
    /// Those of [`Wish::check`], and the wrong generation.
    pub(crate) fn locate(&self, generation: u8, wish: &Wish<'_>) -> Result<u64, AccessError> {
        if self.generation != generation {
            return Err(AccessError::Key);
        }
        wish.check(&self.pd, self.access, self.region)
    }

    /// Checks that a holder of `pd` may do `access` to all of the region.
    ///
    /// # Errors
    ///
    /// As [`Mr::locate`].
    pub(crate) fn grants(
        &self,
        generation: u8,
        pd: &Arc<Pd>,
        access: Access,
    ) -> Result<(), AccessError> {
        let start = Wish {
            pd,
            va: self.region.iova,
            len: 0,
            access,
        };
        self.locate(generation, &start).map(|_| ())
    }
}

/// Most pages of a region for fast registration.
pub(crate) const MAX_PAGES: u32 = 512;

/// A region for fast registration, which a work request fills with pages and another empties.
#[pin_data]
pub(crate) struct FastMr {
    pub(crate) pd: Arc<Pd>,
    /// What peers and scatter lists get; open while the region is registered.
    #[pin]
    active: Gate<Active>,
    /// What the next work request registers.
    #[pin]
    staged: SpinLockIrq<Staged>,
    pub(crate) windows: Windows,
}

/// A registration.
pub(crate) struct Active {
    generation: u8,
    pub(crate) access: Access,
    pub(crate) region: Region,
    /// Always [`Memory::Pages`].
    pub(crate) memory: Memory,
}

/// Pages that a consumer has listed.
struct Staged {
    pages: Pages,
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
        let nothing = Active {
            generation,
            access: Access::NONE,
            region: Region { iova: 0, length: 0 },
            memory: Memory::Pages(Pages::new(pages)?),
        };
        let staged = Staged {
            pages: Pages::new(pages)?,
            fresh: false,
        };
        let windows = Windows::new();
        windows.close();
        KBox::pin_init(
            pin_init!(Self {
                pd,
                active <- Gate::shut(nothing, c"ferroce::FastMr", static_lock_class!()),
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
        if active.is_open() {
            return false;
        }
        let now = active.shut();
        let mut staged = self.staged.lock();
        if staged.fresh {
            if let Memory::Pages(pages) = &mut now.memory {
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
                Memory::Pages(pages) => pages.length(),
                _ => 0,
            },
        };
        active.open();
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
        if active.generation != generation || (remote && !active.is_open()) {
            return Err(AccessError::Key);
        }
        if remote && active.access.intersection(REMOTE) == Access::NONE {
            return Err(AccessError::Rights);
        }
        if !self.windows.close() {
            return Err(AccessError::Rights);
        }
        active.shut();
        Ok(())
    }

    /// The registration, if there is one.
    pub(crate) fn enter(&self) -> Result<Entered<'_, Active>, AccessError> {
        self.active.enter().ok_or(AccessError::Key)
    }

    /// [`Wish::check`] for this region.
    ///
    /// # Errors
    ///
    /// Those of [`Wish::check`], the wrong generation, and no registration.
    pub(crate) fn locate(
        &self,
        generation: u8,
        wish: &Wish<'_>,
    ) -> Result<(Entered<'_, Active>, u64), AccessError> {
        let active = self.enter()?;
        if active.generation != generation {
            return Err(AccessError::Key);
        }
        let at = wish.check(&self.pd, active.access, active.region)?;
        Ok((active, at))
    }
}
