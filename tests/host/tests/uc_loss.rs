// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections over a network that loses, repeats, reorders and damages: each message is
//! delivered whole, in order, or not at all, and none is harmed by what became of another.

use roce::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    host::MessageHost,
    id::{
        Pkey,
        Qpn, //
    },
    num::u32_as_usize,
    psn::Psn,
    segment::{
        BurstLimit,
        Mtu,
        Payload,
        SlotIndex, //
    },
    status::WcStatus,
    time::{
        Duration,
        Instant, //
    },
    uc::{
        receiver::{
            Receiver,
            ReceiverConfig, //
        },
        sender::{
            Sender,
            SenderConfig, //
        }, //
    },
    wire::packet::Packet,
    wr::{
        BadRecv,
        Completion,
        Imm,
        RecvWr,
        Remote,
        SendOp,
        SendWr, //
    },
};
use roce_tests::{
    memory::Memory,
    net::{
        Fate,
        Faults,
        Net, //
    },
    random::Random,
};
use std::collections::VecDeque;

/// Number of connections that are tried.
const SEEDS: u64 = 2_000;

/// Messages of each connection; the last [`CALM`] find a network without faults.
const MESSAGES: usize = 60;
const CALM: usize = 10;

/// The longest message.
const LONGEST: usize = 3_000;

/// What a message is, by its number.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    /// As a WRITE, to a place of its own; otherwise as a SEND.
    write: bool,
}

/// The receiving end.
struct Host<'a> {
    frame: &'a [u8],
    memory: &'a mut Memory,
    receives: &'a mut VecDeque<u64>,
    current: &'a mut Option<u64>,
    done: &'a mut Vec<Completion>,
}

impl Host<'_> {
    fn payload(&self, payload: Payload) -> Vec<u8> {
        let start = u32_as_usize(payload.offset);
        self.frame[start..start + u32_as_usize(payload.len)].to_vec()
    }
}

impl MessageHost for Host<'_> {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let va = self.receives.pop_front()?;
        *self.current = Some(va);
        Some(Ok(RecvWr {
            wr_id: va,
            length: LONGEST as u32,
        }))
    }

    fn place_receive(&mut self, offset: u32, payload: Payload) -> Result<(), Obstacle<WcStatus>> {
        let va = self.current.expect("a receive was taken");
        let bytes = self.payload(payload);
        assert!(u32_as_usize(offset) + bytes.len() <= LONGEST);
        self.memory.put(va + u64::from(offset), &bytes);
        Ok(())
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        Ok(self.memory.check(remote, length, access)?)
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: Payload,
    ) -> Result<(), Obstacle<AccessError>> {
        self.memory
            .check(remote, payload.len, Access::REMOTE_WRITE)?;
        let bytes = self.payload(payload);
        self.memory.put(remote.va, &bytes);
        Ok(())
    }

    fn complete_receive(&mut self, completion: Completion, _solicited: bool) {
        assert_eq!(completion.status, WcStatus::Success);
        self.done.push(completion);
    }
}

/// One connection.
struct Connection {
    net: Net,
    now: Instant,
    mtu: Mtu,
    sender: Sender,
    receiver: Receiver,
    memory: Memory,
    receives: VecDeque<u64>,
    current: Option<u64>,
    done: Vec<Completion>,
}

impl Connection {
    fn new(random: &mut Random, net: Net) -> Self {
        let mtu = Mtu::ALL[random.below(3)];
        let psn = Psn::new(random.bits() as u32);
        let mut sender = Sender::new();
        sender.configure(&SenderConfig {
            dest_qpn: Qpn::new(0x12),
            pkey: Pkey::DEFAULT,
            first_psn: psn,
            path_mtu: mtu,
        });
        sender.start();
        let mut receiver = Receiver::new();
        receiver.configure(&ReceiverConfig {
            expected_psn: psn,
            path_mtu: mtu,
            access: Access::REMOTE_WRITE,
        });
        receiver.start();
        Self {
            net,
            now: Instant::from_nanos(0),
            mtu,
            sender,
            receiver,
            memory: Memory::new(1 << 40),
            receives: VecDeque::new(),
            current: None,
            done: Vec::new(),
        }
    }

    /// Sends a message, in bursts of a few packets.
    fn send(&mut self, wr: SendWr, bytes: &[u8], random: &mut Random) {
        self.sender.post(SlotIndex(0), wr);
        loop {
            let mut limit = BurstLimit {
                bytes: u32::MAX,
                packets: 1 + random.below(5) as u32,
            };
            for segment in self.sender.burst(&mut limit) {
                let len = u32_as_usize(segment.length);
                let mut frame = segment.headers.emit(len).as_slice().to_vec();
                let start = u32_as_usize(segment.offset);
                frame.extend_from_slice(&bytes[start..start + len]);
                frame.resize(frame.len() + len.wrapping_neg() % 4, 0);
                self.net.send(self.now, 0, frame);
            }
            self.now = self.now.saturating_add(Duration::from_nanos(1_000));
            self.deliver();
            if let Some(done) = self.sender.poll_completion() {
                assert_eq!(done.expect("signaled").status, WcStatus::Success);
                return;
            }
        }
    }

    /// Delivers what has arrived.
    fn deliver(&mut self) {
        while let Some((to, frame)) = self.net.arrive(self.now) {
            assert_eq!(to, 1);
            let mut host = Host {
                frame: &frame,
                memory: &mut self.memory,
                receives: &mut self.receives,
                current: &mut self.current,
                done: &mut self.done,
            };
            let packet = Packet::parse(&frame, frame.len() + 4).expect("what was sent");
            let _ = self.receiver.handle(&packet, &mut host);
            assert!(!self.receiver.take_failure());
        }
    }

    /// Lets everything arrive that is on its way.
    fn settle(&mut self) {
        while let Some(at) = self.net.next_arrival() {
            self.now = at;
            self.deliver();
        }
    }
}

/// Runs the connection of a seed. Returns how many of the messages that met faults were delivered.
fn run(seed: u64, faults: Faults) -> usize {
    let mut random = Random::new(seed);
    let net = Net::new(random.bits(), faults);
    run_over(seed, random, net)
}

/// Runs the connection of a seed over `net`.
fn run_over(seed: u64, mut random: Random, net: Net) -> usize {
    let mut connection = Connection::new(&mut random, net);
    let messages: Vec<_> = (0..MESSAGES)
        .map(|_| {
            let most = [1, 300, LONGEST][random.below(3)];
            let bytes = (0..random.below(most + 1)).map(|_| random.byte()).collect();
            let write = random.below(2) == 0;
            Message { bytes, write }
        })
        .collect();
    let places: Vec<_> = messages
        .iter()
        .map(|_| {
            let va = connection.memory.alloc(LONGEST);
            connection.receives.push_back(va);
            let target = connection.memory.alloc(LONGEST);
            let access = Access::REMOTE_WRITE;
            let rkey = connection.memory.register(target, LONGEST, access);
            Remote { va: target, rkey }
        })
        .collect();
    for (number, message) in messages.iter().enumerate() {
        if number == MESSAGES - CALM {
            connection.settle();
            connection.net = Net::new(0, Faults::default());
        }
        let imm = Some(Imm((number as u32).to_be_bytes()));
        let remote = places[number];
        let op = match message.write {
            true => SendOp::Write { remote, imm },
            false => SendOp::Send { imm },
        };
        let wr = SendWr {
            wr_id: number as u64,
            op,
            length: message.bytes.len() as u32,
            signaled: true,
            solicited: false,
            fence: false,
        };
        connection.send(wr, &message.bytes, &mut random);
    }
    connection.settle();
    check(seed, &connection, &messages, &places)
}

/// Checks what was delivered.
fn check(seed: u64, connection: &Connection, messages: &[Message], places: &[Remote]) -> usize {
    let numbers: Vec<_> = connection
        .done
        .iter()
        .map(|done| u32::from_be_bytes(done.imm.expect("each has a number").0) as usize)
        .collect();
    let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(in_order, "seed {seed}: in order, none twice: {numbers:?}");
    let calm: Vec<_> = (MESSAGES - CALM..MESSAGES).collect();
    assert!(
        numbers.ends_with(&calm),
        "seed {seed}: everything that met no fault: {numbers:?}"
    );
    for (index, (done, &number)) in connection.done.iter().zip(&numbers).enumerate() {
        let message = &messages[number];
        let len = message.bytes.len();
        assert_eq!(u32_as_usize(done.byte_len), len, "seed {seed}");
        let va = match message.write {
            true => places[number].va,
            false => done.wr_id,
        };
        assert_eq!(
            connection.memory.get(va, len),
            message.bytes,
            "seed {seed}: message {number}, {index} to be delivered, mtu {:?}",
            connection.mtu
        );
    }
    numbers.len() - CALM
}

#[test]
fn what_is_delivered_is_whole_and_in_order() {
    let everything = MESSAGES - CALM;
    let mut delivered = 0;
    for seed in 0..SEEDS {
        let mut random = Random::new(!seed);
        let faults = Faults {
            loss: random.below(60),
            duplication: random.below(60),
            corruption: random.below(30),
            reordering: random.below(60),
            delay: Duration::from_nanos(500),
            jitter: Duration::from_nanos(random.below(20_000) as u64 + 1),
        };
        delivered += run(seed, faults);
    }
    // Both, and more than now and then.
    let all = everything * SEEDS as usize;
    assert!(
        delivered > all / 2 && delivered < all * 95 / 100,
        "{delivered} of {all}"
    );
}

#[test]
fn duplicates_alone_cost_nothing() {
    for seed in 0..SEEDS / 10 {
        let faults = Faults {
            duplication: 300,
            delay: Duration::from_nanos(500),
            ..Faults::default()
        };
        assert_eq!(run(seed, faults), MESSAGES - CALM, "seed {seed}");
    }
}

#[test]
fn a_loss_costs_the_message_it_happens_to_and_no_other() {
    for seed in 0..SEEDS / 10 {
        let target = Random::new(!seed).below(MESSAGES - CALM) as u64;
        let lost = run_losing(seed, target);
        assert_eq!(lost, 1, "seed {seed}: messages for one frame");
    }
}

/// Runs the connection of a seed over a network that loses the frame with this number. Returns how many
/// messages were lost.
fn run_losing(seed: u64, target: u64) -> usize {
    let mut random = Random::new(seed);
    let mut net = Net::new(random.bits(), Faults::default());
    net.meddle = Some(Box::new(move |sent| match sent.number == target {
        true => Fate::Drop,
        false => Fate::Pass,
    }));
    MESSAGES - CALM - run_over(seed, random, net)
}
