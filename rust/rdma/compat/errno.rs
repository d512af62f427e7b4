// SPDX-License-Identifier: GPL-2.0

//! Error codes that the kernel crate lacks before 7.3.
//!
//! They are made here for every kernel. An import by name takes precedence over the kernel crate's prelude.
//!
//! C header: [`include/uapi/asm-generic/errno.h`](srctree/include/uapi/asm-generic/errno.h)

use core::{
    mem::transmute,
    num::NonZeroI32, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// Returns the error of a positive errno. The kernel crate has no such function that is `const`.
const fn error(errno: u32) -> Error {
    assert!(errno != 0 && errno <= bindings::MAX_ERRNO);
    // CAST: The value is at most `MAX_ERRNO`.
    let Some(value) = NonZeroI32::new(-(errno as i32)) else {
        panic!("errno is 0");
    };
    // SAFETY: An `Error` is one `NonZeroI32`, as the assertions below show: `transmute` requires the same size, and a
    // known error has the negative errno as its value. The value is in the range that the invariant of `Error`
    // demands.
    unsafe { transmute(value) }
}

const _: () = {
    // SAFETY: Each bit pattern is a valid `i32`.
    let value: i32 = unsafe { transmute(EINVAL) };
    // CAST: The value is at most `MAX_ERRNO`.
    assert!(value == -(bindings::EINVAL as i32));
};

/// Cannot assign requested address.
pub const EADDRNOTAVAIL: Error = error(bindings::EADDRNOTAVAIL);
/// Address already in use.
pub const EADDRINUSE: Error = error(bindings::EADDRINUSE);
/// Address family not supported by protocol.
pub const EAFNOSUPPORT: Error = error(bindings::EAFNOSUPPORT);
/// Network is unreachable.
pub const ENETUNREACH: Error = error(bindings::ENETUNREACH);
/// Operation not supported on transport endpoint.
pub const EOPNOTSUPP: Error = error(bindings::EOPNOTSUPP);
/// Protocol family not supported.
pub const EPFNOSUPPORT: Error = error(bindings::EPFNOSUPPORT);
