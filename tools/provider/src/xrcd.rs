// SPDX-License-Identifier: GPL-2.0

//! XRC domains.

use crate::{
    errno::Errno,
    ffi::{
        cmd::{
            self,
            XrcdFile, //
        },
        memory::Owned,
        object::{
            Context,
            Xrcd, //
        },
    },
};

/// Opens the XRC domain of a file, or one without a file.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn open(context: Context<'_>, file: XrcdFile) -> Result<Owned<Xrcd>, Errno> {
    let mut xrcd = Xrcd::allocate(())?;
    cmd::open_xrcd(context, file, &mut xrcd)?;
    Ok(xrcd)
}
