// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections over a network that drops, duplicates, reorders and corrupts frames: each
//! message is delivered completely and in order, or not at all, independent of other messages.

use roce::{
    access::Access,
    id::Srqn,
    num::u32_as_usize,
    psn::Psn,
    segmentation::mtu::Mtu,
    time::Duration,
    wr::{
        Imm,
        Remote,
        SendOp,
        SendWr, //
    }, //
};
use roce_tests::{
    net::{
        Fate,
        Faults,
        Net, //
    },
    random::Random,
    unreliable::{
        Connection,
        MAX_MESSAGE_LEN, //
    }, //
};

/// Number of connections.
const SEEDS: u64 = 2_000;

/// Messages of each connection. The last [`FAULT_FREE_MESSAGES`] are sent over a network without
/// faults.
const MESSAGES: usize = 60;
const FAULT_FREE_MESSAGES: usize = 10;

/// A message.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    /// RDMA WRITE to a separate buffer; otherwise SEND.
    write: bool,
}

/// Runs the connection of a seed. Returns the number of delivered messages that were sent with
/// faults.
fn run(seed: u64, faults: Faults) -> usize {
    let mut random = Random::new(seed);
    let net = Net::new(random.bits(), faults);
    run_over(seed, random, net)
}

/// Runs the connection of a seed over `net`.
fn run_over(seed: u64, mut random: Random, net: Net) -> usize {
    let mtu = Mtu::ALL[random.below(3)];
    let psn = Psn::new(random.bits() as u32);
    let mut connection = Connection::new(mtu, psn, net);
    let messages: Vec<_> = (0..MESSAGES)
        .map(|_| {
            let max = [1, 300, MAX_MESSAGE_LEN][random.below(3)];
            let bytes = (0..random.below(max + 1)).map(|_| random.byte()).collect();
            let write = random.below(2) == 0;
            Message { bytes, write }
        })
        .collect();
    let buffers: Vec<_> = messages
        .iter()
        .map(|_| {
            let va = connection.memory.alloc(MAX_MESSAGE_LEN);
            connection.receives.push_back(va);
            let target = connection.memory.alloc(MAX_MESSAGE_LEN);
            let access = Access::REMOTE_WRITE;
            let rkey = connection.memory.register(target, MAX_MESSAGE_LEN, access);
            Remote { va: target, rkey }
        })
        .collect();
    for (number, message) in messages.iter().enumerate() {
        if number == MESSAGES - FAULT_FREE_MESSAGES {
            connection.settle();
            connection.net = Net::new(0, Faults::default());
        }
        let imm = Some(Imm((number as u32).to_be_bytes()));
        let remote = buffers[number];
        let op = match message.write {
            true => SendOp::Write { remote, imm },
            false => SendOp::Send { imm },
        };
        let wr = SendWr {
            wr_id: number as u64,
            op,
            length: message.bytes.len() as u32,
            srqn: Srqn::default(),
            signaled: true,
            solicited: false,
            fence: false,
        };
        connection.send(wr, &message.bytes, || 1 + random.below(5) as u32);
    }
    connection.settle();
    check(seed, &connection, &messages, &buffers)
}

/// Checks the delivered messages.
fn check(seed: u64, connection: &Connection, messages: &[Message], buffers: &[Remote]) -> usize {
    let numbers: Vec<_> = connection
        .done
        .iter()
        .map(|done| u32::from_be_bytes(done.imm.expect("each has a number").0) as usize)
        .collect();
    let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(in_order, "seed {seed}: in order, none twice: {numbers:?}");
    let fault_free: Vec<_> = (MESSAGES - FAULT_FREE_MESSAGES..MESSAGES).collect();
    assert!(
        numbers.ends_with(&fault_free),
        "seed {seed}: all messages without faults: {numbers:?}"
    );
    for (index, (done, &number)) in connection.done.iter().zip(&numbers).enumerate() {
        let message = &messages[number];
        let len = message.bytes.len();
        assert_eq!(u32_as_usize(done.byte_len), len, "seed {seed}");
        let va = match message.write {
            true => buffers[number].va,
            false => done.wr_id,
        };
        assert_eq!(
            connection.memory.get(va, len),
            message.bytes,
            "seed {seed}: message {number}, delivered as number {index}, mtu {:?}",
            connection.mtu
        );
    }
    numbers.len() - FAULT_FREE_MESSAGES
}

#[test]
fn delivered_messages_are_complete_and_in_order() {
    let with_faults = MESSAGES - FAULT_FREE_MESSAGES;
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
    // Both results occur often.
    let all = with_faults * SEEDS as usize;
    assert!(
        delivered > all / 2 && delivered < all * 95 / 100,
        "{delivered} of {all}"
    );
}

#[test]
fn duplicates_lose_no_message() {
    for seed in 0..SEEDS / 10 {
        let faults = Faults {
            duplication: 300,
            delay: Duration::from_nanos(500),
            ..Faults::default()
        };
        assert_eq!(
            run(seed, faults),
            MESSAGES - FAULT_FREE_MESSAGES,
            "seed {seed}"
        );
    }
}

#[test]
fn a_lost_frame_loses_only_its_message() {
    for seed in 0..SEEDS / 10 {
        let target = Random::new(!seed).below(MESSAGES - FAULT_FREE_MESSAGES) as u64;
        let lost = run_losing(seed, target);
        assert_eq!(lost, 1, "seed {seed}: messages lost by one frame");
    }
}

/// Runs the connection of a seed over a network that drops frame number `target`. Returns the
/// number of lost messages.
fn run_losing(seed: u64, target: u64) -> usize {
    let mut random = Random::new(seed);
    let mut net = Net::new(random.bits(), Faults::default());
    net.fault_hook = Some(Box::new(move |sent| match sent.number == target {
        true => Fate::Drop,
        false => Fate::Pass,
    }));
    MESSAGES - FAULT_FREE_MESSAGES - run_over(seed, random, net)
}
