// SPDX-License-Identifier: GPL-2.0

//! The sending half of an adapter's QP.

use super::{
    frame,
    headers,
    Profile, //
};
use crate::memory::Memory;
use roce::{
    psn::Psn,
    segmentation::mtu::Mtu,
    status::NakCode,
    time::{
        rnr_timeout,
        Duration,
        Instant, //
    },
    wire::{
        aeth::Syndrome,
        bth::VARIANT_BYTE,
        ext::{
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::Packet, //
    },
    wr::Remote, //
};

/// Time without an ACK or response after which it sends again.
const TIMEOUT: Duration = Duration::from_micros(500);

/// Retransmissions without progress before it gives up.
const RETRIES: u32 = 50;

/// Packets in flight.
const WINDOW: u32 = 64;

/// A work request of the adapter.
#[derive(Clone, Copy, Debug)]
pub enum AdapterWork {
    /// A SEND of the bytes at an address.
    Send {
        /// Address.
        va: u64,
        /// Length in bytes.
        len: u32,
    },
    /// An RDMA WRITE of the bytes at an address, perhaps with immediate data.
    Write {
        /// Address.
        va: u64,
        /// Length in bytes.
        len: u32,
        /// Memory of the peer.
        to: Remote,
        /// Whether it has immediate data.
        imm: bool,
    },
    /// An RDMA READ to an address.
    Read {
        /// Address.
        va: u64,
        /// Length in bytes.
        len: u32,
        /// Memory of the peer.
        from: Remote,
    },
    /// A packet with an opcode that RC reserves.
    Vendor {
        /// The opcode.
        opcode: u8,
    },
}

impl AdapterWork {
    const fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    const fn len(&self) -> u32 {
        match *self {
            Self::Send { len, .. } | Self::Write { len, .. } | Self::Read { len, .. } => len,
            Self::Vendor { .. } => 0,
        }
    }
}

/// A posted request.
#[derive(Clone, Copy, Debug)]
struct Request {
    work: AdapterWork,
    first: Psn,
    packets: u32,
}

/// The sending half of a QP.
pub struct AdapterRequester {
    profile: Profile,
    mtu: Mtu,
    requests: Vec<Request>,
    /// Requests that are complete.
    pub completed: usize,
    /// Requests that a packet completes by its MSN, but not by its PSN.
    pub completed_early: u32,
    /// PSN of the next posted request.
    free: Psn,
    una: Psn,
    next: Psn,
    deadline: Option<Instant>,
    not_ready_until: Option<Instant>,
    retries: u32,
    /// Retransmissions of all kinds.
    pub retransmissions: u32,
    /// READs asked again from the middle.
    pub reread: u32,
    /// The error that ended the connection.
    pub failed: Option<NakCode>,
}

impl AdapterRequester {
    pub(super) fn new(profile: Profile, mtu: Mtu, first: Psn) -> Self {
        Self {
            profile,
            mtu,
            requests: Vec::new(),
            completed: 0,
            completed_early: 0,
            free: first,
            una: first,
            next: first,
            deadline: None,
            not_ready_until: None,
            retries: 0,
            retransmissions: 0,
            reread: 0,
            failed: None,
        }
    }

    /// Posts a work request.
    pub fn post(&mut self, work: AdapterWork) {
        let (first, packets) = (self.free, self.mtu.packets(work.len()));
        self.requests.push(Request {
            work,
            first,
            packets,
        });
        self.free = first.add(packets);
    }

    /// Number of posted requests.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.requests.len()
    }

    /// Returns the request with this PSN.
    fn request_of(&self, psn: Psn) -> Option<Request> {
        let contains = |request: &&Request| psn.since(request.first) < request.packets;
        self.requests.iter().find(contains).copied()
    }

    pub(super) fn poll(&mut self, now: Instant, memory: &Memory) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let blocked = self.failed.is_some() || self.not_ready_until.is_some();
        while !blocked && self.next != self.free && self.next.since(self.una) < WINDOW {
            let request = self.request_of(self.next).expect("a request");
            let reads = self.reads_in_flight();
            if request.work.is_read() && reads >= self.profile.max_reads {
                break;
            }
            frames.push(self.packet(&request, memory));
            self.deadline.get_or_insert(now.saturating_add(TIMEOUT));
        }
        frames
    }

    /// Number of READs between `una` and `next`.
    fn reads_in_flight(&self) -> usize {
        let flight = self.next.since(self.una);
        let in_flight =
            |request: &&Request| request.work.is_read() && request.first.since(self.una) < flight;
        self.requests.iter().filter(in_flight).count()
    }

    /// Returns the next packet of a request, and advances.
    fn packet(&mut self, request: &Request, memory: &Memory) -> Vec<u8> {
        let psn = self.next;
        let index = psn.since(request.first);
        let offset = self.mtu.offset(index, request.work.len());
        let (starts, ends) = (index == 0, index + 1 == request.packets);
        let position = match (starts, ends) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        };
        let length = self.mtu.payload(index, request.work.len()) as usize;
        let at = |va: u64| memory.get(va + u64::from(offset), length).to_vec();
        let opcode = |operation, position, imm| {
            Opcode::of(Service::Rc, operation, position, imm).expect("a request")
        };
        let acks = ends || (starts && self.profile.first_requests_ack);
        let (headers, payload) = match request.work {
            AdapterWork::Send { va, .. } => (
                headers(opcode(Operation::Send, position, false), psn),
                at(va),
            ),
            AdapterWork::Write { va, len, to, imm } => {
                let Remote { va: to, rkey } = to;
                let headers = headers(opcode(Operation::RdmaWrite, position, imm), psn)
                    .reth(Reth { va: to, rkey, len })
                    .imm(ImmDt([7; 4]));
                (headers, at(va))
            }
            AdapterWork::Read { len, from, .. } => {
                self.reread += u32::from(index != 0);
                let Remote { va, rkey } = from.advance(offset);
                let len = len - offset;
                let opcode = opcode(Operation::ReadRequest, Position::Only, false);
                (
                    headers(opcode, psn).reth(Reth { va, rkey, len }),
                    Vec::new(),
                )
            }
            AdapterWork::Vendor { opcode } => {
                let opcode = Opcode::from_byte(opcode).expect("an RC opcode");
                (headers(opcode, psn), Vec::new())
            }
        };
        self.next = match request.work.is_read() {
            true => request.first.add(request.packets),
            false => psn.next(),
        };
        let mut bytes = frame(&headers.ack_request(acks), &payload);
        bytes[VARIANT_BYTE] |= self.profile.reserved_bits;
        bytes
    }

    pub(super) fn on_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        payload: &[u8],
        memory: &mut Memory,
    ) {
        let psn = packet.psn();
        if self.failed.is_some() || psn.since(self.una) >= self.next.since(self.una) {
            return;
        }
        if packet.opcode().operation() == Operation::ReadResponse {
            self.on_data(now, psn, payload, memory);
            return;
        }
        let aeth = packet.aeth().expect("an AETH");
        if self.profile.completes_by_msn {
            let acknowledges = matches!(aeth.syndrome, Syndrome::Ack { .. });
            self.complete_by_msn(aeth.msn.get(), psn.add(acknowledges.into()));
        }
        match aeth.syndrome {
            Syndrome::Ack { .. } => self.advance(now, psn.next()),
            Syndrome::Rnr { timer } => {
                self.advance(now, psn);
                if self.una == psn {
                    self.next = psn;
                    self.not_ready_until = Some(now.saturating_add(rnr_timeout(timer)));
                    self.deadline = None;
                }
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                self.advance(now, psn);
                if self.una == psn {
                    self.go_back();
                }
            }
            Syndrome::Nak(code) => (self.failed, self.deadline) = (Some(code), None),
            Syndrome::Reserved => panic!("a reserved syndrome"),
        }
    }

    /// Acknowledges all packets before `upto`. Asks again for a READ among them.
    fn advance(&mut self, now: Instant, upto: Psn) {
        while self.una != upto {
            let request = self.request_of(self.una).expect("a request");
            if request.work.is_read() {
                self.go_back();
                return;
            }
            let end = request.first.add(request.packets);
            let ends = end.since(self.una) <= upto.since(self.una);
            self.una = if ends { end } else { upto };
            self.on_progress(now);
        }
    }

    fn on_data(&mut self, now: Instant, psn: Psn, payload: &[u8], memory: &mut Memory) {
        self.advance(now, psn);
        let request = self.request_of(psn).expect("a request");
        let AdapterWork::Read { va, len, .. } = request.work else {
            panic!("a READ response for {:?}", request.work);
        };
        if self.una != psn {
            return;
        }
        let index = psn.since(request.first);
        assert_eq!(payload.len() as u32, self.mtu.payload(index, len));
        if !payload.is_empty() {
            memory.write(va + u64::from(self.mtu.offset(index, len)), payload);
        }
        self.una = psn.next();
        self.on_progress(now);
    }

    fn on_progress(&mut self, now: Instant) {
        self.retries = 0;
        let idle = self.next == self.una;
        self.deadline = (!idle).then(|| now.saturating_add(TIMEOUT));
        let una = self.una;
        let done = |request: &Request| !request.first.add(request.packets).is_after(una);
        while self.requests.get(self.completed).is_some_and(done) {
            self.completed += 1;
        }
    }

    /// Completes as many requests as the peer says to have completed. They must end before `end`, up to which the same
    /// packet acknowledges.
    fn complete_by_msn(&mut self, msn: u32, end: Psn) {
        let newly = self.requests.get(self.completed..msn as usize);
        let early = |request: &&Request| request.first.add(request.packets).is_after(end);
        self.completed_early += newly.unwrap_or(&[]).iter().filter(early).count() as u32;
    }

    fn go_back(&mut self) {
        self.retries += 1;
        self.retransmissions += 1;
        assert!(self.retries < RETRIES, "no progress at {:?}", self.una);
        self.next = self.una;
        self.deadline = None;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.not_ready_until.or(self.deadline)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let passed = |at: &mut Instant| !at.is_after(now);
        if self.not_ready_until.take_if(passed).is_none() && self.deadline.take_if(passed).is_some()
        {
            self.go_back();
        }
    }
}
