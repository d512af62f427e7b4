// SPDX-License-Identifier: GPL-2.0

//! Memory windows: the binding of a window, and the checks of an access through it (generation, protection
//! domain, QP, rights, bounds).
//!
//! Binding and invalidation run in the engines, in process context or softirq, so readers go through an
//! [`RwRevocable`]. A window refers to its region by index. The caller of [`Mw::bind`] ensures that the
//! region stays in the table while the window is bound.

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

/// Identity of a QP, for windows that only this QP and its peer may use. QP numbers are reused, identities
/// are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct QpIdentity(u64);

impl QpIdentity {
    /// No QP.
    const NONE: Self = Self(0);

    /// Returns a new identity.
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

/// The binding of a window.
pub(crate) struct Binding {
    /// Low byte of the key, also while the window is unbound.
    generation: u8,
    /// The QP that bound the window.
    identity: QpIdentity,
    access: Access,
    addresses: Region,
    place: Option<WindowPlace>,
}

/// Position of a window in a region.
#[derive(Clone, Copy)]
pub(crate) struct WindowPlace {
    /// Index of the region in the key table.
    pub(crate) region: u32,
    /// Offset of the first byte of the window.
    pub(crate) offset: u64,
}

impl Mw {
    /// Creates an unbound window.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        pd: Arc<Pd>,
        window_type: WindowType,
        generation: u8,
    ) -> Result<Pin<KBox<Self>>> {
        let unbound = Binding {
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
                binding <- RwRevocable::new_revoked(unbound, c"ferroce::Window", static_lock_class!()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Binds the window for the QP `identity`, or unbinds it. On success returns `Some` of the region that it was
    /// bound to before, if any. The caller must uncount that region.
    ///
    /// `attach` finds the new region and counts the window in it. It is called last, and only to bind.
    ///
    /// # Errors
    ///
    /// The outer `None` if the key is wrong, the window cannot be bound in this way, or `attach` fails. Nothing
    /// has changed then.
    pub(crate) fn bind(
        &self,
        identity: QpIdentity,
        bind: &Bind,
        attach: impl FnOnce() -> Option<WindowPlace>,
    ) -> Option<Option<u32>> {
        let mut binding = self.binding.lock();
        // CAST: The generation is the low byte of the key.
        let has_key = binding.generation == bind.window.get() as u8;
        if !has_key || !bind.is_valid_for(self.window_type, binding.place.is_some()) {
            return None;
        }
        let place = match bind.unbinds() {
            true => None,
            false => Some(attach()?),
        };
        let old = core::mem::replace(
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
        Some(old.place.map(|place| place.region))
    }

    /// Invalidates the binding of the QP `identity`. Returns the region, which the caller must uncount. When
    /// it returns, memory is no longer accessed through the window.
    ///
    /// # Errors
    ///
    /// `Key`: the key is wrong, or the window is not bound. `Rights`: the window is of type 1 (o10-37.2.26),
    /// or another QP has bound it.
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

    /// Returns the region that the window is bound to. Called on removal, when it can no longer be bound.
    pub(crate) fn region(&self) -> Option<u32> {
        self.binding.lock().place.map(|place| place.region)
    }

    /// Checks an access of the peer of the QP `identity`. Returns its position in the region, and a guard of
    /// the binding.
    ///
    /// # Errors
    ///
    /// As [`AccessRequest::check`]; `Key` if the generation is wrong or the window is not bound; `Rights` if
    /// the window belongs to another QP.
    pub(crate) fn locate(
        &self,
        identity: QpIdentity,
        generation: u8,
        request: &AccessRequest<'_>,
    ) -> Result<(RwGuard<'_, Binding>, WindowPlace), AccessError> {
        let binding = self.binding_for(identity, generation)?;
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

    /// Returns the addresses of the window, for the peer of the QP `identity`.
    ///
    /// # Errors
    ///
    /// `Key` and `Rights`, as [`Mw::locate`].
    pub(crate) fn addresses(
        &self,
        identity: QpIdentity,
        generation: u8,
    ) -> Result<Region, AccessError> {
        Ok(self.binding_for(identity, generation)?.addresses)
    }

    /// Returns the binding, if the peer of the QP `identity` may use it.
    fn binding_for(
        &self,
        identity: QpIdentity,
        generation: u8,
    ) -> Result<RwGuard<'_, Binding>, AccessError> {
        let binding = self.binding.try_access().ok_or(AccessError::Key)?;
        if binding.generation != generation {
            return Err(AccessError::Key);
        }
        if self.window_type == WindowType::TwoB && binding.identity != identity {
            return Err(AccessError::Rights);
        }
        Ok(binding)
    }
}
