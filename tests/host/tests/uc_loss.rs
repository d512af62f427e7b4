// SPDX-License-Identifier: GPL-2.0

//! Unreliable connections over a network that loses, repeats, reorders and damages: each message is
//! delivered whole, in order, or not at all, and none is harmed by what became of another.

use roce::{
    access::Access,
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
        LONGEST, //
    }, //
};

/// Number of connections that are tried.
const SEEDS: u64 = 2_000;

/// Messages of each connection; the last [`CALM`] find a network without faults.
const MESSAGES: usize = 60;
const CALM: usize = 10;

/// What a message is, by its number.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    /// As a WRITE, to a place of its own; otherwise as a SEND.
    write: bool,
}

/// Runs the connection of a seed. Returns how many of the messages that met faults were delivered.
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
        connection.send(wr, &message.bytes, || 1 + random.below(5) as u32);
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
