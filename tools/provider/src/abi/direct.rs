// SPDX-License-Identifier: GPL-2.0

//! ferroce's ABI: `include/uapi/rdma/ferroce-abi.h`, which describes each field.

/// "FERR". Also the driver id of devices whose contexts all have this ABI.
pub(crate) const MAGIC: u32 = 0x4645_5252;

/// `uverbs_abi_ver` of such devices.
pub(crate) const UVERBS_ABI: u32 = 100;

/// `uverbs_abi_ver` of devices whose contexts have the ABI of rdma_rxe unless they ask for this one.
pub(crate) const RXE_UVERBS_ABI: u32 = 2;

/// The version of a context's ABI.
pub(crate) const VERSION: u16 = 1;

/// The kernel sets the word `no_doorbell` of send queues.
pub(crate) const FEATURE_NO_DOORBELL: u64 = 1 << 0;

/// `struct ferroce_get_context_req`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct GetContextReq {
    pub(crate) magic: u32,
    pub(crate) min_version: u16,
    pub(crate) max_version: u16,
    pub(crate) features: u64,
}

/// `struct ferroce_get_context_resp`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct GetContextResp {
    pub(crate) version: u32,
    pub(crate) reserved: u32,
    pub(crate) features: u64,
}

/// `struct ferroce_mapping`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Mapping {
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) reserved: u32,
}

/// `struct ferroce_create_qp_resp`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CreateQpResp {
    pub(crate) receive: Mapping,
    pub(crate) send: Mapping,
}

/// `struct ferroce_create_srq_resp`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CreateSrqResp {
    pub(crate) ring: Mapping,
    pub(crate) srq_num: u32,
    pub(crate) reserved: u32,
}

/// `struct ferroce_create_ah_resp`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CreateAhResp {
    pub(crate) number: u32,
    pub(crate) reserved: u32,
}

/// `struct ferroce_ring`, in words of 32 bits.
pub(crate) mod ring {
    /// Words of 64 bits of the head; the elements follow.
    pub(crate) const HEAD_WORDS: usize = 24;
    /// Number of elements.
    pub(crate) const ENTRIES: usize = 0;
    /// Bytes of an element.
    pub(crate) const STRIDE: usize = 1;
    /// Index of the producer.
    pub(crate) const PRODUCER: usize = 16;
    /// Index of the consumer.
    pub(crate) const CONSUMER: usize = 32;
    /// The promise of the kernel.
    pub(crate) const NO_DOORBELL: usize = 33;
}

/// Bytes of an element.
pub(crate) mod bytes {
    /// The least of a send queue: the head, and the first two SGEs.
    pub(crate) const SEND: u32 = 64;
    /// The least of a receive queue: the head, and one SGE.
    pub(crate) const RECV: u32 = 32;
    /// A completion.
    pub(crate) const CQE: u32 = 64;
}

const _: () = assert!(size_of::<GetContextReq>() == 16);
const _: () = assert!(size_of::<GetContextResp>() == 16);
const _: () = assert!(size_of::<Mapping>() == 16);
const _: () = assert!(size_of::<CreateQpResp>() == 32);
const _: () = assert!(size_of::<CreateSrqResp>() == 24);
const _: () = assert!(size_of::<CreateAhResp>() == 8);
