// SPDX-License-Identifier: GPL-2.0

//! One script, and everything that can happen to one frame of it, or to two: all of it, not a
//! sample. Nothing may be lost or done twice, and no time be wasted.

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
    },
};

/// What can happen to a frame.
const FATES: [Fate; 4] = [
    Fate::Drop,
    Fate::Damage,
    Fate::Twice,
    Fate::Late(Duration::from_micros(40)),
];

/// The script after it has run.
struct Outcome {
    pair: Pair,
    frames: u64,
}

/// Runs the script, with `meddle` deciding about each frame, and checks what became of it.
fn run(meddle: impl FnMut(&Sent) -> Fate + 'static) -> Outcome {
    let mut pair = Pair::new(Setup {
        mtu: Mtu::Mtu256,
        first_psn: 0xff_fffc,
        max_rd_atomic: 2,
        max_dest_rd_atomic: 2,
        ..Setup::default()
    });
    pair.net.meddle = Some(Box::new(meddle));
    pair.record();
    let shared = pattern(1, 2000);
    let va = pair.ends[B].memory.store(&shared);
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let rkey = pair.ends[B].memory.register(va, 2000, access);
    let at = |offset| remote(va + offset, rkey);

    let (_, first) = pair.receive(B, 600);
    pair.send(A, &pattern(2, 600), None);
    pair.write(A, at(0), &pattern(3, 500), None);
    let (_, read) = pair.read(A, at(0), 700);
    pair.write(A, at(1000), &pattern(4, 300), Some(Imm([4; 4])));
    let (_, empty) = pair.read(A, at(1500), 0);
    let (_, last) = pair.read(A, at(1000), 400);
    pair.send(A, &[], Some(Imm([5; 4])));
    // One receive comes too late.
    pair.receive(B, 0);
    pair.drive_until(pair.now.saturating_add(Duration::from_micros(100)));
    pair.receive(B, 0);
    pair.drive(10_000);

    let a = &pair.ends[A];
    assert_eq!(a.sent.len(), 7, "{:?}", a.sent);
    assert!(a.sent.iter().all(|c| c.status == WcStatus::Success));
    assert!(a.sent.windows(2).all(|pair| pair[0].wr_id < pair[1].wr_id));
    let received: Vec<_> = pair.ends[B].received.iter().map(|(c, _)| c.imm).collect();
    assert_eq!(received, [None, Some(Imm([4; 4])), Some(Imm([5; 4]))]);
    let mut expected = shared;
    expected[..500].copy_from_slice(&pattern(3, 500));
    expected[1000..1300].copy_from_slice(&pattern(4, 300));
    let memory = &pair.ends[B].memory;
    assert!(memory.get(va, 2000) == expected);
    assert!(memory.get(first, 600) == pattern(2, 600));
    let memory = &pair.ends[A].memory;
    assert!(memory.get(read, 700) == &expected[..700]);
    assert!(memory.get(last, 400) == &expected[1000..1400]);
    assert_eq!(memory.get(empty, 0), []);
    let frames = pair.net.log.as_ref().map_or(0, Vec::len) as u64;
    Outcome { pair, frames }
}

#[test]
fn one_frame_of_any_kind_may_suffer_anything() {
    let frames = run(|_| Fate::Pass).frames;
    assert!(frames > 20);
    for number in 0..frames {
        for fate in FATES {
            run(move |sent| match sent.number == number {
                true => fate,
                false => Fate::Pass,
            });
        }
    }
}

#[test]
fn so_may_two() {
    let frames = run(|_| Fate::Pass).frames;
    for first in 0..frames {
        for second in first + 1..frames + 10 {
            for (one, two) in FATES
                .into_iter()
                .flat_map(|one| FATES.map(|two| (one, two)))
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
fn whatever_is_sent_may_be_lost_the_first_times() {
    for times in 1..=3 {
        let mut seen = Vec::new();
        run(move |sent| {
            let name = (sent.from, sent.operation, sent.psn, sent.syndrome);
            seen.push(name);
            match seen.iter().filter(|&&other| other == name).count() <= times {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
    }
}

#[test]
fn a_lost_request_is_sent_again_without_waiting_for_the_timeout() {
    let clean = run(|_| Fate::Pass);
    for number in 0..clean.frames {
        let mut outcome = run(move |sent| match sent.number == number {
            true => Fate::Drop,
            false => Fate::Pass,
        });
        let log = outcome.pair.net.log.take().unwrap();
        let lost = log[number as usize];
        let stats = outcome.pair.ends[lost.from].requester.take_stats();
        // Something sent later shows the loss of all but what comes last.
        let shows = |sent: &Sent| match lost.operation {
            Operation::ReadResponse | Operation::Acknowledge => sent.from == lost.from,
            _ => sent.from == lost.from && sent.psn != lost.psn,
        };
        let before_timeout = |sent: &&Sent| {
            let soon = lost.at.saturating_add(Duration::from_micros(900));
            sent.number > number && sent.at.is_before(soon)
        };
        let shown = log.iter().filter(before_timeout).any(shows);
        if shown && lost.from == A {
            assert_eq!(stats.timeouts, 0, "{lost:?} {stats:?}");
        }
    }
}
