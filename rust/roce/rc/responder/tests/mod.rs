// SPDX-License-Identifier: GPL-2.0

//! The responder alone, packet by packet. The peer and the host are played by the test.

extern crate std;

mod atomics;
mod duplicates;
mod errors;
mod requests;
mod responses;

use super::*;
use crate::{
    access::{
        Obstacle,
        Taken, //
    },
    rc::testing::{
        ack,
        aeth_packet,
        Pkt,
        ALL, //
    },
    segmentation::tx_desc::{
        BurstLimit,
        TxPayload, //
    },
    status::DropReason,
    wire::{
        aeth::Syndrome,
        opcode::{
            Operation,
            Position, //
        }, //
    },
    wr::{
        BadRecv,
        Imm, //
    }, //
};
use std::{
    vec,
    vec::Vec, //
};

const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::PsnSequence);
const INVALID: Syndrome = Syndrome::Nak(NakCode::InvalidRequest);
const ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccess);
const OPERATIONAL: Syndrome = Syndrome::Nak(NakCode::RemoteOperational);

/// Code of the pause that the responder asks for.
const PAUSE: u8 = 9;

/// What the host was asked to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HostCall {
    /// `place_receive`: offset and length.
    Received(u32, u32),
    /// `place_remote`: address and length.
    Written(u64, u32),
    /// `check_remote`: address, length, access.
    Checked(u64, u32, Access),
    /// `execute_atomic`: address, operation.
    Atomic(u64, AtomicOp),
    /// `write_atomic`: address.
    WrittenWhole(u64),
    /// `flush`: address, which, where to.
    Flushed(u64, FlushScope, Placement),
    /// `invalidate`: the key.
    Invalidated(u32),
    /// `complete_receive`: number, status and length.
    Completed(u64, WcStatus, u32),
}

/// A host that notes everything.
#[derive(Default)]
struct Host {
    receives: Vec<Result<RecvWr, BadRecv>>,
    host_calls: Vec<HostCall>,
    completions: Vec<(Completion, bool)>,
    /// What copying into a receive says.
    receive_fault: Option<WcStatus>,
    /// What a check of rights says.
    access_fault: Option<AccessError>,
    /// What copying to memory says.
    write_fault: Option<AccessError>,
    /// The next copy finds that memory is absent.
    absent: bool,
}

impl RecvContext for Host {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        match self.receives.is_empty() {
            true => None,
            false => Some(self.receives.remove(0)),
        }
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        if core::mem::take(&mut self.absent) {
            return Err(Obstacle::Absent);
        }
        self.host_calls
            .push(HostCall::Received(offset, payload.len));
        self.receive_fault.map_or(Ok(()), |error| Err(error.into()))
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        self.host_calls
            .push(HostCall::Checked(remote.va, length, access));
        self.access_fault.map_or(Ok(()), |error| Err(error.into()))
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        if core::mem::take(&mut self.absent) {
            return Err(Obstacle::Absent);
        }
        self.host_calls
            .push(HostCall::Written(remote.va, payload.len));
        self.write_fault.map_or(Ok(()), |error| Err(error.into()))
    }

    fn complete_receive(&mut self, completion: Completion, solicited: bool) {
        let Completion {
            wr_id,
            status,
            byte_len,
            ..
        } = completion;
        self.host_calls
            .push(HostCall::Completed(wr_id, status, byte_len));
        self.completions.push((completion, solicited));
    }
}

impl RequestContext for Host {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        if core::mem::take(&mut self.absent) {
            return Err(Obstacle::Absent);
        }
        self.access_fault.map_or(Ok(()), Err)?;
        self.host_calls.push(HostCall::Atomic(remote.va, op));
        Ok(self.host_calls.len() as u64)
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_eq!(payload.len, 8);
        self.access_fault.map_or(Ok(()), Err)?;
        self.host_calls.push(HostCall::WrittenWhole(remote.va));
        Ok(())
    }

    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        if core::mem::take(&mut self.absent) {
            return Err(Obstacle::Absent);
        }
        self.access_fault.map_or(Ok(()), Err)?;
        self.host_calls
            .push(HostCall::Flushed(remote.va, scope, placement));
        Ok(())
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.access_fault.map_or(Ok(()), Err)?;
        self.host_calls.push(HostCall::Invalidated(rkey.get()));
        Ok(())
    }
}

/// A responder of MTU 256 that expects PSN 100 and keeps two READs, and its host.
struct Bench {
    responder: Responder<Vec<ReplayEntry>>,
    host: Host,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ResponderConfig)) -> Self {
        let mut config = ResponderConfig {
            dest_qpn: Qpn::new(2),
            pkey: Pkey::DEFAULT,
            expected_psn: Psn::new(100),
            path_mtu: Mtu::Mtu256,
            access: Access::REMOTE_READ.union(Access::REMOTE_WRITE),
            min_rnr_timer: PAUSE,
        };
        change(&mut config);
        let mut responder = Responder::new(vec![ReplayEntry::EMPTY; 2]);
        responder.init();
        responder.configure(&config);
        responder.start();
        Self {
            responder,
            host: Host::default(),
        }
    }

    /// Posts a receive of `length` bytes, which is also its number.
    fn post(&mut self, length: u32) {
        let wr_id = u64::from(length);
        self.host.receives.push(Ok(RecvWr { wr_id, length }));
    }

    fn receive(&mut self, packet: Pkt) -> Result<(), DropReason> {
        let taken = self.deliver(packet)?;
        assert_eq!(taken, Taken::Whole);
        Ok(())
    }

    fn deliver(&mut self, packet: Pkt) -> Result<Taken, DropReason> {
        let (responder, host) = (&mut self.responder, &mut self.host);
        packet.parse(|packet| responder.handle_request(packet, host))
    }

    /// READs of one byte each, at the address that is its PSN.
    fn receive_reads<const N: usize>(&mut self, psns: [u32; N]) {
        for psn in psns {
            self.receive(read(psn, u64::from(psn), 1)).unwrap();
        }
    }

    fn transmit(&mut self) -> Vec<Pkt> {
        self.transmit_up_to(ALL)
    }

    fn transmit_up_to(&mut self, limit: BurstLimit) -> Vec<Pkt> {
        let burst = self.responder.burst(limit);
        burst.map(|segment| Pkt::of(&segment)).collect()
    }

    /// Addresses and lengths of the read responses that are sent.
    fn reads(&mut self) -> Vec<(u64, u32)> {
        let burst = self.responder.burst(ALL);
        burst
            .filter_map(|segment| match segment.source {
                TxPayload::Remote(remote) => Some((remote.va, segment.length)),
                _ => None,
            })
            .collect()
    }

    fn host_calls(&mut self) -> Vec<HostCall> {
        core::mem::take(&mut self.host.host_calls)
    }

    /// Checks that the last packet was refused for good and changed nothing else.
    fn assert_fatal_nak(&mut self, psn: u32, syndrome: Syndrome, fatal: Fatal) {
        assert_eq!(self.responder.state(), ResponderState::Error);
        assert_eq!(self.responder.take_event(), Some(fatal));
        assert_eq!(self.responder.take_event(), None);
        assert_eq!(self.transmit(), [aeth_packet(psn, syndrome)]);
        assert_eq!(self.transmit(), []);
        let next = send(Position::Only, psn, 1);
        assert_eq!(self.receive(next), Err(DropReason::WrongQpState));
    }
}

fn send(position: Position, psn: u32, len: u32) -> Pkt {
    Pkt::new(Operation::Send, position, psn, len)
}

fn write(position: Position, psn: u32, len: u32) -> Pkt {
    Pkt::new(Operation::RdmaWrite, position, psn, len)
}

fn read(psn: u32, va: u64, len: u32) -> Pkt {
    Pkt::new(Operation::ReadRequest, Position::Only, psn, 0).with_reth(va, len)
}

/// A read response.
fn data(position: Position, psn: u32, len: u32) -> Pkt {
    let packet = Pkt::new(Operation::ReadResponse, position, psn, len);
    match position {
        Position::Middle => packet,
        _ => Pkt {
            syndrome: Some(Syndrome::ACK_UNLIMITED),
            ..packet
        },
    }
}
