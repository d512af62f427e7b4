// SPDX-License-Identifier: GPL-2.0

//! The user ABI of ferroce's own provider, at the elements of a ring.
//!
//! `wqe` holds the send queue entries, `cqe` the completion queue entries, and `response` the requests and responses of
//! verbs. The rings themselves are in `rdma::ib::ring`.

mod cqe;
mod response;
mod wqe;

pub(super) use response::{
    negotiate,
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
use cqe::DirectCqe;
use rdma::ib::{
    ring::{
        Ring,
        RingLayout, //
    },
    wc::Wc, //
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
    DirectSendWqe,
    Message,
    BODY_BYTES, //
};
use zerocopy::IntoBytes;

/// The layout of rings.
pub(super) const RING_LAYOUT: RingLayout = RingLayout::Direct;

/// Bytes of a receive WQE before its list.
const RECV_HEAD_BYTES: usize = 16;

/// Returns the size of a send WQE with up to `max_sge` SGEs, or as many bytes of inline data.
pub(super) fn send_bytes(max_sge: u32) -> usize {
    bytes_with_list(DirectSendWqe::BODY_OFFSET, max_sge).max(size_of::<DirectSendWqe>())
}

/// Returns the size of a receive WQE with up to `max_sge` SGEs.
pub(super) fn recv_bytes(max_sge: u32) -> usize {
    bytes_with_list(RECV_HEAD_BYTES, max_sge)
}

/// Returns the size of a CQE.
pub(super) const fn cqe_bytes() -> usize {
    DirectCqe::LEN
}

/// See [`Abi::read_send`](super::Abi::read_send).
#[inline]
pub(super) fn read_send(
    ring: &Ring,
    index: u32,
    rules: SendRules,
    message: Option<(&mut BodyLayout, &mut [Sge])>,
) -> Result<SendWr, RejectedWqe> {
    let wqe = DirectSendWqe::new(ring.read_words(index, 0));
    let length = read_message(ring, index, &wqe, (rules, message))?;
    wqe.work_request(length, rules)
}

/// See [`Abi::read_datagram`](super::Abi::read_datagram).
#[inline]
pub(super) fn read_datagram(
    ring: &Ring,
    index: u32,
    rules: SendRules,
    message: Option<(&mut BodyLayout, &mut [Sge])>,
) -> Result<(DatagramWr, u32), RejectedWqe> {
    let wqe = DirectSendWqe::new(ring.read_words(index, 0));
    let length = read_message(ring, index, &wqe, (rules, message))?;
    wqe.datagram(length, rules)
}

/// Copies the message of a send WQE. Returns its length in bytes.
#[inline]
fn read_message(
    ring: &Ring,
    index: u32,
    wqe: &DirectSendWqe,
    (rules, to): (SendRules, Option<(&mut BodyLayout, &mut [Sge])>),
) -> Result<u32, RejectedWqe> {
    let invalid = wqe.rejected(WcStatus::LocQpOpErr);
    let message = wqe.message(rules)?;
    let (layout, storage) = to.ok_or(invalid)?;
    match message {
        Message::Inline(bytes) => {
            *layout = BodyLayout::Inline(bytes);
            // CAST: At most `MAX_INLINE_BYTES`.
            let data = storage.as_mut_bytes().get_mut(..bytes as usize);
            read_inline(ring, index, wqe, data.ok_or(invalid)?);
            Ok(bytes)
        }
        Message::List(count) => {
            *layout = BodyLayout::Scatter(count);
            // CAST: At most `MAX_SGE`.
            let list = storage.get_mut(..count as usize).ok_or(invalid)?;
            read_list(ring, index, wqe, list);
            sge::total_length(&*list).ok_or(wqe.rejected(WcStatus::LocLenErr))
        }
        Message::Result(result) => {
            *layout = BodyLayout::Scatter(1);
            *storage.first_mut().ok_or(invalid)? = result;
            Ok(result.length)
        }
        Message::Local(request) => {
            *layout = BodyLayout::LocalRequest;
            store_local(&request, storage).ok_or(invalid)?;
            Ok(0)
        }
    }
}

/// Copies a list, of which `wqe` has the first two SGEs.
#[inline]
fn read_list(ring: &Ring, index: u32, wqe: &DirectSendWqe, list: &mut [Sge]) {
    let first = wqe.first_sges();
    for (to, from) in list.iter_mut().zip(first) {
        *to = from;
    }
    let rest = list.get_mut(first.len()..).unwrap_or_default();
    if !rest.is_empty() {
        ring.read(index, size_of::<DirectSendWqe>(), rest.as_mut_bytes());
    }
}

/// Copies inline data, of which `wqe` has the first bytes.
fn read_inline(ring: &Ring, index: u32, wqe: &DirectSendWqe, data: &mut [u8]) {
    for (to, from) in data.iter_mut().zip(wqe.inline_start()) {
        *to = *from;
    }
    let rest = data.get_mut(BODY_BYTES..).unwrap_or_default();
    ring.read(index, size_of::<DirectSendWqe>(), rest);
}

/// See [`Abi::read_flushed`](super::Abi::read_flushed).
pub(super) fn read_flushed(ring: &Ring, index: u32) -> RejectedWqe {
    DirectSendWqe::new(ring.read_words(index, 0)).rejected(WcStatus::WrFlushErr)
}

/// See [`Abi::read_recv`](super::Abi::read_recv).
#[inline]
pub(super) fn read_recv<'a>(
    ring: &Ring,
    index: u32,
    list: impl FnOnce(u32) -> Option<&'a mut [Sge]>,
) -> Result<RecvWr, BadRecv> {
    let [wr_id, count] = ring.read_words(index, 0);
    // The first half in memory is the number of SGEs.
    let [count, _reserved]: [u32; 2] = zerocopy::transmute!(count);
    let sges = list(count).ok_or(BadRecv {
        wr_id,
        status: WcStatus::LocQpOpErr,
    })?;
    ring.read(index, RECV_HEAD_BYTES, sges.as_mut_bytes());
    Ok(RecvWr {
        wr_id,
        length: sge::capacity(sges),
    })
}

/// See [`Abi::write_completion`](super::Abi::write_completion).
#[inline]
pub(super) fn write_completion(ring: &Ring, index: u32, wc: &Wc, timestamp: u64) {
    ring.write(index, DirectCqe::new(wc, timestamp).as_bytes());
    adopt_completion(ring, index);
}

/// See [`Abi::adopt_completion`](super::Abi::adopt_completion).
pub(super) fn adopt_completion(ring: &Ring, index: u32) {
    ring.publish_word(index, DirectCqe::TURN_OFFSET, ring.after(index));
}
