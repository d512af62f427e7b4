// SPDX-License-Identifier: GPL-2.0

//! Driver files that need little of the kernel, compiled for the host.
//!
//! They are the files of the module, over replacements for the parts of the `kernel` and `rdma`
//! crates that they use: the WQEs and CQEs of the user ABIs, with the body of a fuzz target that
//! also runs as a test, and the completion queue of a ULP.

// The driver's files use these names.
extern crate self as kernel;
extern crate self as rdma;

pub mod direct_entries;
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
        use zerocopy_derive::{
            FromBytes,
            Immutable,
            IntoBytes,
            KnownLayout, //
        };

        /// A scatter/gather entry.
        #[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
        #[repr(C)]
        pub struct Sge {
            /// Address.
            pub addr: u64,
            /// Length in bytes.
            pub length: u32,
            /// Local key.
            pub lkey: u32,
        }
    }

    /// Replaces `rust/rdma/ib/wr_op.rs`.
    pub mod wr_op {
        /// Remote memory.
        #[derive(Clone, Copy, Debug)]
        pub struct RemoteAddr {
            /// Address.
            pub addr: u64,
            /// Remote key.
            pub rkey: u32,
        }

        /// Arguments of a WR.
        #[derive(Clone, Copy, Debug)]
        pub enum WrArgs {
            /// A SEND.
            Send,
            /// A WRITE.
            Write(RemoteAddr),
            /// A READ.
            Read(RemoteAddr),
            /// An atomic operation.
            Atomic {
                /// Address.
                remote: RemoteAddr,
                /// First operand.
                compare_add: u64,
                /// Second operand.
                swap: u64,
            },
            /// Invalidation of a local key.
            Invalidate,
            /// Fast registration.
            Register {
                /// New key.
                key: u32,
                /// Address.
                iova: u64,
                /// Access rights.
                access: u32,
            },
            /// A datagram.
            Datagram {
                /// QP number of the destination.
                remote_qpn: u32,
                /// Q_Key of the destination.
                remote_qkey: u32,
            },
        }

        /// The fields of a WR, apart from its message.
        #[derive(Clone, Copy, Debug)]
        pub struct SendWrFields {
            /// Identifier.
            pub wr_id: u64,
            /// Opcode.
            pub opcode: u32,
            /// Flags.
            pub flags: u32,
            /// Immediate data or key.
            pub ex: [u8; 4],
            /// Arguments.
            pub args: WrArgs,
        }
    }

    /// Replaces `rust/rdma/ib/ring.rs`.
    pub mod ring {
        use crate::prelude::Result;
        use std::cell::RefCell;

        /// See `rdma::ib::ring`.
        #[derive(Clone, Copy, Debug)]
        pub enum RingLayout {
            /// That of rdma_rxe.
            Rxe,
            /// That of ferroce's own provider.
            Direct,
        }

        impl RingLayout {
            /// See `rdma::ib::ring`.
            #[must_use]
            pub fn entries(self, entries: u32) -> Option<u32> {
                match self {
                    Self::Rxe => Some(entries.checked_add(1)?.checked_next_power_of_two()? - 1),
                    Self::Direct => entries.checked_next_power_of_two(),
                }
            }
        }

        /// A ring of one element.
        #[derive(Debug)]
        pub struct Ring(RefCell<Vec<u8>>);

        impl Ring {
            /// See the ring of the module.
            ///
            /// # Errors
            ///
            /// None.
            pub fn new(_layout: RingLayout, element_bytes: usize, _entries: u32) -> Result<Self> {
                Ok(Self::holding(&vec![0; element_bytes]))
            }

            /// Returns the bytes of the element.
            #[must_use]
            pub fn bytes(&self) -> Vec<u8> {
                self.0.borrow().clone()
            }

            /// See the ring of the module.
            #[must_use]
            pub fn after(&self, index: u32) -> u32 {
                index.wrapping_add(1)
            }

            /// See the ring of the module.
            pub fn publish_word(&self, index: u32, offset: usize, word: u32) {
                self.write_at(index, offset, &word.to_ne_bytes());
            }

            /// Creates a ring whose element has these bytes.
            #[must_use]
            pub fn holding(bytes: &[u8]) -> Self {
                Self(RefCell::new(bytes.to_vec()))
            }

            /// See the ring of the module.
            pub fn read(&self, _index: u32, offset: usize, into: &mut [u8]) {
                let element = self.0.borrow();
                let rest = element[offset.min(element.len())..]
                    .iter()
                    .chain(std::iter::repeat(&0));
                for (to, from) in into.iter_mut().zip(rest) {
                    *to = *from;
                }
            }

            /// See the ring of the module.
            #[must_use]
            pub fn read_words<const N: usize>(&self, index: u32, offset: usize) -> [u64; N] {
                if self.0.borrow().len().saturating_sub(offset) / 8 < N {
                    return [0; N];
                }
                std::array::from_fn(|at| {
                    let mut word = [0; 8];
                    self.read(index, offset + 8 * at, &mut word);
                    u64::from_ne_bytes(word)
                })
            }

            /// See the ring of the module.
            pub fn write(&self, index: u32, bytes: &[u8]) {
                self.write_at(index, 0, bytes);
            }

            /// See the ring of the module.
            pub fn write_at(&self, _index: u32, offset: usize, bytes: &[u8]) {
                for (to, from) in self.0.borrow_mut()[offset..].iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
        }
    }

    /// Replaces `rust/rdma/ib/mmap.rs`.
    pub mod mmap {
        /// Where user space maps a ring.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct MmapInfo {
            /// Offset.
            pub offset: u64,
            /// Length.
            pub size: u32,
        }
    }

    /// Replaces `rust/rdma/ib/udata.rs`.
    pub mod udata {
        use crate::prelude::{
            Result,
            EINVAL, //
        };

        /// A request to open a device, and its response.
        #[derive(Debug, Default)]
        pub struct OpenRequest(pub Vec<u8>, pub Vec<u8>);

        impl OpenRequest {
            /// See `rdma::ib::udata`.
            ///
            /// # Errors
            ///
            /// If it is shorter.
            pub fn read<T: zerocopy::FromBytes>(&mut self) -> Result<Option<T>> {
                match self.0.is_empty() {
                    true => Ok(None),
                    false => T::read_from_bytes(&self.0).map(Some).map_err(|_| EINVAL),
                }
            }

            /// See `rdma::ib::udata`.
            ///
            /// # Errors
            ///
            /// None.
            pub fn respond(
                &mut self,
                response: &(impl zerocopy::IntoBytes + zerocopy::Immutable),
            ) -> Result<()> {
                self.1 = response.as_bytes().to_vec();
                Ok(())
            }
        }

        /// A verb that user space called, which keeps the response.
        #[derive(Debug, Default)]
        pub struct UserContext<U>(pub Vec<u8>, std::marker::PhantomData<U>);

        impl<U> UserContext<U> {
            /// See `rdma::ib::udata`.
            ///
            /// # Errors
            ///
            /// None.
            pub fn respond(
                &mut self,
                response: &(impl zerocopy::IntoBytes + zerocopy::Immutable),
            ) -> Result<()> {
                self.0 = response.as_bytes().to_vec();
                Ok(())
            }
        }
    }
}

#[path = "../../../rust/driver/abi/mod.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
pub(crate) mod abi;

#[path = "../../../rust/driver/limits.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
mod limits;

/// Replaces `rust/driver/mem`.
#[path = "."]
mod mem {
    #[path = "../../../rust/driver/mem/sge.rs"]
    #[allow(dead_code, reason = "the tests use only a part")]
    pub(crate) mod sge;
}

#[path = "../../../rust/driver/queue/fifo.rs"]
#[allow(dead_code, reason = "the tests use only a part")]
mod fifo;

/// Replaces the prelude of the `kernel` crate.
pub mod prelude {
    /// The only flags.
    pub const GFP_KERNEL_ACCOUNT: () = ();

    /// An error of the kernel.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct Error(pub u8);

    /// Invalid argument.
    pub const EINVAL: Error = Error(22);

    /// See `kernel::alloc::AllocError`.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub struct AllocError;

    impl From<AllocError> for Error {
        fn from(_: AllocError) -> Self {
            Self(12)
        }
    }

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

/// Replaces `rust/rdma/compat/errno.rs`.
pub mod errno {
    /// Not supported.
    pub const EOPNOTSUPP: crate::prelude::Error = crate::prelude::Error(95);
}

/// Replaces the module of the `kernel` crate.
pub mod sync {
    /// A shared value.
    #[derive(Debug)]
    pub struct Arc<T>(std::sync::Arc<T>);

    impl<T> Arc<T> {
        /// See `kernel::sync::Arc`.
        ///
        /// # Errors
        ///
        /// None: allocations do not fail on the host.
        pub fn new(value: T, _flags: ()) -> Result<Self, crate::prelude::AllocError> {
            Ok(Self(std::sync::Arc::new(value)))
        }
    }

    impl<T> std::ops::Deref for Arc<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
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
