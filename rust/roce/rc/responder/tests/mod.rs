// SPDX-License-Identifier: GPL-2.0

//! Unit tests of the responder, packet by packet. The test acts as the peer and the host.

extern crate std;

mod atomics;
mod duplicates;
mod errors;
mod requests;
mod responses;
mod xrc;

use super::*;
use crate::{
    access::{
        Obstacle,
        Taken, //
    },
    id::Pkey,
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
    status::{
        DropReason,
        WcStatus, //
    },
    wire::{
        aeth::Syndrome,
        opcode::{
            Operation,
            Position, //
        }, //
    },
    wr::{
        BadRecv,
        Imm,
        RecvWr,
        WcOpcode, //
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

/// The RNR NAK timer code of the responder.
const RNR_TIMER: u8 = 9;

/// A call of the host.
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
    AtomicWritten(u64),
    /// `flush`: address, scope, placement.
    Flushed(u64, FlushScope, Placement),
    /// `invalidate`: the key.
    Invalidated(u32),
    /// `select_srq` of one that is in the domain: the number.
    Selected(u32),
    /// `complete_receive`: `wr_id`, status and length.
    Completed(u64, WcStatus, u32),
}

/// A host that records all calls.
#[derive(Default)]
struct Host {
    receives: Vec<Result<RecvWr, BadRecv>>,
    host_calls: Vec<HostCall>,
    completions: Vec<(Completion, bool)>,
    /// Length of each WRITE that is complete.
    whole_writes: Vec<u32>,
    /// Error of `place_receive`.
    receive_fault: Option<WcStatus>,
    /// Error of the access checks.
    access_fault: Option<AccessError>,
    /// Error of `place_remote`.
    write_fault: Option<AccessError>,
    /// The next access finds that memory is not present.
    absent: bool,
    /// The numbers of the SRQs of the domain.
    srqs: Vec<u32>,
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
        _left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        if core::mem::take(&mut self.absent) {
            return Err(Obstacle::Absent);
        }
        self.host_calls
            .push(HostCall::Written(remote.va, payload.len));
        let fault = self.access_fault.or(self.write_fault);
        fault.map_or(Ok(()), |error| Err(error.into()))
    }

    fn on_written(&mut self, length: u32) {
        self.whole_writes.push(length);
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
        self.host_calls.push(HostCall::AtomicWritten(remote.va));
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

    fn select_srq(&mut self, srqn: Srqn) -> bool {
        let found = self.srqs.contains(&srqn.get());
        if found {
            self.host_calls.push(HostCall::Selected(srqn.get()));
        }
        found
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError> {
        self.access_fault.map_or(Ok(()), Err)?;
        self.host_calls.push(HostCall::Invalidated(rkey.get()));
        Ok(())
    }
}

/// A responder with MTU 256, expected PSN 100 and two replay entries, and its host.
struct Bench {
    responder: Responder<Vec<ReplayEntry>>,
    host: Host,
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Sets the partition key to send.
    fn set_pkey(&mut self, pkey: Pkey) {
        self.config.connection.pkey = pkey;
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ResponderConfig)) -> Self {
        let mut config = ResponderConfig {
            connection: Connection::new(Service::Rc, Qpn::new(2)),
            expected_psn: Psn::new(100),
            path_mtu: Mtu::Mtu256,
            access: Access::REMOTE_READ.union(Access::REMOTE_WRITE),
            min_rnr_timer: RNR_TIMER,
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

    /// Posts a receive of `length` bytes; the length is also its `wr_id`.
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

    /// Receives READs of one byte each. The address equals the PSN.
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

    /// Sends all packets and returns address and length of the read responses.
    fn reads(&mut self) -> Vec<(u64, u32)> {
        let burst = self.responder.burst(ALL);
        burst
            .filter_map(|segment| match segment.source {
                TxPayload::Remote(remote, _) => Some((remote.va, segment.length)),
                _ => None,
            })
            .collect()
    }

    fn host_calls(&mut self) -> Vec<HostCall> {
        core::mem::take(&mut self.host.host_calls)
    }

    /// Checks that the last packet caused only this fatal NAK.
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
