// SPDX-License-Identifier: GPL-2.0

//! Memory windows.
//!
//! Owns what a window is bound to, and the checks of a peer who comes through it: generation,
//! protection domain, queue pair, rights, bounds. Knows regions by their index only: whoever binds a
//! window has to see to it that the region stays.

use crate::mem::{
    access_request::AccessRequest,
    pd::Pd, //
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use rdma::sync::rw_revocable::{
    RwGuard,
    RwRevocable, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Region, //
    },
    bind::{
        Bind,
        WindowType, //
    }, //
};

/// A queue pair, for what only it and its peer may use. Its number will not do: it is given out again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct QpIdentity(u64);

impl QpIdentity {
    /// Nobody.
    const NONE: Self = Self(0);

    /// One that was never there before.
    pub(crate) fn new() -> Self {
        static LAST: Atomic<u64> = Atomic::new(0);
        Self(LAST.fetch_add(1, Relaxed).wrapping_add(1))
    }
}

/// A memory window.
#[pin_data]
pub(crate) struct Mw {
    pub(crate) pd: Arc<Pd>,
    window_type: WindowType,
    /// Open while the window is bound.
    #[pin]
    binding: RwRevocable<Binding>,
}

/// What a window is bound to.
pub(crate) struct Binding {
    /// The low byte of the key, also while it is bound to nothing.
    generation: u8,
    /// Who has bound it.
    identity: QpIdentity,
    access: Access,
    addresses: Region,
    place: Option<WindowPlace>,
}

/// Where in which region a window is.
#[derive(Clone, Copy)]
pub(crate) struct WindowPlace {
    /// Index of the region.
    pub(crate) region: u32,
    /// First byte of the window.
    pub(crate) offset: u64,
}

impl Mw {
    /// A window that is bound to nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        pd: Arc<Pd>,
        window_type: WindowType,
        generation: u8,
    ) -> Result<Pin<KBox<Self>>> {
        let nothing = Binding {
            generation,
            identity: QpIdentity::NONE,
            access: Access::NONE,
            addresses: Region { iova: 0, length: 0 },
            place: None,
        };
        KBox::pin_init(
            pin_init!(Self {
                pd,
                window_type,
                binding <- RwRevocable::new_revoked(nothing, c"ferroce::Window", static_lock_class!()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Binds the window for queue pair `identity`; returns the region that it was bound to, which is to
    /// be let go.
    ///
    /// `hold` looks the new region up and holds it; it is called only if the rest is in order.
    ///
    /// # Errors
    ///
    /// `None`: the window does not have that key, or may not be bound like this; or `hold` says so.
    /// Nothing has changed then.
    pub(crate) fn bind(
        &self,
        identity: QpIdentity,
        bind: &Bind,
        hold: impl FnOnce() -> Option<WindowPlace>,
    ) -> Option<Option<u32>> {
        let mut binding = self.binding.lock();
        // CAST: The generation is the low byte.
        let named = binding.generation == bind.window.get() as u8;
        if !named || !bind.suits(self.window_type, binding.place.is_some()) {
            return None;
        }
        let place = match bind.unbinds() {
            true => None,
            false => Some(hold()?),
        };
        let before = core::mem::replace(
            binding.revoke(),
            Binding {
                generation: bind.key,
                identity,
                access: bind.rights(),
                addresses: bind.addresses(),
                place,
            },
        );
        if place.is_some() {
            binding.make_accessible();
        }
        Some(before.place.map(|place| place.region))
    }

    /// Takes the binding of queue pair `identity` back; returns the region, which is to be let go. When it
    /// returns, nobody reads or writes through the window any more.
    ///
    /// # Errors
    ///
    /// `Key`: that is not its key, or it is not bound; `Rights`: it is of type 1 (o10-37.2.26), or
    /// another queue pair has bound it.
    pub(crate) fn invalidate(
        &self,
        identity: QpIdentity,
        generation: u8,
    ) -> Result<u32, AccessError> {
        let mut binding = self.binding.lock();
        if binding.generation != generation {
            return Err(AccessError::Key);
        }
        if self.window_type != WindowType::TwoB {
            return Err(AccessError::Rights);
        }
        let place = binding.place.ok_or(AccessError::Key)?;
        if binding.identity != identity {
            return Err(AccessError::Rights);
        }
        binding.revoke().place = None;
        Ok(place.region)
    }

    /// The region that the window is bound to. For its end, when nobody can bind it any more.
    pub(crate) fn region(&self) -> Option<u32> {
        self.binding.lock().place.map(|place| place.region)
    }

    /// Checks that a peer of queue pair `identity` may have what it wishes, and says where it is.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; the wrong generation, the wrong queue pair, no binding.
    pub(crate) fn locate(
        &self,
        identity: QpIdentity,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<(RwGuard<'_, Binding>, WindowPlace), AccessError> {
        let binding = self.binding.try_access().ok_or(AccessError::Key)?;
        if binding.generation != generation {
            return Err(AccessError::Key);
        }
        if self.window_type == WindowType::TwoB && binding.identity != identity {
            return Err(AccessError::Rights);
        }
        let at = request.check(&self.pd, binding.access, binding.addresses)?;
        let place = binding.place.ok_or(AccessError::Key)?;
        let offset = place.offset.wrapping_add(at);
        Ok((
            binding,
            WindowPlace {
                region: place.region,
                offset,
            },
        ))
    }
}
