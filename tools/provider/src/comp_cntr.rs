// SPDX-License-Identifier: GPL-2.0

//! Completion counters, which the kernel counts.

use crate::{
    errno::Errno,
    ffi::{
        c::CompCntrInitAttr,
        cmd, libc,
        memory::Owned,
        object::{
            CompCntr,
            Context, //
        },
    },
};

/// `enum ibv_comp_cntr_type`; `enum ferroce_comp_cntr_type` is the same.
mod kind {
    pub(super) const WRS: u32 = 0;
    pub(super) const BYTES: u32 = 1;
}

/// Creates a counter.
///
/// # Errors
///
/// `EOPNOTSUPP` for attributes that no version of this library knows; `ENOMEM`, or the kernel's.
pub(crate) fn create(
    context: Context<'_>,
    attr: &CompCntrInitAttr,
) -> Result<Owned<CompCntr>, Errno> {
    if attr.comp_mask != 0 || attr.flags != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let mut counter = CompCntr::allocate(())?;
    match attr.kind {
        kind::WRS => cmd::create_comp_cntr(context, &mut counter)?,
        // libibverbs passes no type.
        kind::BYTES => {
            let file = context.file();
            let handle = libc::create_comp_cntr(file.fd, file.driver_id, kind::BYTES)
                .map_err(Errno::of_missing_method)?;
            counter.set_handle(context, handle);
        }
        _ => return Err(Errno::OPNOTSUPP),
    }
    Ok(counter)
}
