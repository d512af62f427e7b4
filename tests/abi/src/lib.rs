// SPDX-License-Identifier: GPL-2.0

//! Files of the driver that need little of the kernel, on the host.
//!
//! The very files that the module is built from, over stand-ins for the little of the `kernel` and `rdma` crates that
//! they use: the entries of the user ABI, with the body of a fuzz target, which also runs for a bounded time as a test,
//! and the queue of a kernel consumer's completions.

// The driver's files call it by this name.
extern crate self as kernel;
extern crate self as rdma;

pub mod entries;
#[cfg(test)]
mod fifo_props;

/// Stands in for `rust/rdma/ib`.
pub mod ib {
    /// Stands in for `rust/rdma/ib/wc.rs`.
    pub mod wc {
        /// A work completion.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Wc {
            /// Identifier given with the work request.
            pub wr_id: u64,
            /// `enum ib_wc_status`.
            pub status: u32,
            /// `enum ib_wc_opcode`.
            pub opcode: u32,
            /// Bytes received or read.
            pub byte_len: u32,
            /// Immediate data.
            pub imm: Option<[u8; 4]>,
            /// The key that was taken back.
            pub invalidated: Option<u32>,
            /// The queue pair's number.
            pub qp_num: u32,
            /// The sender's.
            pub src_qp: u32,
            /// The first 40 bytes are a GRH.
            pub grh: bool,
        }
    }

    /// Stands in for `rust/rdma/ib/wr.rs`.
    pub mod wr {
        /// A scatter/gather entry.
        #[derive(Clone, Copy, Debug)]
        pub struct Sge {
            /// Address.
            pub addr: u64,
            /// Bytes.
            pub length: u32,
            /// Local key.
            pub lkey: u32,
        }
    }
}

#[path = "../../../rust/driver/abi/mod.rs"]
#[allow(dead_code, reason = "not all that the module uses is tried here")]
pub(crate) mod abi;

#[path = "../../../rust/driver/limits.rs"]
#[allow(dead_code, reason = "not all that the module uses is tried here")]
mod limits;

#[path = "../../../rust/driver/queue/fifo.rs"]
#[allow(dead_code, reason = "not all that the module uses is tried here")]
mod fifo;

/// Stands in for the prelude of the `kernel` crate.
pub mod prelude {
    /// The only flags there are.
    pub const GFP_KERNEL_ACCOUNT: () = ();

    /// No allocation fails on the host.
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

        /// Whether there are none.
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

/// Stands in for `rust/rdma/util`.
pub mod util {
    /// Stands in for `rust/rdma/util/alloc.rs`.
    pub mod alloc {
        /// The only flags there are.
        pub const fn gfp_user() {}
    }
}
