// SPDX-License-Identifier: GPL-2.0

//! A network that drops, duplicates, reorders, corrupts and delays frames, determined by a seed. A
//! test may instead decide the fate of each frame ([`Net::fault_hook`]).

use crate::{
    crc::Fast,
    random::Random, //
};
use roce::{
    time::{
        Duration,
        Instant, //
    },
    wire::{
        aeth::Syndrome,
        icrc::Icrc,
        ip::{
            Ipv4Pseudo,
            Masked,
            UdpPseudo, //
        },
        opcode::{
            Operation,
            Position, //
        },
        packet::Packet, //
    }, //
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt, //
};

/// Fault rates per 1000 frames, and the delay of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Frames that are dropped.
    pub loss: usize,
    /// Frames that are duplicated.
    pub duplication: usize,
    /// Frames with a bit error.
    pub corruption: usize,
    /// Frames that are delayed.
    pub reordering: usize,
    /// Minimum delay of a frame.
    pub delay: Duration,
    /// Maximum additional delay of a delayed frame.
    pub jitter: Duration,
}

/// The fate of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Delivered.
    Pass,
    /// Dropped.
    Drop,
    /// Delivered twice.
    Twice,
    /// Delivered with a bit error.
    Damage,
    /// Delayed by this time.
    Late(Duration),
}

/// A frame as the network sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    /// The sending host.
    pub from: usize,
    /// Time of sending.
    pub at: Instant,
    /// Number of the frame, counted over both directions.
    pub number: u64,
    /// Operation.
    pub operation: Operation,
    /// Position in its message.
    pub position: Position,
    /// PSN.
    pub psn: u32,
    /// Payload length in bytes.
    pub payload: usize,
    /// AckReq bit.
    pub ack_request: bool,
    /// Syndrome of the AETH.
    pub syndrome: Option<Syndrome>,
    /// Length in the RETH.
    pub reth_len: Option<u32>,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_nanos() / 1_000;
        let indent = 24 * self.from;
        write!(f, "{micros:>9} {:>5} {:indent$}", self.number, "")?;
        write!(f, "{:?} {:?}", self.operation, self.position)?;
        write!(f, " psn {:#x} len {}", self.psn, self.payload)?;
        if let Some(syndrome) = self.syndrome {
            write!(f, " {syndrome:?}")?;
        }
        if let Some(len) = self.reth_len {
            write!(f, " of {len}")?;
        }
        Ok(())
    }
}

/// Decides the fate of each frame.
pub type FaultHook = Box<dyn FnMut(&Sent) -> Fate>;

/// A frame in flight. Ordered by arrival time, then by sending order.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct InFlight {
    at: Instant,
    order: u64,
    to: usize,
    bytes: Vec<u8>,
}

/// The network between two hosts.
pub struct Net {
    random: Random,
    faults: Faults,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    sent: u64,
    /// Decides the fate of each frame, instead of the random faults.
    pub fault_hook: Option<FaultHook>,
    /// Log of sent frames, if enabled.
    pub log: Option<Vec<Sent>>,
}

impl Net {
    /// Creates a network with random faults from `seed`.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            random: Random::new(seed),
            faults,
            in_flight: BinaryHeap::new(),
            order: 0,
            sent: 0,
            fault_hook: None,
            log: None,
        }
    }

    /// Sends a frame, bytes from the BTH to the pad. The network adds the ICRC.
    ///
    /// # Panics
    ///
    /// If the frame cannot be parsed.
    pub fn send(&mut self, now: Instant, from: usize, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(&icrc(&bytes));
        let sent = self.describe(now, from, &bytes);
        self.sent += 1;
        if let Some(log) = &mut self.log {
            log.push(sent);
        }
        let fate = match &mut self.fault_hook {
            Some(fault_hook) => fault_hook(&sent),
            None => self.random_fate(),
        };
        let mut at = now.saturating_add(self.faults.delay);
        match fate {
            Fate::Drop => return,
            Fate::Pass => {}
            Fate::Twice => self.enqueue(at, 1 - from, bytes.clone()),
            Fate::Damage => {
                // Not in the byte that the ICRC does not cover.
                let bit = match self.random.below(8 * (bytes.len() - 1)) {
                    bit if bit >= 8 * 4 => bit + 8,
                    bit => bit,
                };
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Fate::Late(late) => at = at.saturating_add(late),
        }
        self.enqueue(at, 1 - from, bytes);
    }

    /// Returns the arrival time of the next frame.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.peek().map(|Reverse(frame)| frame.at)
    }

    /// Returns the next frame that has arrived by `now`, without its ICRC, and its destination
    /// host. Damaged frames are dropped: their ICRC is wrong.
    pub fn arrive(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        while self.next_arrival().is_some_and(|at| !at.is_after(now)) {
            let Reverse(InFlight { to, bytes, .. }) = self.in_flight.pop()?;
            let (frame, check) = bytes.split_at(bytes.len() - 4);
            if icrc(frame) == check {
                return Some((to, frame.to_vec()));
            }
        }
        None
    }

    fn random_fate(&mut self) -> Fate {
        let faults = self.faults;
        let roll = self.random.below(1000);
        let loss = faults.loss;
        let duplication = loss + faults.duplication;
        let corruption = duplication + faults.corruption;
        let reordering = corruption + faults.reordering;
        match roll {
            roll if roll < loss => Fate::Drop,
            roll if roll < duplication => Fate::Twice,
            roll if roll < corruption => Fate::Damage,
            roll if roll < reordering => {
                let late = self.random.below(faults.jitter.as_nanos() as usize);
                Fate::Late(Duration::from_nanos(late as u64))
            }
            _ => Fate::Pass,
        }
    }

    fn enqueue(&mut self, at: Instant, to: usize, bytes: Vec<u8>) {
        let order = self.order;
        self.order += 1;
        let frame = InFlight {
            at,
            order,
            to,
            bytes,
        };
        self.in_flight.push(Reverse(frame));
    }

    fn describe(&self, at: Instant, from: usize, bytes: &[u8]) -> Sent {
        let packet = Packet::parse(bytes, bytes.len()).expect("a well-formed packet");
        Sent {
            from,
            at,
            number: self.sent,
            operation: packet.opcode().operation(),
            position: packet.opcode().position(),
            psn: packet.psn().get(),
            payload: packet.payload_len(),
            ack_request: packet.ack_request(),
            syndrome: packet.aeth().map(|aeth| aeth.syndrome),
            reth_len: packet.reth().map(|reth| reth.len),
        }
    }
}

/// Returns the ICRC of a frame between two fixed addresses.
fn icrc(frame: &[u8]) -> [u8; 4] {
    let ip = Ipv4Pseudo {
        total_len: 0,
        id: 0,
        frag: 0x4000,
        saddr: [10, 0, 0, 1],
        daddr: [10, 0, 0, 2],
    };
    let udp = UdpPseudo {
        sport: 0xc000,
        dport: 4791,
        len: 0,
    };
    let mut masked = Masked::ipv4(&ip, &udp);
    masked.set_packet(0, frame.len() + 4);
    Icrc::<Fast>::headers(&masked, frame).finish()
}
