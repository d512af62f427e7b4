// SPDX-License-Identifier: GPL-2.0

//! The ABIs: the layout of the entries of a queue, and of the responses to verbs.
//!
//! `request` holds what an entry is decoded to. Each ABI is a folder (`rxe`, `direct`), and [`Abi`] is their list: the
//! queues know no other name of an ABI. Entries are read once, by value, from the [`Ring`], and written by value;
//! nothing here refers to shared memory.
//!
//! May use: `limits`, `mem`.

mod direct;
pub(crate) mod request;
mod rxe;
mod uverbs;

use crate::mem::sge::Sge;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::{
    mmap::MmapInfo,
    ring::{
        Ring,
        RingLayout, //
    },
    udata::{
        OpenRequest,
        UserContext, //
    },
    wc::Wc,
    wr_op::SendWrFields, //
};
use request::{
    BodyLayout,
    RejectedWqe,
    SendRules, //
};
use roce::{
    ud::DatagramWr,
    wr::{
        BadRecv,
        RecvWr,
        SendWr, //
    }, //
};

/// The ABI of a user context, and of the queues that are created in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Abi {
    /// That of rdma_rxe.
    Rxe,
    /// That of ferroce's own provider, which may know that it need not ring the doorbell.
    Direct { no_doorbell: bool },
}

/// Calls a function of the ABI.
macro_rules! with_abi {
    ($abi:expr, $($call:tt)+) => {
        match $abi {
            Abi::Rxe => rxe::$($call)+,
            Abi::Direct { .. } => direct::$($call)+,
        }
    };
}

impl Abi {
    /// The layout of the rings of kernel consumers, which no process maps.
    pub(crate) const KERNEL: Self = Self::Rxe;

    /// Returns the ABI that the provider of a new context asks for in `request`. `None`: it does not ask.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a malformed request, or versions that the driver does not know; as [`OpenRequest::respond`].
    pub(crate) fn negotiate(request: &mut OpenRequest) -> Result<Option<Self>> {
        let asked = direct::negotiate(request)?;
        Ok(asked.map(|no_doorbell| Self::Direct { no_doorbell }))
    }

    /// Returns whether the provider knows the word that tells it not to ring the doorbell.
    pub(crate) fn has_no_doorbell(self) -> bool {
        matches!(self, Self::Direct { no_doorbell: true })
    }

    /// Whether it is that of ferroce's own provider, which imports contexts, and whose completions have a time.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Direct { .. })
    }

    /// Returns the layout of rings.
    fn ring_layout(self) -> RingLayout {
        with_abi!(self, RING_LAYOUT)
    }

    /// Returns the number of entries of a ring that is created for at least `entries`.
    pub(crate) fn ring_entries(self, entries: u32) -> u32 {
        self.ring_layout().entries(entries).unwrap_or(0)
    }

    /// Creates a ring for `entries` send WQEs with up to `max_sge` SGEs.
    ///
    /// # Errors
    ///
    /// As [`Ring::new`].
    pub(crate) fn new_send_ring(self, max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
        self.new_ring(with_abi!(self, send_bytes(max_sge)), entries)
    }

    /// Creates a ring for `entries` receive WQEs with up to `max_sge` SGEs.
    ///
    /// # Errors
    ///
    /// As [`Ring::new`].
    pub(crate) fn new_recv_ring(self, max_sge: u32, entries: u32) -> Result<Arc<Ring>> {
        self.new_ring(with_abi!(self, recv_bytes(max_sge)), entries)
    }

    /// Creates a ring for `entries` CQEs.
    ///
    /// # Errors
    ///
    /// As [`Ring::new`].
    pub(crate) fn new_cq_ring(self, entries: u32) -> Result<Arc<Ring>> {
        self.new_ring(with_abi!(self, cqe_bytes()), entries)
    }

    fn new_ring(self, element_bytes: usize, entries: u32) -> Result<Arc<Ring>> {
        let ring = Ring::new(self.ring_layout(), element_bytes, entries)?;
        Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
    }

    /// Reads the send WQE at `index`, and its message to `message`, which has space for as many SGEs as the rules
    /// allow.
    ///
    /// # Errors
    ///
    /// The status with which the request completes.
    #[inline]
    pub(crate) fn read_send(
        self,
        ring: &Ring,
        index: u32,
        rules: SendRules,
        message: Option<(&mut BodyLayout, &mut [Sge])>,
    ) -> Result<SendWr, RejectedWqe> {
        with_abi!(self, read_send(ring, index, rules, message))
    }

    /// Reads the send WQE at `index`, which is flushed.
    pub(crate) fn read_flushed(self, ring: &Ring, index: u32) -> RejectedWqe {
        with_abi!(self, read_flushed(ring, index))
    }

    /// As [`read_send`](Self::read_send), for a datagram service. Also returns the number of the AH.
    ///
    /// # Errors
    ///
    /// As [`read_send`](Self::read_send).
    #[inline]
    pub(crate) fn read_datagram(
        self,
        ring: &Ring,
        index: u32,
        rules: SendRules,
        message: Option<(&mut BodyLayout, &mut [Sge])>,
    ) -> Result<(DatagramWr, u32), RejectedWqe> {
        with_abi!(self, read_datagram(ring, index, rules, message))
    }

    /// Reads the receive WQE at `index`. `list` returns where to copy a list of this many SGEs; `None` if it is too
    /// long.
    ///
    /// # Errors
    ///
    /// The status with which the receive completes.
    #[inline]
    pub(crate) fn read_recv<'a>(
        self,
        ring: &Ring,
        index: u32,
        list: impl FnOnce(u32) -> Option<&'a mut [Sge]>,
    ) -> Result<RecvWr, BadRecv> {
        with_abi!(self, read_recv(ring, index, list))
    }

    /// Writes a send WQE of a kernel consumer, whose ABI is [`Abi::KERNEL`], to the element at `index`, without the
    /// message: a number of SGEs, or inline data, of a number of bytes. The AH of a datagram has the number `index`.
    /// Returns the offset of the message.
    pub(crate) fn write_send(
        ring: &Ring,
        index: u32,
        fields: &SendWrFields,
        num_sge_and_bytes: (u32, u32),
    ) -> usize {
        rxe::write_send(ring, index, fields, num_sge_and_bytes)
    }

    /// Writes a receive WQE of a kernel consumer, whose ABI is [`Abi::KERNEL`], without its list of `num_sge` SGEs.
    /// Returns the offset of the list.
    pub(crate) fn write_recv(ring: &Ring, index: u32, wr_id: u64, num_sge: u32) -> usize {
        rxe::write_recv(ring, index, wr_id, num_sge)
    }

    /// Writes a CQE. `timestamp` is 0 unless the CQ has timestamps.
    #[inline]
    pub(crate) fn write_completion(self, ring: &Ring, index: u32, wc: &Wc, timestamp: u64) {
        with_abi!(self, write_completion(ring, index, wc, timestamp));
    }

    /// Makes a CQE, which was copied from another ring to the element at `index`, one of this ring.
    pub(crate) fn adopt_completion(self, ring: &Ring, index: u32) {
        with_abi!(self, adopt_completion(ring, index));
    }

    /// Responds to `create_qp` with its rings; `receive` is the default if the QP has an SRQ.
    ///
    /// # Errors
    ///
    /// As [`UserContext::respond`].
    pub(crate) fn respond_qp<U>(
        self,
        user: &mut UserContext<U>,
        send: MmapInfo,
        receive: MmapInfo,
    ) -> Result {
        with_abi!(self, respond_qp(user, send, receive))
    }

    /// Responds to `create_srq` with its ring, and its number if it is one of XRC.
    ///
    /// # Errors
    ///
    /// As [`UserContext::respond`].
    pub(crate) fn respond_srq<U>(
        self,
        user: &mut UserContext<U>,
        ring: MmapInfo,
        srq_num: u32,
    ) -> Result {
        with_abi!(self, respond_srq(user, ring, srq_num))
    }

    /// Responds to `create_cq`, `resize_cq` or `modify_srq` with the ring.
    ///
    /// # Errors
    ///
    /// As [`UserContext::respond`].
    pub(crate) fn respond_ring<U>(self, user: &mut UserContext<U>, ring: MmapInfo) -> Result {
        with_abi!(self, respond_ring(user, ring))
    }

    /// Responds to `create_ah` with the number of the AH.
    ///
    /// # Errors
    ///
    /// As [`UserContext::respond`].
    pub(crate) fn respond_ah<U>(self, user: &mut UserContext<U>, number: u32) -> Result {
        with_abi!(self, respond_ah(user, number))
    }
}
