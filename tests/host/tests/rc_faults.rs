// SPDX-License-Identifier: GPL-2.0

//! One fixed sequence of requests, with every fault of one frame, and of each pair of frames.
//! Nothing may be lost, executed twice or delayed unnecessarily.

use roce::{
    access::Access,
    segmentation::mtu::Mtu,
    status::WcStatus,
    time::Duration,
    wire::opcode::Operation,
    wr::Imm, //
};
use roce_tests::{
    net::{
        Fate,
        Sent, //
    },
    pair::{
        pattern,
        remote,
        Pair,
        Setup,
        A,
        B, //
    }, //
};

/// The faults of a frame.
const FAULTS: [Fate; 4] = [
    Fate::Drop,
    Fate::Damage,
    Fate::Twice,
    Fate::Late(Duration::from_micros(40)),
];

/// The sequence after its execution.
struct Outcome {
    pair: Pair,
    frames: u64,
}

/// Executes the sequence with the fates from `fault_hook`, and checks the results.
fn run(fault_hook: impl FnMut(&Sent) -> Fate + 'static) -> Outcome {
    let mut pair = Pair::new(Setup {
        mtu: Mtu::Mtu256,
        first_psn: 0xff_fffc,
        max_rd_atomic: 2,
        max_dest_rd_atomic: 2,
        ..Setup::default()
    });
    pair.net.fault_hook = Some(Box::new(fault_hook));
    pair.record();
    let shared = pattern(1, 2000);
    let va = pair.hosts[B].memory.store(&shared);
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let rkey = pair.hosts[B].memory.register(va, 2000, access);
    let at = |offset| remote(va + offset, rkey);

    let (_, first) = pair.receive(B, 600);
    pair.send(A, &pattern(2, 600), None);
    pair.write(A, at(0), &pattern(3, 500), None);
    let (_, read) = pair.read(A, at(0), 700);
    pair.write(A, at(1000), &pattern(4, 300), Some(Imm([4; 4])));
    let (_, empty) = pair.read(A, at(1500), 0);
    let (_, last) = pair.read(A, at(1000), 400);
    pair.send(A, &[], Some(Imm([5; 4])));
    // One receive is posted late.
    pair.receive(B, 0);
    pair.drive_until(pair.now.saturating_add(Duration::from_micros(100)));
    pair.receive(B, 0);
    pair.drive(10_000);

    let a = &pair.hosts[A];
    assert_eq!(a.sent.len(), 7, "{:?}", a.sent);
    assert!(a.sent.iter().all(|c| c.status == WcStatus::Success));
    assert!(a.sent.windows(2).all(|pair| pair[0].wr_id < pair[1].wr_id));
    let received: Vec<_> = pair.hosts[B].received.iter().map(|(c, _)| c.imm).collect();
    assert_eq!(received, [None, Some(Imm([4; 4])), Some(Imm([5; 4]))]);
    let mut expected = shared;
    expected[..500].copy_from_slice(&pattern(3, 500));
    expected[1000..1300].copy_from_slice(&pattern(4, 300));
    let memory = &pair.hosts[B].memory;
    assert!(memory.get(va, 2000) == expected);
    assert!(memory.get(first, 600) == pattern(2, 600));
    let memory = &pair.hosts[A].memory;
    assert!(memory.get(read, 700) == &expected[..700]);
    assert!(memory.get(last, 400) == &expected[1000..1400]);
    assert_eq!(memory.get(empty, 0), []);
    let frames = pair.net.log.as_ref().map_or(0, Vec::len) as u64;
    Outcome { pair, frames }
}

#[test]
fn any_fault_of_one_frame_is_recovered() {
    let frames = run(|_| Fate::Pass).frames;
    assert!(frames > 20);
    for number in 0..frames {
        for fate in FAULTS {
            run(move |sent| match sent.number == number {
                true => fate,
                false => Fate::Pass,
            });
        }
    }
}

#[test]
fn any_faults_of_two_frames_are_recovered() {
    let frames = run(|_| Fate::Pass).frames;
    for first in 0..frames {
        for second in first + 1..frames + 10 {
            for (one, two) in FAULTS
                .into_iter()
                .flat_map(|one| FAULTS.map(|two| (one, two)))
            {
                run(move |sent| match sent.number {
                    number if number == first => one,
                    number if number == second => two,
                    _ => Fate::Pass,
                });
            }
        }
    }
}

#[test]
fn the_first_transmissions_of_every_packet_may_be_lost() {
    for times in 1..=3 {
        let mut seen = Vec::new();
        run(move |sent| {
            let id = (sent.from, sent.operation, sent.psn, sent.syndrome);
            seen.push(id);
            match seen.iter().filter(|&&other| other == id).count() <= times {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
    }
}

#[test]
fn a_lost_request_is_retransmitted_before_the_timeout() {
    let clean = run(|_| Fate::Pass);
    for number in 0..clean.frames {
        let mut outcome = run(move |sent| match sent.number == number {
            true => Fate::Drop,
            false => Fate::Pass,
        });
        let log = outcome.pair.net.log.take().unwrap();
        let lost = log[number as usize];
        let stats = outcome.pair.hosts[lost.from].requester.take_stats();
        // A later frame reveals the loss, except of the last frame.
        let reveals = |sent: &Sent| match lost.operation {
            Operation::ReadResponse | Operation::Acknowledge => sent.from == lost.from,
            _ => sent.from == lost.from && sent.psn != lost.psn,
        };
        let before_timeout = |sent: &&Sent| {
            let soon = lost.at.saturating_add(Duration::from_micros(900));
            sent.number > number && sent.at.is_before(soon)
        };
        let revealed = log.iter().filter(before_timeout).any(reveals);
        if revealed && lost.from == A {
            assert_eq!(stats.timeouts, 0, "{lost:?} {stats:?}");
        }
    }
}
