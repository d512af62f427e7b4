// SPDX-License-Identifier: GPL-2.0

//! What a process may write into its queues, on the host.
//!
//! The very files of `rust/driver/abi` that the module is built from, over values that stand in for those of
//! `rust/rdma`, and the body of a fuzz target, which also runs for a bounded time as a test.

// The driver's files call it by this name.
extern crate self as rdma;

pub mod entries;

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
