// SPDX-License-Identifier: GPL-2.0

//! The user ABI of rdma_rxe, at the elements of a ring.
//!
//! `wqe` holds the send and receive queue entries, `send_op` the operations of send queue entries, `cqe` the completion
//! queue entries, and `response` the responses to verbs. The rings themselves are in `rdma::ib::ring`.

mod cqe;
mod response;
mod send_op;
mod wqe;

pub(super) use response::{
    respond_ah,
    respond_qp,
    respond_ring,
    respond_srq, //
};

use crate::{
    abi::request::{
        bytes_with_list,
        store_local,
        BodyLayout,
        RejectedWqe,
        SendRules, //
    },
    mem::sge::{
        self,
        Sge, //
    }, //
};
use cqe::Cqe;
use rdma::ib::{
    ring::{
        Ring,
        RingLayout, //
    },
    wc::Wc,
    wr_op::SendWrFields, //
};
use roce::{
    status::WcStatus,
    ud::DatagramWr,
    wr::{
        BadRecv,
        RecvWr,
        SendWr, //
    }, //
};
use wqe::{
    RecvWqe,
    SendWqe,
    WqeBody, //
};
use zerocopy::IntoBytes;

/// The layout of rings.
pub(super) const RING_LAYOUT: RingLayout = RingLayout::Rxe;

/// Returns the size of a send WQE with up to `max_sge` SGEs.
pub(super) fn send_bytes(max_sge: u32) -> usize {
    bytes_with_list(SendWqe::FIXED_LEN, max_sge)
}

/// Returns the size of a receive WQE with up to `max_sge` SGEs.
pub(super) fn recv_bytes(max_sge: u32) -> usize {
    bytes_with_list(RecvWqe::LEN, max_sge)
}

/// Returns the size of a CQE.
pub(super) const fn cqe_bytes() -> usize {
    Cqe::ELEMENT_BYTES
}

/// See [`Abi::read_send`](super::Abi::read_send).
#[inline]
pub(super) fn read_send(
    ring: &Ring,
    index: u32,
    rules: SendRules,
    message: Option<(&mut BodyLayout, &mut [Sge])>,
) -> Result<SendWr, RejectedWqe> {
    read_wqe(ring, index, rules, message, SendWqe::work_request)
}

/// See [`Abi::read_datagram`](super::Abi::read_datagram).
#[inline]
pub(super) fn read_datagram(
    ring: &Ring,
    index: u32,
    rules: SendRules,
    message: Option<(&mut BodyLayout, &mut [Sge])>,
) -> Result<(DatagramWr, u32), RejectedWqe> {
    read_wqe(ring, index, rules, message, SendWqe::datagram)
}

/// Reads a send WQE, and its message to `message`. Converts it with `decode`, which receives the length of the message.
#[inline]
fn read_wqe<T>(
    ring: &Ring,
    index: u32,
    rules: SendRules,
    message: Option<(&mut BodyLayout, &mut [Sge])>,
    decode: impl FnOnce(&SendWqe, u32, SendRules) -> Result<T, RejectedWqe>,
) -> Result<T, RejectedWqe> {
    let wqe = read_fixed(ring, index);
    let body = wqe.body(rules)?;
    let invalid = wqe.rejected(WcStatus::LocQpOpErr);
    let (layout, storage) = message.ok_or(invalid)?;
    let length = match body {
        WqeBody::Inline(bytes) => {
            *layout = BodyLayout::Inline(bytes);
            // CAST: At most `MAX_INLINE_BYTES`.
            let used = storage.as_mut_bytes().get_mut(..bytes as usize);
            ring.read(index, SendWqe::FIXED_LEN, used.ok_or(invalid)?);
            bytes
        }
        WqeBody::Scatter(entries) => {
            *layout = BodyLayout::Scatter(entries);
            // CAST: At most `MAX_SGE`.
            let sges = storage.get_mut(..entries as usize).ok_or(invalid)?;
            let mut offset = SendWqe::FIXED_LEN;
            for sge in sges.iter_mut() {
                *sge = wqe::sge(ring.read_words(index, offset));
                offset = offset.wrapping_add(size_of::<Sge>());
            }
            sge::total_length(&*sges).ok_or(wqe.rejected(WcStatus::LocLenErr))?
        }
        WqeBody::LocalRequest(request) => {
            *layout = BodyLayout::LocalRequest;
            store_local(&request, storage).ok_or(invalid)?;
            0
        }
    };
    decode(&wqe, length, rules)
}

/// See [`Abi::read_flushed`](super::Abi::read_flushed).
pub(super) fn read_flushed(ring: &Ring, index: u32) -> RejectedWqe {
    read_fixed(ring, index).rejected(WcStatus::WrFlushErr)
}

/// Reads a send WQE without its body.
#[inline]
fn read_fixed(ring: &Ring, index: u32) -> SendWqe {
    SendWqe::new(
        ring.read_words(index, 0),
        ring.read_words(index, SendWqe::TAIL_OFFSET),
    )
}

/// See [`Abi::read_recv`](super::Abi::read_recv).
#[inline]
pub(super) fn read_recv<'a>(
    ring: &Ring,
    index: u32,
    list: impl FnOnce(u32) -> Option<&'a mut [Sge]>,
) -> Result<RecvWr, BadRecv> {
    let mut bytes = [0; RecvWqe::LEN];
    ring.read(index, 0, &mut bytes);
    let wqe: RecvWqe = zerocopy::transmute!(bytes);
    let sges = list(wqe.num_sge()).ok_or(BadRecv {
        wr_id: wqe.wr_id(),
        status: WcStatus::LocQpOpErr,
    })?;
    ring.read(index, RecvWqe::LEN, sges.as_mut_bytes());
    Ok(wqe.work_request(sge::capacity(sges)))
}

/// See [`Abi::write_send`](super::Abi::write_send).
pub(super) fn write_send(
    ring: &Ring,
    index: u32,
    fields: &SendWrFields,
    message: (u32, u32),
) -> usize {
    let (head, dma) = wqe::encode_send(fields, message, index);
    ring.write(index, head.as_bytes());
    ring.write_at(index, SendWqe::TAIL_OFFSET, dma.as_bytes());
    SendWqe::FIXED_LEN
}

/// See [`Abi::write_recv`](super::Abi::write_recv).
pub(super) fn write_recv(ring: &Ring, index: u32, wr_id: u64, num_sge: u32) -> usize {
    ring.write(index, RecvWqe::new(wr_id, num_sge).as_bytes());
    RecvWqe::LEN
}

/// See [`Abi::write_completion`](super::Abi::write_completion).
#[inline]
pub(super) fn write_completion(ring: &Ring, index: u32, wc: &Wc, _timestamp: u64) {
    ring.write(index, Cqe::new(wc).as_bytes());
}

/// See [`Abi::adopt_completion`](super::Abi::adopt_completion).
pub(super) fn adopt_completion(_ring: &Ring, _index: u32) {}
