// SPDX-License-Identifier: GPL-2.0

//! Peer lookup and payload of loopback passes: both ends of an RC connection are on this host.
//!
//! The payload of a request or response stays in its owner's memory and is copied from there. Called by
//! [`loopback`](super::loopback), which owns both engines, in process context or softirq.

use crate::{
    mem::{
        page_fault::FaultWait,
        payload::{
            PayloadSource,
            SourceFailure, //
        },
        sg_access::QpMemory, //
    },
    qp::shared::QpShared,
    queue::sq::SendBody, //
};
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
    access::{
        AccessError,
        Obstacle, //
    },
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
    failure: SourceFailure<'a, WcStatus>,
}

impl<'a, 'g> GatheredPayload<'a, 'g> {
    /// Returns the bytes from `message_offset` of the message in `body`, as if they began at `packet_offset` of a
    /// packet. `wait` waits for memory that is absent.
    #[inline]
    pub(crate) fn new(
        (qp_memory, wait): (QpMemory<'a, 'g>, &'a mut FaultWait),
        body: SendBody<'a>,
        message_offset: u32,
        packet_offset: u32,
    ) -> Self {
        Self {
            qp_memory,
            body,
            message_offset,
            packet_offset,
            failure: SourceFailure::new(wait),
        }
    }

    /// Returns why reading the payload failed, if it did.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<Obstacle<WcStatus>> {
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
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result {
        let SendBody::Scatter(sges) = self.body else {
            // CAST: `u32` to `usize`, on 64 bits.
            let bytes = self.inline(from, len as usize);
            let bytes = bytes.ok_or_else(|| self.failure.refused(WcStatus::LocLenErr))?;
            return memory.write(at, bytes);
        };
        let part = (self.to_message_offset(from), len);
        self.qp_memory
            .copy_out(sges, part, (memory, at), &self.failure)
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.failure.is_recorded()
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
    failure: SourceFailure<'a, AccessError>,
}

impl<'a, 'g> FetchedPayload<'a, 'g> {
    /// Returns the bytes of `source`, as if they began at `packet_offset` of a packet. `wait` waits for memory that is
    /// absent.
    #[inline]
    pub(crate) fn new(
        (qp_memory, wait): (QpMemory<'a, 'g>, &'a mut FaultWait),
        source: TxPayload,
        packet_offset: u32,
    ) -> Self {
        Self {
            qp_memory,
            remote: match source {
                TxPayload::Remote(remote, _) => Some(remote),
                _ => None,
            },
            packet_offset,
            failure: SourceFailure::new(wait),
        }
    }

    /// Returns why reading the payload failed, if it did.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<Obstacle<AccessError>> {
        self.failure.take()
    }
}

impl PayloadSource for FetchedPayload<'_, '_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result {
        let remote = self.remote;
        let remote = remote.ok_or_else(|| self.failure.refused(AccessError::Bounds))?;
        let remote = remote.advance(from.saturating_sub(self.packet_offset));
        self.qp_memory
            .copy_out_remote(remote, len, (memory, at), &self.failure)
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.failure.is_recorded()
    }

    fn read(&self, _from: u32, _to: &mut [u8]) -> Result {
        // Response payload is only ever copied into memory.
        Err(EFAULT)
    }
}
