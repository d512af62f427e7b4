// SPDX-License-Identifier: GPL-2.0

//! CRC-32 as used by Ethernet and by the ICRC of RoCE.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use crate::bindings;

/// Continues `crc` over `bytes`, with the reflected polynomial 0xedb88320.
///
/// Does not invert the value, neither at the start nor at the end. For any context. C uses CRC instructions where the
/// CPU has them; on x86, since 6.15.
#[inline]
pub fn crc32_le(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: The slice is valid for reads of its length.
    unsafe { bindings::crc32_le(crc, bytes.as_ptr().cast(), bytes.len()) }
}
