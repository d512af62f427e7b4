// SPDX-License-Identifier: GPL-2.0

//! A model of the RC transport of an RDMA adapter, as far as its behaviour is known from captures, drivers and public
//! measurements. It shares no code with the protocol crate but the packet format.
//!
//! An adapter differs from this driver in what it keeps and in what it tells. The responder takes requests strictly in
//! order, keeps no data of duplicates, serves few READs at a time, reports credits, acknowledges only where an ACK is
//! requested, and may send a congestion notification with a NAK. The requester may set reserved bits, asks again for a
//! READ from the first missing PSN, and may complete requests by the MSN. [`Profile`] says which adapter does what.

use crate::memory::Memory;
use roce::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    segmentation::mtu::Mtu,
    time::Instant,
    wire::{
        emit::Headers,
        opcode::Opcode,
        packet::Packet, //
    }, //
};

pub mod link;
pub mod requester;
pub mod responder;

use requester::AdapterRequester;
use responder::AdapterResponder;

/// QP number of an adapter's peer in its packets.
const PEER: Qpn = Qpn::new(1);

/// The credits that an adapter reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CreditReport {
    /// None: a shared receive queue.
    Uncounted,
    /// The posted receives.
    Counted,
    /// Always this code.
    Fixed(u8),
}

/// What distinguishes the adapters of one family.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The family: the name of its Linux driver.
    pub name: &'static str,
    /// Credits in each ACK.
    pub credits: CreditReport,
    /// Sends an ACK without a request when receives are posted after it had none.
    pub unsolicited_credits: bool,
    /// READs and atomic operations that it serves at a time. It NAKs one more as an invalid request.
    pub max_reads: usize,
    /// A congestion notification accompanies each sequence error NAK.
    pub notifies_with_nak: bool,
    /// Reserved bits that it sets in the variant byte of its requests.
    pub reserved_bits: u8,
    /// Requests an ACK with the first packet of a message as well.
    pub first_requests_ack: bool,
    /// Completes its requests by the MSN of an ACK, not by its PSN.
    pub completes_by_msn: bool,
    /// Looks a duplicate up among its responses, whatever its opcode, and repeats the one with its PSN.
    pub finds_duplicates_by_psn: bool,
}

/// A ConnectX adapter without shared receive queue.
pub const MLX5: Profile = Profile {
    name: "mlx5",
    credits: CreditReport::Counted,
    unsolicited_credits: true,
    max_reads: 16,
    notifies_with_nak: true,
    reserved_bits: 0,
    first_requests_ack: false,
    completes_by_msn: false,
    finds_duplicates_by_psn: false,
};

/// A Broadcom adapter of generation P7.
pub const BNXT: Profile = Profile {
    name: "bnxt_re",
    credits: CreditReport::Uncounted,
    notifies_with_nak: false,
    unsolicited_credits: false,
    completes_by_msn: true,
    ..MLX5
};

/// An Intel adapter: it reports the second highest credit code.
pub const IRDMA: Profile = Profile {
    name: "irdma",
    credits: CreditReport::Fixed(0x1e),
    completes_by_msn: false,
    finds_duplicates_by_psn: true,
    ..BNXT
};

/// A Huawei adapter, with the reserved bits, ACK requests and credits of the capture.
pub const HNS: Profile = Profile {
    name: "hns",
    credits: CreditReport::Counted,
    reserved_bits: 0x10,
    first_requests_ack: true,
    ..MLX5
};

/// All families.
pub const PROFILES: [Profile; 4] = [MLX5, BNXT, IRDMA, HNS];

/// An adapter's QP and its memory.
pub struct Adapter {
    /// The sending half.
    pub requester: AdapterRequester,
    /// The receiving half.
    pub responder: AdapterResponder,
    /// Memory of both halves.
    pub memory: Memory,
    /// Congestion notifications received.
    pub notifications: u32,
}

impl Adapter {
    /// Creates a connected QP whose requests start at `send_psn`, those of its peer at `recv_psn`.
    #[must_use]
    pub fn new(profile: Profile, mtu: Mtu, (send_psn, recv_psn): (Psn, Psn)) -> Self {
        Self {
            requester: AdapterRequester::new(profile, mtu, send_psn),
            responder: AdapterResponder::new(profile, mtu, recv_psn),
            memory: Memory::new(3 << 40),
            notifications: 0,
        }
    }

    /// Handles received frames.
    ///
    /// # Panics
    ///
    /// If one of them cannot be parsed.
    pub fn deliver(&mut self, now: Instant, frames: &[Vec<u8>]) {
        for frame in frames {
            let packet = Packet::parse(frame, frame.len() + 4).expect("a well-formed packet");
            let payload = &frame[packet.payload_offset()..][..packet.payload_len()];
            if packet.opcode() == Opcode::CNP {
                self.notifications += 1;
            } else if packet.opcode().is_response() {
                self.requester
                    .on_response(now, &packet, payload, &mut self.memory);
            } else {
                self.responder
                    .on_request(&packet, payload, &mut self.memory);
            }
        }
    }

    /// Returns the frames to send now.
    pub fn poll(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut frames = self.responder.poll(now, &self.memory);
        frames.extend(self.requester.poll(now, &self.memory));
        frames
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let both = [self.requester.deadline(), self.responder.deadline()];
        both.into_iter().flatten().min()
    }

    /// Handles the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.requester.handle_timeout(now);
        self.responder.handle_timeout(now);
    }
}

/// Returns the headers of a packet to the peer.
fn headers(opcode: Opcode, psn: Psn) -> Headers {
    Headers::new(opcode, Pkey::DEFAULT, PEER, psn)
}

/// Returns the frame with these headers and payload.
fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut frame = headers.emit(payload.len()).as_slice().to_vec();
    frame.extend_from_slice(payload);
    frame.resize(frame.len().next_multiple_of(4), 0);
    frame
}
