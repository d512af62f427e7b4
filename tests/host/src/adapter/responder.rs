// SPDX-License-Identifier: GPL-2.0

//! The receiving half of an adapter's QP.

use super::{
    frame,
    headers,
    CreditReport,
    Profile, //
};
use crate::memory::Memory;
use roce::{
    access::Access,
    id::Msn,
    psn::Psn,
    segmentation::mtu::Mtu,
    status::NakCode,
    time::{
        Duration,
        Instant, //
    },
    wire::{
        aeth::{
            credit_count,
            Aeth,
            Syndrome, //
        },
        ext::{
            AtomicAckEth,
            AtomicEth,
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
    wr::{
        AtomicOp,
        Remote, //
    }, //
};
use std::collections::VecDeque;

/// Packets that leave at a time.
const PACE: usize = 8;

/// Time between them.
const PACE_DELAY: Duration = Duration::from_micros(1);

/// Code of the RNR timer: 10 us.
const RNR_TIMER: u8 = 1;

/// A message in progress.
#[derive(Debug)]
enum Incoming {
    Send { bytes: Vec<u8>, room: usize },
    Write { next: Remote, left: u32 },
}

/// Something to send. The order never changes.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Read {
        psn: Psn,
        reth: Reth,
        msn: Msn,
        next: u32,
    },
    Atomic {
        psn: Psn,
        original: u64,
        msn: Msn,
    },
    Aeth {
        psn: Psn,
        aeth: Aeth,
    },
    Notification,
}

/// What the responder has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponderCounts {
    /// Sequence error NAKs.
    pub sequence_naks: u32,
    /// RNR NAKs.
    pub rnr_naks: u32,
    /// Messages that needed a receive and came behind one that got an RNR NAK, after credits were reported.
    pub beyond_probe: u32,
    /// Duplicate requests.
    pub duplicates: u32,
    /// READs executed again.
    pub repeated_reads: u32,
    /// Responses of a READ or atomic operation repeated for a duplicate of another operation.
    pub mistaken_duplicates: u32,
}

/// The receiving half of a QP.
pub struct AdapterResponder {
    profile: Profile,
    mtu: Mtu,
    expected: Psn,
    msn: Msn,
    incoming: Option<Incoming>,
    receives: VecDeque<usize>,
    answers: VecDeque<Answer>,
    /// The PSNs of the latest READs and atomic operations, with the results of the latter.
    executed: VecDeque<(Psn, u32, Option<u64>)>,
    /// A NAK was sent for the expected PSN.
    nak_sent: bool,
    /// That NAK was an RNR NAK.
    not_ready: bool,
    /// An ACK has reported credits.
    has_reported: bool,
    paused_until: Option<Instant>,
    /// The NAK after which the QP is in the error state.
    pub failed: Option<NakCode>,
    /// Messages received, in order: the payload of a SEND; nothing for a WRITE with immediate data.
    pub received: Vec<Vec<u8>>,
    /// What it has seen.
    pub counts: ResponderCounts,
}

impl AdapterResponder {
    pub(super) fn new(profile: Profile, mtu: Mtu, expected: Psn) -> Self {
        Self {
            profile,
            mtu,
            expected,
            msn: Msn::new(0),
            incoming: None,
            receives: VecDeque::new(),
            answers: VecDeque::new(),
            executed: VecDeque::new(),
            nak_sent: false,
            not_ready: false,
            has_reported: false,
            paused_until: None,
            failed: None,
            received: Vec::new(),
            counts: ResponderCounts::default(),
        }
    }

    /// Posts a receive of `len` bytes.
    pub fn post_receive(&mut self, len: usize) {
        self.receives.push_back(len);
        if self.profile.unsolicited_credits && self.has_reported && self.receives.len() == 1 {
            self.acknowledge();
        }
    }

    pub(super) fn on_request(&mut self, packet: &Packet<'_>, payload: &[u8], memory: &mut Memory) {
        if self.failed.is_some() {
            return;
        }
        match packet.psn().diff(self.expected) {
            0 => self.on_expected(packet, payload, memory),
            1.. => self.on_early(packet),
            _ => self.on_duplicate(packet),
        }
    }

    fn on_early(&mut self, packet: &Packet<'_>) {
        if self.not_ready && self.has_reported && needs_receive(packet) {
            self.counts.beyond_probe += 1;
        }
        if !self.nak_sent {
            self.nak_sent = true;
            self.counts.sequence_naks += 1;
            self.nak(Syndrome::Nak(NakCode::PsnSequence));
            if self.profile.notifies_with_nak {
                self.answers.push_back(Answer::Notification);
            }
        }
    }

    /// Keeps no data: executes a READ again from its RETH, and acknowledges a SEND or WRITE.
    fn on_duplicate(&mut self, packet: &Packet<'_>) {
        self.counts.duplicates += 1;
        let psn = packet.psn();
        let found = self
            .executed
            .iter()
            .find(|(first, packets, _)| psn.since(*first) < *packets)
            .copied();
        match (packet.opcode().operation(), packet.reth(), found) {
            (Operation::ReadRequest, Some(reth), Some((_, _, None))) => {
                self.counts.repeated_reads += 1;
                self.push_read(psn, reth);
            }
            (Operation::FetchAdd | Operation::CompareSwap, _, Some((_, _, Some(original)))) => {
                let msn = self.msn;
                self.answers
                    .push_back(Answer::Atomic { psn, original, msn });
            }
            (Operation::ReadRequest | Operation::FetchAdd | Operation::CompareSwap, ..) => {}
            (_, _, Some(_)) if self.profile.finds_duplicates_by_psn => {
                self.counts.mistaken_duplicates += 1;
            }
            _ if packet.ack_request() => self.acknowledge(),
            _ => {}
        }
    }

    fn on_expected(&mut self, packet: &Packet<'_>, payload: &[u8], memory: &mut Memory) {
        (self.nak_sent, self.not_ready) = (false, false);
        let outcome = match packet.opcode().operation() {
            Operation::Send => self.on_send(packet, payload),
            Operation::RdmaWrite => self.on_write(packet, payload, memory),
            Operation::ReadRequest => self.on_read(packet, memory),
            Operation::FetchAdd | Operation::CompareSwap => self.on_atomic(packet, memory),
            _ => Err(Syndrome::Nak(NakCode::InvalidRequest)),
        };
        match outcome {
            Ok(()) if packet.ack_request() && !packet_awaits_response(packet) => self.acknowledge(),
            Ok(()) => {}
            Err(Syndrome::Rnr { timer }) => {
                (self.nak_sent, self.not_ready) = (true, true);
                self.counts.rnr_naks += 1;
                self.nak(Syndrome::Rnr { timer });
            }
            Err(syndrome) => {
                if let Syndrome::Nak(code) = syndrome {
                    self.failed = Some(code);
                }
                self.nak(syndrome);
            }
        }
    }

    fn take_receive(&mut self) -> Result<usize, Syndrome> {
        let timer = RNR_TIMER;
        self.receives.pop_front().ok_or(Syndrome::Rnr { timer })
    }

    fn on_send(&mut self, packet: &Packet<'_>, payload: &[u8]) -> Result<(), Syndrome> {
        let invalid = Syndrome::Nak(NakCode::InvalidRequest);
        let (mut bytes, room) = match (self.incoming.take(), packet.opcode().starts_message()) {
            (None, true) => (Vec::new(), self.take_receive()?),
            (Some(Incoming::Send { bytes, room }), false) => (bytes, room),
            _ => return Err(invalid),
        };
        bytes.extend_from_slice(payload);
        if bytes.len() > room {
            return Err(invalid);
        }
        self.expected = self.expected.next();
        match packet.opcode().ends_message() {
            true => {
                self.received.push(bytes);
                self.msn = self.msn.next();
            }
            false => self.incoming = Some(Incoming::Send { bytes, room }),
        }
        Ok(())
    }

    fn on_write(
        &mut self,
        packet: &Packet<'_>,
        payload: &[u8],
        memory: &mut Memory,
    ) -> Result<(), Syndrome> {
        let (next, left) = match (&self.incoming, packet.reth()) {
            (None, Some(reth)) => (Remote::from(&reth), reth.len),
            (Some(Incoming::Write { next, left }), None) => (*next, *left),
            _ => return Err(Syndrome::Nak(NakCode::InvalidRequest)),
        };
        let len = payload.len() as u32;
        let granted = len == 0 || memory.check(next, left, Access::REMOTE_WRITE).is_ok();
        if len > left || !granted {
            return Err(Syndrome::Nak(NakCode::RemoteAccess));
        }
        if packet.imm().is_some() {
            self.take_receive()?;
            self.received.push(Vec::new());
        }
        if len != 0 {
            memory.write(next.va, payload);
        }
        self.expected = self.expected.next();
        self.incoming = match packet.opcode().ends_message() {
            true => {
                self.msn = self.msn.next();
                None
            }
            false => Some(Incoming::Write {
                next: next.advance(len),
                left: left - len,
            }),
        };
        Ok(())
    }

    fn on_read(&mut self, packet: &Packet<'_>, memory: &Memory) -> Result<(), Syndrome> {
        let reth = packet.reth().expect("a RETH");
        self.check_resources()?;
        let granted = memory.check(Remote::from(&reth), reth.len, Access::REMOTE_READ);
        if reth.len != 0 && granted.is_err() {
            return Err(Syndrome::Nak(NakCode::RemoteAccess));
        }
        self.msn = self.msn.next();
        let (psn, packets) = (self.expected, self.mtu.packets(reth.len));
        self.expected = psn.add(packets);
        self.remember(psn, packets, None);
        self.push_read(psn, reth);
        Ok(())
    }

    fn on_atomic(&mut self, packet: &Packet<'_>, memory: &mut Memory) -> Result<(), Syndrome> {
        let eth: AtomicEth = packet.atomic().expect("an AtomicETH");
        self.check_resources()?;
        let op = match packet.opcode().operation() {
            Operation::FetchAdd => AtomicOp::FetchAdd {
                add: eth.swap_or_add,
            },
            _ => AtomicOp::CompareSwap {
                compare: eth.compare,
                swap: eth.swap_or_add,
            },
        };
        let remote = Remote {
            va: eth.va,
            rkey: eth.rkey,
        };
        let original = memory.atomic(remote, op);
        let original = original.map_err(|_| Syndrome::Nak(NakCode::RemoteAccess))?;
        self.msn = self.msn.next();
        let (psn, msn) = (self.expected, self.msn);
        self.expected = psn.next();
        self.remember(psn, 1, Some(original));
        self.answers
            .push_back(Answer::Atomic { psn, original, msn });
        Ok(())
    }

    /// Refuses a READ or atomic operation if too many are waiting for their turn.
    fn check_resources(&self) -> Result<(), Syndrome> {
        let waiting = self
            .answers
            .iter()
            .filter(|answer| matches!(answer, Answer::Read { .. } | Answer::Atomic { .. }));
        match waiting.count() < self.profile.max_reads {
            true => Ok(()),
            false => Err(Syndrome::Nak(NakCode::InvalidRequest)),
        }
    }

    fn remember(&mut self, psn: Psn, packets: u32, original: Option<u64>) {
        self.executed.push_back((psn, packets, original));
        if self.executed.len() > self.profile.max_reads {
            self.executed.pop_front();
        }
    }

    fn push_read(&mut self, psn: Psn, reth: Reth) {
        let (msn, next) = (self.msn, 0);
        self.answers.push_back(Answer::Read {
            psn,
            reth,
            msn,
            next,
        });
    }

    /// Acknowledges all executed requests, with one packet if the last answer is an ACK too.
    fn acknowledge(&mut self) {
        if let Some(Answer::Aeth { aeth, .. }) = self.answers.back() {
            if matches!(aeth.syndrome, Syndrome::Ack { .. }) {
                self.answers.pop_back();
            }
        }
        let syndrome = self.ack_syndrome();
        self.push_aeth(self.expected.sub(1), syndrome);
    }

    /// Returns the syndrome of an ACK or response that is sent now.
    fn ack_syndrome(&mut self) -> Syndrome {
        let credits = match self.profile.credits {
            CreditReport::Uncounted => 0x1f,
            CreditReport::Fixed(code) => code,
            CreditReport::Counted => {
                self.has_reported = true;
                code_of(self.receives.len() as u32)
            }
        };
        Syndrome::Ack { credits }
    }

    fn nak(&mut self, syndrome: Syndrome) {
        self.push_aeth(self.expected, syndrome);
    }

    fn push_aeth(&mut self, psn: Psn, syndrome: Syndrome) {
        let msn = self.msn;
        let aeth = Aeth { syndrome, msn };
        self.answers.push_back(Answer::Aeth { psn, aeth });
    }

    pub(super) fn poll(&mut self, now: Instant, memory: &Memory) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while self.paused_until.is_none() && !self.answers.is_empty() {
            frames.push(self.next_frame(memory));
            if frames.len() == PACE {
                self.paused_until = Some(now.saturating_add(PACE_DELAY));
            }
        }
        frames
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.paused_until
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.paused_until.take_if(|until| !until.is_after(now));
    }

    /// Returns the first packet of the first answer, and removes it.
    fn next_frame(&mut self, memory: &Memory) -> Vec<u8> {
        let answer = self.answers.pop_front().expect("an answer");
        match answer {
            Answer::Notification => frame(&headers(Opcode::CNP, Psn::new(0)), &[]),
            Answer::Aeth { psn, aeth } => {
                frame(&headers(Opcode::RC_ACKNOWLEDGE, psn).aeth(aeth), &[])
            }
            Answer::Atomic { psn, original, msn } => {
                let syndrome = self.ack_syndrome();
                let headers = headers(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn)
                    .aeth(Aeth { syndrome, msn })
                    .original(AtomicAckEth { original });
                frame(&headers, &[])
            }
            Answer::Read {
                psn,
                reth,
                msn,
                next,
            } => {
                let packets = self.mtu.packets(reth.len);
                if next + 1 < packets {
                    self.answers.push_front(Answer::Read {
                        psn,
                        reth,
                        msn,
                        next: next + 1,
                    });
                }
                let position = match (next == 0, next + 1 == packets) {
                    (true, true) => Position::Only,
                    (true, false) => Position::First,
                    (false, false) => Position::Middle,
                    (false, true) => Position::Last,
                };
                let opcode = Opcode::of(Service::Rc, Operation::ReadResponse, position, false);
                let syndrome = self.ack_syndrome();
                let headers = headers(opcode.expect("a response"), psn.add(next))
                    .aeth(Aeth { syndrome, msn });
                let at = reth.va + u64::from(self.mtu.offset(next, reth.len));
                let len = self.mtu.payload(next, reth.len) as usize;
                match len {
                    0 => frame(&headers, &[]),
                    _ => frame(&headers, memory.get(at, len)),
                }
            }
        }
    }
}

/// Returns the code of the highest number of credits that is not above `receives`.
fn code_of(receives: u32) -> u8 {
    let fits = |code: &u8| credit_count(*code).is_some_and(|count| count <= receives);
    (0..31).rev().find(fits).unwrap_or(0)
}

fn needs_receive(packet: &Packet<'_>) -> bool {
    let starts_send =
        packet.opcode().operation() == Operation::Send && packet.opcode().starts_message();
    starts_send || packet.imm().is_some()
}

fn packet_awaits_response(packet: &Packet<'_>) -> bool {
    matches!(
        packet.opcode().operation(),
        Operation::ReadRequest | Operation::FetchAdd | Operation::CompareSwap
    )
}
