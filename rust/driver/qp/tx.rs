// SPDX-License-Identifier: GPL-2.0

//! Transmit path of all services: appends payload to packets, sends requests, performs local requests.
//!
//! Called by the `run` methods of the engines, in process context or softirq. The caller owns the engine.

use crate::{
    mem::{
        page_fault::FaultWait,
        payload::PayloadSink, //
    },
    packet::path::{
        EntryWriter,
        Path,
        Unsent, //
    },
    qp::run::QpRun,
    queue::sq::{
        SendBody,
        SendQueue, //
    }, //
};
use roce::{
    access::Obstacle,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            TxDesc,
            TxPayload, //
        }, //
    },
    status::WcStatus, //
};

/// Appends `len` bytes at `offset` of the message in `body` to `sink`. Returns false if there is no memory for
/// the packet.
///
/// # Errors
///
/// The status that completes the request if its own memory cannot be read; [`Obstacle::Absent`] if the engine
/// must wait for a page fault.
#[inline]
pub(crate) fn append_body(
    sink: &mut impl PayloadSink,
    qp: &QpRun<'_>,
    body: SendBody<'_>,
    offset: u32,
    len: u32,
    fault_wait: &mut FaultWait,
) -> Result<bool, Obstacle<WcStatus>> {
    match body {
        SendBody::Inline(bytes) => {
            // CAST: `u32` to `usize`, on 64 bits.
            let (start, end) = (offset as usize, offset.saturating_add(len) as usize);
            let bytes = bytes.get(start..end);
            Ok(bytes.is_some_and(|bytes| sink.append_bytes(bytes).is_ok()))
        }
        SendBody::Scatter(sges) => {
            let appended = qp.memory().gather(sges, offset, len, sink, fault_wait)?;
            fault_wait.progress();
            Ok(appended)
        }
        SendBody::LocalRequest(_) => Err(WcStatus::LocQpOpErr.into()),
    }
}

/// Sends the packets of `desc`, which belongs to a request in `queue`. Packets that cannot be allocated are lost:
/// the result is `Ok`, and [`EntryWriter::end`] counts those that [`EntryWriter::remaining`] returns.
///
/// # Errors
///
/// As [`append_body`], with the number of packets that were not sent.
pub(crate) fn send_request(
    (desc, mtu): (&TxDesc, Mtu),
    queue: &SendQueue,
    path: &mut Path,
    qp: &QpRun<'_>,
    fault_wait: &mut FaultWait,
) -> Result<(), Unsent<WcStatus>> {
    let body = match desc.source {
        TxPayload::Slot(slot) => Some(queue.body(slot)),
        _ => None,
    };
    let mut writer = EntryWriter::new(path, qp.tx(), (desc, mtu));
    let sent = match (desc.source, body) {
        (_, Some(body)) => {
            append_body(&mut writer, qp, body, desc.offset, desc.length, fault_wait).map(drop)
        }
        // `Ok` below also if the packet could not be allocated: `remaining` then includes it.
        (TxPayload::Value(value), _) => {
            let _ = writer.append_bytes(&value.to_ne_bytes());
            Ok(())
        }
        _ => Ok(()),
    };
    if writer.remaining() != desc.packets {
        fault_wait.progress();
    }
    writer.end(sent)
}

/// Performs the local request in `body`, which changes keys.
///
/// # Errors
///
/// The status that completes the request.
pub(crate) fn perform_local_request(qp: &QpRun<'_>, body: SendBody<'_>) -> Result<(), WcStatus> {
    let request = body.local_request().ok_or(WcStatus::LocQpOpErr)?;
    qp.memory().perform(&request)
}
