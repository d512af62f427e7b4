// SPDX-License-Identifier: GPL-2.0

//! Progress assembly: places the packets of SENDs and RDMA WRITEs, and completes their receives.
//!
//! The receiver of a service passes packets in order. It decides what a [`Refusal`] means: RC sends a NAK, UC discards
//! the message.
//!
//! Order of the checks: opcode sequence, payload length, rights, message length, resources. A packet that fails a
//! check has no effect.
//!
//! IBA: C9-88 (length 0), C9-92 (lengths of payload), C9-94 (longest message).

use crate::{
    access::{
        Access,
        Obstacle, //
    },
    recv_context::RecvContext,
    segmentation::{
        mtu::Mtu,
        tx_desc::RxPayload, //
    },
    status::WcStatus,
    wire::{
        ext::{
            Ieth,
            ImmDt,
            Reth, //
        },
        opcode::Operation,
        packet::Packet, //
    },
    wr::{
        BadRecv,
        Completion,
        Imm,
        RecvWr,
        Remote,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};

/// The message in progress, and its receive.
#[derive(Debug)]
pub(crate) struct Assembly {
    message: Progress,
    /// The receive of the message in progress. Without one: of the message whose last packet was refused, or waits for
    /// memory.
    receive: Option<RecvWr>,
}

/// The message in progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    /// None.
    None,
    /// A SEND.
    Send { received: u32 },
    /// An RDMA WRITE of `length` bytes. `left` of them are missing; the next one goes to `next`.
    Write {
        next: Remote,
        left: u32,
        length: u32,
    },
}

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// It neither starts a message nor continues the one in progress.
    Sequence,
    /// The length of its payload, or of the message, is invalid.
    Length,
    /// The QP does not grant the access, or the message is longer than any may be.
    Rights,
    /// The key does not grant the access.
    Key,
    /// No receive is posted.
    NoReceive,
    /// The receive cannot be used. It has completed with an error.
    BadReceive,
    /// The message is longer than its receive.
    ReceiveLength,
    /// The memory of the receive cannot be written. The status is that of its completion.
    ReceiveMemory(WcStatus),
}

impl Assembly {
    /// No message, no receive.
    pub(crate) const EMPTY: Self = Self {
        message: Progress::None,
        receive: None,
    };

    /// Returns whether a message is in progress.
    #[inline]
    pub(crate) const fn is_in_message(&self) -> bool {
        !matches!(self.message, Progress::None)
    }

    /// Returns whether there is no message in progress, and no receive for the next one.
    pub(crate) const fn is_idle(&self) -> bool {
        !self.is_in_message() && self.receive.is_none()
    }

    /// Discards the message in progress. Its receive is kept for the next one.
    #[inline]
    pub(crate) fn discard(&mut self) {
        self.message = Progress::None;
    }

    /// Checks a packet of a SEND or RDMA WRITE and places its payload. Returns the length of a message that is complete
    /// now and has used a receive, for [`complete`](Self::complete). `granted`: the access that the QP grants the peer.
    #[inline]
    pub(crate) fn place(
        &mut self,
        packet: &Packet<'_>,
        (mtu, granted): (Mtu, Access),
        context: &mut impl RecvContext,
    ) -> Result<Option<u32>, Obstacle<Refusal>> {
        let (opcode, is_write) = (packet.opcode(), is_write(packet));
        let in_sequence = match self.message {
            Progress::None => opcode.starts_message(),
            Progress::Send { .. } => !opcode.starts_message() && !is_write,
            Progress::Write { .. } => !opcode.starts_message() && is_write,
        };
        if !in_sequence {
            return Err(Refusal::Sequence.into());
        }
        let len = u32::try_from(packet.payload_len()).map_err(|_| Refusal::Length)?;
        if !mtu.allows_super_packet(opcode.position(), packet.packets(), len) {
            return Err(Refusal::Length.into());
        }
        match is_write {
            true => self.place_write(packet, len, granted, context),
            false => self.place_send(packet, len, context),
        }
    }

    #[inline]
    fn place_send(
        &mut self,
        packet: &Packet<'_>,
        len: u32,
        context: &mut impl RecvContext,
    ) -> Result<Option<u32>, Obstacle<Refusal>> {
        let received = match self.message {
            Progress::Send { received } => received,
            _ => 0,
        };
        let wr = self.hold_receive(WcOpcode::Recv, context)?;
        let end = received
            .checked_add(len)
            .filter(|&end| end <= wr.length)
            .ok_or(Refusal::ReceiveLength)?;
        if let Some(payload) = RxPayload::of(packet) {
            context
                .place_receive(received, payload)
                .map_err(|obstacle| obstacle.map(Refusal::ReceiveMemory))?;
        }
        if packet.opcode().ends_message() {
            self.message = Progress::None;
            return Ok(Some(end));
        }
        self.message = Progress::Send { received: end };
        Ok(None)
    }

    #[inline]
    fn place_write(
        &mut self,
        packet: &Packet<'_>,
        len: u32,
        granted: Access,
        context: &mut impl RecvContext,
    ) -> Result<Option<u32>, Obstacle<Refusal>> {
        let (ends, has_imm) = (packet.opcode().ends_message(), packet.opcode().has_imm());
        let access = Access::REMOTE_WRITE;
        let (next, left, length) = match (self.message, packet.reth()) {
            (Progress::Write { .. }, _) if !granted.contains(access) => {
                // It was revoked since the message began.
                return Err(Refusal::Rights.into());
            }
            (Progress::Write { next, left, length }, _) => (next, left, length),
            (_, Some(reth)) => {
                // A message of one packet is checked when it is placed, unless a receive depends on it.
                match packet.packets() == 1 && len == reth.len && !has_imm {
                    true => check_rights(&reth, (access, granted))?,
                    false => check_remote(&reth, (access, granted), context)?,
                }
                (Remote::from(&reth), reth.len, reth.len)
            }
            // Does not occur: the packets that start a WRITE have a RETH.
            (_, None) => return Err(Refusal::Sequence.into()),
        };
        let after = left.checked_sub(len).ok_or(Refusal::Length)?;
        if ends != (after == 0) {
            return Err(Refusal::Length.into());
        }
        if has_imm {
            self.hold_receive(WcOpcode::RecvRdmaWithImm, context)?;
        }
        if let Some(payload) = RxPayload::of(packet) {
            context
                .place_remote(next, payload, left)
                .map_err(|obstacle| obstacle.map(|_| Refusal::Key))?;
        }
        if ends {
            self.message = Progress::None;
            context.on_written(length);
            return Ok(has_imm.then_some(length));
        }
        self.message = Progress::Write {
            next: next.advance(len),
            left: after,
            length,
        };
        Ok(None)
    }

    /// Completes the receive of a message of `byte_len` bytes, which `packet` ends.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        byte_len: u32,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) {
        let Some(RecvWr { wr_id, .. }) = self.receive.take() else {
            return;
        };
        let completion = Completion {
            wr_id,
            status: WcStatus::Success,
            opcode: wc_opcode(packet),
            byte_len,
            imm: packet.imm().map(|ImmDt(bytes)| Imm(bytes)),
            invalidated: packet.ieth().map(|Ieth { rkey }| rkey),
        };
        context.complete_receive(completion, packet.solicited());
    }

    /// Discards the message of `packet`, and completes its receive, if it has one, with an error.
    pub(crate) fn fail_receive(
        &mut self,
        status: WcStatus,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) {
        self.message = Progress::None;
        if let Some(RecvWr { wr_id, .. }) = self.receive.take() {
            let failed = Completion::failed(wr_id, wc_opcode(packet), status);
            context.complete_receive(failed, packet.solicited());
        }
    }

    /// Discards the message in progress. Returns the flushed completion of the receive.
    pub(crate) fn flush(&mut self) -> Option<Completion> {
        self.message = Progress::None;
        let RecvWr { wr_id, .. } = self.receive.take()?;
        Some(Completion::failed(
            wr_id,
            WcOpcode::Recv,
            WcStatus::WrFlushErr,
        ))
    }

    /// Returns the receive of the message, or takes one. A receive that cannot be used completes with `opcode`.
    #[inline]
    fn hold_receive(
        &mut self,
        opcode: WcOpcode,
        context: &mut impl RecvContext,
    ) -> Result<RecvWr, Refusal> {
        if let Some(wr) = self.receive {
            return Ok(wr);
        }
        match context.take_receive().ok_or(Refusal::NoReceive)? {
            Ok(wr) => {
                self.receive = Some(wr);
                Ok(wr)
            }
            Err(BadRecv { wr_id, status }) => {
                context.complete_receive(Completion::failed(wr_id, opcode, status), false);
                Err(Refusal::BadReceive)
            }
        }
    }
}

/// Returns the opcode of the completion of the receive that `packet` uses.
#[inline]
fn wc_opcode(packet: &Packet<'_>) -> WcOpcode {
    match is_write(packet) {
        true => WcOpcode::RecvRdmaWithImm,
        false => WcOpcode::Recv,
    }
}

#[inline]
fn is_write(packet: &Packet<'_>) -> bool {
    packet.opcode().operation() == Operation::RdmaWrite
}

/// Checks that the QP grants `access`, and that the message is not too long.
#[inline]
fn check_rights(reth: &Reth, (access, granted): (Access, Access)) -> Result<(), Refusal> {
    match granted.contains(access) && reth.len <= MAX_MESSAGE_BYTES {
        true => Ok(()),
        false => Err(Refusal::Rights),
    }
}

/// Checks that QP and key grant `access` to the memory in `reth`. The key is not checked for length 0 (C9-88).
#[inline]
pub(crate) fn check_remote(
    reth: &Reth,
    (access, granted): (Access, Access),
    context: &mut impl RecvContext,
) -> Result<(), Obstacle<Refusal>> {
    check_rights(reth, (access, granted))?;
    if reth.len == 0 {
        return Ok(());
    }
    context
        .check_remote(Remote::from(reth), reth.len, access)
        .map_err(|obstacle| obstacle.map(|_| Refusal::Key))
}
