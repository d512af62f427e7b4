// SPDX-License-Identifier: GPL-2.0

//! Peers on the same machine.
//!
//! Owns what one queue pair needs to hand packets to another without a network in between: who finds the
//! other, and the payload of such packets, which is not in them but where its owner has it. Does not know
//! what the packets are for, nor whether the peer is there.

use crate::{
    mem::{
        page_fault::AccessFailure,
        payload::{
            Fault, //
            PayloadSource,
        },
        sg_access::QpMemory,
        sg_copy::SgCopyError, //
    },
    qp::shared::QpShared,
    queue::sq::SendBody, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::rcu, //
};
use rdma::{
    mm::memory::Memory,
    net::netns::NetId,
    sync::exclusive::Exclusive, //
};
use roce::{
    access::AccessError,
    id::Qpn,
    segmentation::tx_desc::TxPayload,
    status::WcStatus,
    wr::Remote, //
};

/// A queue pair on this machine, as its peer sees it. `H` is the half of it that takes requests.
pub(crate) struct LocalPeer<'g, H> {
    /// What its halves share.
    pub(crate) shared: &'g QpShared,
    /// The half that takes requests.
    pub(crate) receiver: &'g Exclusive<H>,
}

/// Who finds neighbours.
pub(crate) trait PeerLookup<H>: Send + Sync {
    /// The queue pair with that number, if it is in the namespace `net` and has such a half.
    fn find<'g>(
        &'g self,
        number: Qpn,
        net: NetId,
        guard: &'g rcu::Guard,
    ) -> Option<LocalPeer<'g, H>>;

    /// Gives its receiving half a turn from another context, soon.
    fn defer(&self, number: Qpn);
}

/// The payload of a request, in the memory of who sends it.
pub(crate) struct GatheredPayload<'a> {
    qp_memory: QpMemory<'a>,
    body: SendBody<'a>,
    /// Where in the message the payload begins.
    offset: u32,
    /// Where in the packet it would begin.
    start: u32,
    failure: Cell<Option<AccessFailure<WcStatus>>>,
}

impl<'a> GatheredPayload<'a> {
    /// What stands at byte `offset` of the message in `body`, as if it stood in a packet from place
    /// `start` on.
    #[inline]
    pub(crate) fn new(
        qp_memory: QpMemory<'a>,
        body: SendBody<'a>,
        offset: u32,
        start: u32,
    ) -> Self {
        Self {
            qp_memory,
            body,
            offset,
            start,
            failure: Cell::new(None),
        }
    }

    /// Why the bytes could not be had, if that was tried in vain.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<AccessFailure<WcStatus>> {
        self.failure.take()
    }

    /// Where in the message place `from` of the packet is.
    #[inline]
    fn place(&self, from: u32) -> u32 {
        self.offset.saturating_add(from).saturating_sub(self.start)
    }

    /// `len` bytes of what was copied with the request.
    fn inline(&self, from: u32, len: usize) -> Option<&[u8]> {
        // CAST: `u32` to `usize`, on 64 bits.
        let start = self.place(from) as usize;
        match self.body {
            SendBody::Inline(bytes) => bytes.get(start..start.saturating_add(len)),
            _ => None,
        }
    }
}

impl PayloadSource for GatheredPayload<'_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), Fault> {
        let SendBody::Scatter(sges) = self.body else {
            // CAST: `u32` to `usize`, on 64 bits.
            let bytes = self.inline(from, len as usize).ok_or_else(|| {
                self.failure.set(Some(WcStatus::LocLenErr.into()));
                Fault::PayloadSource
            })?;
            return memory.write(at, bytes).map_err(Fault::Memory);
        };
        self.qp_memory
            .copy_out(sges, self.place(from), len, (memory, at))
            .map_err(|broken| fault(&self.failure, broken))
    }

    fn read(&self, from: u32, to: &mut [u8]) -> Result {
        let bytes = self.inline(from, to.len()).ok_or(EFAULT)?;
        to.copy_from_slice(bytes);
        Ok(())
    }
}

/// The payload of a response, in the memory that its request has named.
pub(crate) struct FetchedPayload<'a> {
    qp_memory: QpMemory<'a>,
    remote: Option<Remote>,
    /// Where in the packet it would begin.
    start: u32,
    failure: Cell<Option<AccessFailure<AccessError>>>,
}

impl<'a> FetchedPayload<'a> {
    /// What comes from `source`, as if it stood in a packet from place `start` on.
    #[inline]
    pub(crate) fn new(qp_memory: QpMemory<'a>, source: TxPayload, start: u32) -> Self {
        Self {
            qp_memory,
            remote: match source {
                TxPayload::Remote(remote) => Some(remote),
                _ => None,
            },
            start,
            failure: Cell::new(None),
        }
    }

    /// Why the bytes could not be had, if that was tried in vain.
    #[inline]
    pub(crate) fn take_failure(&self) -> Option<AccessFailure<AccessError>> {
        self.failure.take()
    }
}

impl PayloadSource for FetchedPayload<'_> {
    #[inline]
    fn copy_to(&self, from: u32, memory: &Memory, at: u64, len: u32) -> Result<(), Fault> {
        let remote = self.remote.ok_or(Fault::PayloadSource)?;
        let remote = remote.advance(from.saturating_sub(self.start));
        self.qp_memory
            .fetch_remote(remote, len, (memory, at))
            .map_err(|broken| fault(&self.failure, broken))
    }

    fn read(&self, _from: u32, _to: &mut [u8]) -> Result {
        // No response is read but into memory.
        Err(EFAULT)
    }
}

/// Whose fault it is that a copy has not come to its end; that of the bytes is kept in `failure`.
#[cold]
fn fault<E>(failure: &Cell<Option<AccessFailure<E>>>, broken: SgCopyError<E>) -> Fault {
    match broken {
        SgCopyError::Target(error) => Fault::Memory(error),
        SgCopyError::Source(why) => {
            failure.set(Some(why));
            Fault::PayloadSource
        }
    }
}
