// SPDX-License-Identifier: GPL-2.0

//! An access to memory that a queue pair asks for, and the check that a region or a window grants it.

use crate::mem::pd::Pd;
use kernel::sync::Arc;
use roce::access::{
    Access,
    AccessError,
    Region, //
};

/// What somebody wants of memory.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    /// Protection domain of the queue pair.
    pub(crate) pd: &'a Arc<Pd>,
    /// First address.
    pub(crate) va: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// For what.
    pub(crate) access: Access,
}

impl AccessRequest<'_> {
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
