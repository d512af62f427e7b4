// SPDX-License-Identifier: GPL-2.0

//! Driver files that need little of the kernel, compiled for the host.
//!
//! They are the files of the module, over replacements for the parts of the `kernel` and `rdma`
//! crates that they use: the WQEs and CQEs of the user ABI, with the body of a fuzz target that
//! also runs as a test, and the completion queue of a ULP.

// The driver's files use these names.
extern crate self as kernel;
extern crate self as rdma;

pub mod entries;
#[cfg(test)]
mod fifo_props;

/// Replaces `rust/rdma/ib`.
pub mod ib {
    /// Replaces `rust/rdma/ib/wc.rs`.
    pub mod wc {
        /// A work completion.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Wc {
            /// Identifier from the work request.
            pub wr_id: u64,
            /// `enum ib_wc_status`.
            pub status: u32,
            /// `enum ib_wc_opcode`.
            pub opcode: u32,
            /// Bytes received or read.
            pub byte_len: u32,
            /// Immediate data.
            pub imm: Option<[u8; 4]>,
            /// The invalidated key.
            pub invalidated: Option<u32>,
            /// QP number.
            pub qp_num: u32,
            /// QP number of the sender.
            pub src_qp: u32,
            /// Whether the first 40 bytes are a GRH.
            pub grh: bool,
        }
    }

    /// Replaces `rust/rdma/ib/wr.rs`.
    pub mod wr {
        /// A scatter/gather entry.
        #[derive(Clone, Copy, Debug)]
        pub struct Sge {
            /// Address.
            pub addr: u64,
            /// Length in bytes.
            pub length: u32,
            /// Local key.
            pub lkey: u32,
        }
    }
}

#[path = "../../../rust/driver/abi/mod.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
pub(crate) mod abi;

#[path = "../../../rust/driver/limits.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
mod limits;

#[path = "../../../rust/driver/queue/fifo.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
mod fifo;

/// Replaces the prelude of the `kernel` crate.
pub mod prelude {
    /// The only flags.
    pub const GFP_KERNEL_ACCOUNT: () = ();

    /// Allocations do not fail on the host.
    #[derive(Debug)]
    pub enum Error {}

    /// See `kernel::error::Result`.
    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// A vector.
    pub struct KVVec<T>(Vec<T>);

    impl<T> KVVec<T> {
        /// See `kernel::alloc::Vec`.
        pub fn with_capacity(capacity: usize, _flags: ()) -> Result<Self> {
            Ok(Self(Vec::with_capacity(capacity)))
        }

        /// See `kernel::alloc::Vec`.
        pub fn push(&mut self, value: T, _flags: ()) -> Result<()> {
            self.0.push(value);
            Ok(())
        }

        /// Number of values.
        pub fn len(&self) -> usize {
            self.0.len()
        }

        /// Whether it is empty.
        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        /// See `slice::get`.
        pub fn get(&self, index: usize) -> Option<&T> {
            self.0.get(index)
        }

        /// See `slice::get_mut`.
        pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
            self.0.get_mut(index)
        }
    }
}

/// Replaces `rust/rdma/util`.
pub mod util {
    /// Replaces `rust/rdma/util/alloc.rs`.
    pub mod alloc {
        /// The only flags.
        pub const fn gfp_user() {}

        /// A table.
        pub type Table<T> = crate::prelude::KVVec<T>;
    }
}
