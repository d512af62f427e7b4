// SPDX-License-Identifier: GPL-2.0

//! An access of a QP to memory, and the check that a region or window grants it. Called in a section, in
//! any context but hard interrupts.

use crate::mem::pd::Pd;
use kernel::sync::Arc;
use roce::access::{
    Access,
    AccessError,
    Region, //
};

/// An access to memory, as the holder of a protection domain requests it.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    /// Protection domain of the QP.
    pub(crate) pd: &'a Arc<Pd>,
    /// First address.
    pub(crate) va: u64,
    /// Length in bytes.
    pub(crate) len: u32,
    /// Required rights.
    pub(crate) access: Access,
}

impl AccessRequest<'_> {
    /// Checks the request against a region or window with these properties (C9-88). Returns the offset of the
    /// bytes in it.
    ///
    /// # Errors
    ///
    /// `ProtectionDomain`, `Rights` or `Bounds`.
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
