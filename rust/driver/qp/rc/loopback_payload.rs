// SPDX-License-Identifier: GPL-2.0

//! Peer lookup and payload of loopback passes: both ends of an RC connection are on this host.
//!
//! The payload of a request or response stays in its owner's memory and is copied from there. Called by
//! [`loopback`](super::loopback), which owns both engines, in process context or softirq.

use crate::{
    mem::{
        page_fault::AccessFailure,
        payload::{
            PayloadError,
            PayloadSource, //
        },
        sg_access::{
            QpMemory,
            SgCopyError, //
        }, //
    },
    qp::shared::QpShared,
    queue::sq::SendBody, //
};
use core::cell::Cell;
use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::netns::NetId,
    sync::{
        exclusive::Exclusive,
        read_section::ReadSection, //
    }, //
};
use roce::{
    access::AccessError,
    id::Qpn,
    segmentation::tx_desc::TxPayload,
    status::WcStatus,
    wr::Remote, //
};

/// A QP on this host, as its peer sees it. `H` is its receive engine.
pub(crate) struct LocalPeer<'g, E> {
    /// State that both engines use.
    pub(crate) shared: &'g QpShared,
    /// The receive engine.
    pub(crate) receiver: &'g Exclusive<E>,
}

/// Finds local peers.
pub(crate) trait PeerLookup<E>: Send + Sync {
    /// Returns the QP with this number, if it is in the namespace `net` and has such an engine.
    fn find<'g>(
        &'g self,
        number: Qpn,
        net: NetId,
        guard: &'g ReadSection,
    ) -> Option<LocalPeer<'g, E>>;

    /// Schedules a run of its receive engine.
    fn defer(&self, number: Qpn);
}

/// Payload of a request, in the memory of the sender.
pub(crate) struct GatheredPayload<'a, 'g> {
    qp_memory: QpMemory<'a, 'g>,
    body: SendBody<'a>,
    /// Offset of the payload in the message.
    message_offset: u32,
    /// Offset that the payload would have in the packet.
    packet_offset: u32,
    failure: Cell<Option<AccessFailure<WcStatus>>>,
}

impl<'a, 'g> GatheredPayload<'a, 'g> {
    /// Returns the bytes from `offset` of the message in `body`, as if they began at offset `start` of a
    /// packet.
    #[inline]
    pub(crate) fn new(
        qp_memory: QpMemory<'a, 'g>,
        body: SendBody<'a>,
        message_offset: u32,
        packet_offset: u32,
    ) -> Self {
        Self {
            qp_memory,
            body,
            message_offset,
            packet_offset,
            failure: Cell::new(None),
        }
    }

    /// Returns why reading the payload failed, if it did.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<AccessFailure<WcStatus>> {
        self.failure.take()
    }

    /// Converts the packet offset `from` to a message offset.
    #[inline]
    fn to_message_offset(&self, from: u32) -> u32 {
        self.message_offset
            .saturating_add(from)
            .saturating_sub(self.packet_offset)
    }

    /// Returns `len` bytes of inline data.
    fn inline(&self, from: u32, len: usize) -> Option<&[u8]> {
        // CAST: `u32` to `usize`, on 64 bits.
        let start = self.to_message_offset(from) as usize;
        match self.body {
            SendBody::Inline(bytes) => bytes.get(start..start.saturating_add(len)),
            _ => None,
        }
    }
}

impl PayloadSource for GatheredPayload<'_, '_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), PayloadError> {
        let SendBody::Scatter(sges) = self.body else {
            // CAST: `u32` to `usize`, on 64 bits.
            let bytes = self.inline(from, len as usize).ok_or_else(|| {
                self.failure.set(Some(WcStatus::LocLenErr.into()));
                PayloadError::Source
            })?;
            return memory.write(at, bytes).map_err(PayloadError::Memory);
        };
        self.qp_memory
            .copy_out(sges, self.to_message_offset(from), len, (memory, at))
            .map_err(|error| to_payload_error(&self.failure, error))
    }

    fn read(&self, from: u32, to: &mut [u8]) -> Result {
        let bytes = self.inline(from, to.len()).ok_or(EFAULT)?;
        to.copy_from_slice(bytes);
        Ok(())
    }
}

/// Payload of a response, in the memory that its request named.
pub(crate) struct FetchedPayload<'a, 'g> {
    qp_memory: QpMemory<'a, 'g>,
    remote: Option<Remote>,
    /// Offset that the payload would have in the packet.
    packet_offset: u32,
    failure: Cell<Option<AccessFailure<AccessError>>>,
}

impl<'a, 'g> FetchedPayload<'a, 'g> {
    /// Returns the bytes of `source`, as if they began at offset `start` of a packet.
    #[inline]
    pub(crate) fn new(qp_memory: QpMemory<'a, 'g>, source: TxPayload, packet_offset: u32) -> Self {
        Self {
            qp_memory,
            remote: match source {
                TxPayload::Remote(remote) => Some(remote),
                _ => None,
            },
            packet_offset,
            failure: Cell::new(None),
        }
    }

    /// Returns why reading the payload failed, if it did.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<AccessFailure<AccessError>> {
        self.failure.take()
    }
}

impl PayloadSource for FetchedPayload<'_, '_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), PayloadError> {
        let remote = self.remote.ok_or(PayloadError::Source)?;
        let remote = remote.advance(from.saturating_sub(self.packet_offset));
        self.qp_memory
            .copy_out_remote(remote, len, (memory, at))
            .map_err(|error| to_payload_error(&self.failure, error))
    }

    fn read(&self, _from: u32, _to: &mut [u8]) -> Result {
        // Response payload is only ever copied into memory.
        Err(EFAULT)
    }
}

/// Converts the failure of a copy. A failure of the source is stored in `failure`.
#[cold]
fn to_payload_error<E>(
    failure: &Cell<Option<AccessFailure<E>>>,
    error: SgCopyError<E>,
) -> PayloadError {
    match error {
        SgCopyError::Target(error) => PayloadError::Memory(error),
        SgCopyError::Source(why) => {
            failure.set(Some(why));
            PayloadError::Source
        }
    }
}
