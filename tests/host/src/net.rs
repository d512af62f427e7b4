// SPDX-License-Identifier: GPL-2.0

//! A network that loses, repeats, reorders, damages and delays, all from one seed.
//!
//! Owns the frames on their way and decides about each. A test may look at every frame and
//! decide for itself ([`Net::meddle`]). Knows nothing of the two hosts but their numbers.

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
        packet::Packet,
    },
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt, //
};

/// How often things go wrong, in one of a thousand frames, and how long a frame takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Frames that vanish.
    pub loss: usize,
    /// Frames that come twice.
    pub duplication: usize,
    /// Frames of which a bit flips.
    pub corruption: usize,
    /// Frames that come late.
    pub reordering: usize,
    /// The least time that a frame takes.
    pub delay: Duration,
    /// The most that a late frame takes longer.
    pub jitter: Duration,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It arrives.
    Pass,
    /// It vanishes.
    Drop,
    /// It arrives twice.
    Twice,
    /// A bit of it flips.
    Damage,
    /// It arrives so much later.
    Late(Duration),
}

/// What a frame says, as the network sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    /// The host that sent it.
    pub from: usize,
    /// When.
    pub at: Instant,
    /// Number of the frame, over both directions.
    pub number: u64,
    /// Operation.
    pub operation: Operation,
    /// Position in its message.
    pub position: Position,
    /// PSN.
    pub psn: u32,
    /// Bytes of payload.
    pub payload: usize,
    /// Whether it asks for an acknowledgement.
    pub ack_request: bool,
    /// What its AETH says.
    pub syndrome: Option<Syndrome>,
    /// What its RETH asks for.
    pub asks_for: Option<u32>,
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
        if let Some(len) = self.asks_for {
            write!(f, " of {len}")?;
        }
        Ok(())
    }
}

/// A decision about frames, by whoever wants to make it.
pub type Meddle = Box<dyn FnMut(&Sent) -> Fate>;

/// A frame on its way. Ordered by time of arrival, then by time of sending.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Flying {
    at: Instant,
    order: u64,
    to: usize,
    bytes: Vec<u8>,
}

/// The network between two hosts.
pub struct Net {
    random: Random,
    faults: Faults,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    sent: u64,
    /// Decides about each frame instead of chance.
    pub meddle: Option<Meddle>,
    /// Keeps what was sent, if it is there.
    pub log: Option<Vec<Sent>>,
}

impl Net {
    /// Makes a network whose chances come from `seed`.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            random: Random::new(seed),
            faults,
            flying: BinaryHeap::new(),
            order: 0,
            sent: 0,
            meddle: None,
            log: None,
        }
    }

    /// Sends a frame: everything from the BTH to the pad; the ICRC is added here.
    ///
    /// # Panics
    ///
    /// If the frame cannot be parsed: whatever is sent must be well-formed.
    pub fn send(&mut self, now: Instant, from: usize, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(&icrc(&bytes));
        let sent = self.look(now, from, &bytes);
        self.sent += 1;
        if let Some(log) = &mut self.log {
            log.push(sent);
        }
        let fate = match &mut self.meddle {
            Some(meddle) => meddle(&sent),
            None => self.chance(),
        };
        let mut at = now.saturating_add(self.faults.delay);
        match fate {
            Fate::Drop => return,
            Fate::Pass => {}
            Fate::Twice => self.launch(at, 1 - from, bytes.clone()),
            Fate::Damage => {
                // Not the byte that the ICRC does not cover.
                let bit = match self.random.below(8 * (bytes.len() - 1)) {
                    bit if bit >= 8 * 4 => bit + 8,
                    bit => bit,
                };
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Fate::Late(late) => at = at.saturating_add(late),
        }
        self.launch(at, 1 - from, bytes);
    }

    /// Returns when the next frame arrives.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse(frame)| frame.at)
    }

    /// Takes the next frame that has arrived by `now`, without its ICRC, and the host it is for.
    /// One that was damaged is swallowed: its ICRC is wrong.
    pub fn arrive(&mut self, now: Instant) -> Option<(usize, Vec<u8>)> {
        while self.next_arrival().is_some_and(|at| !at.is_after(now)) {
            let Reverse(Flying { to, bytes, .. }) = self.flying.pop()?;
            let (frame, check) = bytes.split_at(bytes.len() - 4);
            if icrc(frame) == check {
                return Some((to, frame.to_vec()));
            }
        }
        None
    }

    fn chance(&mut self) -> Fate {
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

    fn launch(&mut self, at: Instant, to: usize, bytes: Vec<u8>) {
        let order = self.order;
        self.order += 1;
        let frame = Flying {
            at,
            order,
            to,
            bytes,
        };
        self.flying.push(Reverse(frame));
    }

    fn look(&self, at: Instant, from: usize, bytes: &[u8]) -> Sent {
        let packet = Packet::parse(bytes, bytes.len()).expect("what is sent can be parsed");
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
            asks_for: packet.reth().map(|reth| reth.len),
        }
    }
}

/// Returns the ICRC of a frame, as between two addresses that are always the same.
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
