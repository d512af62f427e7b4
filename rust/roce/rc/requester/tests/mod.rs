// SPDX-License-Identifier: GPL-2.0

//! Unit tests of the requester, packet by packet. The test acts as the peer.

extern crate std;

mod ack_request;
mod credits;
mod errors;
mod local;
mod nonposted;
mod read_split;
mod recovery;
mod responses;
mod rtt;
mod sending;

use super::*;
use crate::{
    access::{
        Obstacle,
        Taken, //
    },
    congestion::Algorithm,
    id::{
        Pkey,
        Qpn, //
    },
    message::connection::Connection,
    rc::testing::{
        ack,
        aeth_packet,
        at,
        micros,
        psns,
        request,
        Pkt,
        ALL, //
    },
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            TxPayload, //
        }, //
    },
    status::{
        DropReason,
        NakCode, //
    },
    wire::{
        aeth::Syndrome,
        opcode::{
            Operation,
            Position,
            Service, //
        }, //
    },
    wr::Imm, //
};
use std::{
    vec,
    vec::Vec, //
};

const SEND: SendOp = SendOp::Send { imm: None };
const READ: SendOp = SendOp::Read { remote: at(0x1000) };
const SEQUENCE: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

/// T of ACK timeout code 5, in microseconds: 131.072.
const T: u64 = 132;

/// A requester with MTU 256 and first PSN 100, and its host.
struct Bench {
    requester: Requester<Vec<Slot>>,
    now: Instant,
    /// READ data: slot, offset, length. Atomic results: slot, `u32::MAX`, original value.
    /// Invalidated keys: `u32::MAX`, key, 0.
    placed: Vec<(u32, u32, u32)>,
    place_error: Option<Obstacle<WcStatus>>,
}

impl ResponseContext for (&mut Vec<(u32, u32, u32)>, Option<Obstacle<WcStatus>>) {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        if let Some(obstacle) = self.1 {
            return Err(obstacle);
        }
        self.0.push((slot.0, offset, payload.len));
        Ok(())
    }

    fn place_value(&mut self, slot: SlotIndex, original: u64) -> Result<(), Obstacle<WcStatus>> {
        if let Some(status) = self.1 {
            return Err(status);
        }
        self.0.push((slot.0, u32::MAX, original as u32));
        Ok(())
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        if let Some(Obstacle::Refused(status)) = self.1 {
            return Err(status);
        }
        self.0.push((u32::MAX, rkey.get(), 0));
        Ok(())
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Sets the partition key to send.
    fn set_pkey(&mut self, pkey: Pkey) {
        self.config.connection.pkey = pkey;
    }

    /// Sets the limit on data in flight.
    fn set_flow(&mut self, flow: FlowLimit) {
        self.config.flow = flow;
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RequesterConfig)) -> Self {
        Self::of(8, change)
    }

    /// A requester with `slots` slots.
    fn of(slots: usize, change: impl FnOnce(&mut RequesterConfig)) -> Self {
        let mut config = RequesterConfig {
            connection: Connection::new(Service::Rc, Qpn::new(2)),
            first_psn: Psn::new(100),
            path_mtu: Mtu::Mtu256,
            max_rd_atomic: 2,
            ack_timeout: 5,
            retry_cnt: 2,
            rnr_retry: 2,
            flow: FlowLimit {
                bytes: 1 << 20,
                packets: 1000,
            },
            initial_window: u32::MAX,
            congestion: Algorithm::Window,
        };
        change(&mut config);
        let mut requester = Requester::new(vec![Slot::EMPTY; slots]);
        requester.init();
        requester.configure(&config);
        requester.start();
        Self {
            requester,
            now: micros(1),
            placed: Vec::new(),
            place_error: None,
        }
    }

    fn post(&mut self, op: SendOp, length: u32) -> SlotIndex {
        self.requester.post(request(op, length)).unwrap()
    }

    fn transmit(&mut self) -> Vec<Pkt> {
        self.transmit_up_to(ALL)
    }

    fn transmit_up_to(&mut self, limit: BurstLimit) -> Vec<Pkt> {
        let burst = self.requester.burst(self.now, limit);
        burst.map(|segment| Pkt::of(&segment)).collect()
    }

    fn receive(&mut self, packet: Pkt) -> Result<(), DropReason> {
        let taken = self.deliver(packet)?;
        assert_eq!(taken, Taken::Whole);
        Ok(())
    }

    fn deliver(&mut self, packet: Pkt) -> Result<Taken, DropReason> {
        let mut host = (&mut self.placed, self.place_error);
        let (requester, now) = (&mut self.requester, self.now);
        packet.parse(|packet| requester.handle_response(now, packet, &mut host))
    }

    /// Receives READ data.
    fn receive_data(&mut self, psn: u32, len: u32) -> Result<(), DropReason> {
        self.receive(Pkt::new(
            Operation::ReadResponse,
            Position::Middle,
            psn,
            len,
        ))
    }

    /// Returns `wr_id` and status of all completions.
    fn completions(&mut self) -> Vec<(u64, WcStatus)> {
        let requester = &mut self.requester;
        let next = || Some(requester.poll_completion()?.completion().unwrap());
        core::iter::from_fn(next)
            .map(|completion| (completion.wr_id, completion.status))
            .collect()
    }

    fn wait(&mut self, micros: u64) -> bool {
        let delay = crate::time::Duration::from_micros(micros);
        self.now = self.now.saturating_add(delay);
        self.requester.handle_timeout(self.now)
    }
}

fn send_pkt(position: Position, psn: u32, len: u32) -> Pkt {
    Pkt::new(Operation::Send, position, psn, len)
}
