// SPDX-License-Identifier: GPL-2.0

//! Memory regions and windows.

use crate::{
    errno::Errno,
    ffi::{
        cmd::{
            self,
            DmaBuf,
            Range, //
        },
        memory::Owned,
        object::{
            Mr,
            Mw,
            Pd, //
        },
    },
};

/// Registers memory.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn register(pd: &Pd, range: Range) -> Result<Owned<Mr>, Errno> {
    let mut mr = Mr::allocate(())?;
    cmd::reg_mr(pd, range, &mut mr)?;
    Ok(mr)
}

/// Registers a range of a DMA buffer.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn register_dma_buf(pd: &Pd, buffer: DmaBuf) -> Result<Owned<Mr>, Errno> {
    let mut mr = Mr::allocate(())?;
    cmd::reg_dmabuf_mr(pd, buffer, &mut mr)?;
    Ok(mr)
}

/// Returns a region that the kernel has already, by its handle.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn import(pd: &Pd, handle: u32) -> Result<Owned<Mr>, Errno> {
    let mut mr = Mr::allocate(())?;
    cmd::query_mr(pd, handle, &mut mr)?;
    Ok(mr)
}

/// Allocates a window of this type.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn allocate_window(pd: &Pd, kind: i32) -> Result<Owned<Mw>, Errno> {
    let mut mw = Mw::allocate(())?;
    cmd::alloc_mw(pd, kind, &mut mw)?;
    Ok(mw)
}

/// Returns the key that a window gets when it is bound anew: its low byte is the program's.
pub(crate) fn next_rkey(rkey: u32) -> u32 {
    (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_low_byte_of_a_key_changes() {
        assert_eq!(next_rkey(0x1234_5600), 0x1234_5601);
        assert_eq!(next_rkey(0x1234_56ff), 0x1234_5600);
    }
}
