// SPDX-License-Identifier: GPL-2.0

//! The provider library over a model of the kernel, for the models of threads that post, poll and destroy.
//!
//! The files of `tools/provider/src` are the real ones. Replaced are `sync`, by words that promise no more than the
//! hardware does; of `ffi` what calls libibverbs and libc; and modules of which only a type is needed here. `kernel` is
//! the other side: its rings and the decision about doorbells are the driver's own files, too.

// The library's files have unit tests, which are not for a model.
#![cfg(not(test))]
// Most of the library is not used.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../tools/provider/src/abi/mod.rs"]
mod abi;
#[path = "../../../tools/provider/src/cq.rs"]
mod cq;
#[path = "../../../tools/provider/src/cqe.rs"]
mod cqe;
#[path = "../../../tools/provider/src/doorbell.rs"]
mod doorbell;
#[path = "../../../tools/provider/src/errno.rs"]
mod errno;
mod ffi;
mod kernel;
#[path = "../../../tools/provider/src/post.rs"]
mod post;
#[path = "../../../tools/provider/src/qp.rs"]
mod qp;
#[path = "../../../tools/provider/src/ring.rs"]
mod ring;
mod sync;
#[path = "../../../tools/provider/src/wqe.rs"]
mod wqe;

pub use ffi::program::{
    Locked,
    Program, //
};

/// Replaces `ah.rs`.
mod ah {
    pub(crate) struct AhBody {
        pub(crate) number: u32,
    }
}

/// Replaces `mr.rs`.
mod mr {
    pub(crate) fn next_rkey(rkey: u32) -> u32 {
        rkey
    }
}

/// Replaces `pd.rs`.
mod pd {
    use crate::ffi::object::Users;

    pub(crate) struct PdBody(pub(crate) Users);

    impl PdBody {
        pub(crate) fn users(&self) -> &Users {
            &self.0
        }

        pub(crate) fn has_td(&self) -> bool {
            false
        }
    }
}

/// Replaces `srq.rs`.
mod srq {
    pub(crate) struct SrqBody;
}
