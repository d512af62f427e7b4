// SPDX-License-Identifier: GPL-2.0

//! Transfer time of one MiB by loss rate and window, compared with a reviewed table.
//!
//! The network has a delay of 10 us in each direction and unlimited bandwidth, so that the times
//! count round trips and timeouts. A protocol change that changes the table must give a reason.

use roce::{
    access::Access,
    rc::requester::FlowLimit,
    segmentation::mtu::Mtu,
    time::Duration, //
};
use roce_tests::{
    net::Faults,
    pair::{
        pattern,
        remote,
        Pair,
        Setup,
        A,
        B, //
    }, //
};
use std::fmt::Write as _;

/// Length of each message, and of all messages.
const MESSAGE_LEN: usize = 64 << 10;
const TOTAL_BYTES: usize = 1 << 20;

/// Returns the transfer time in microseconds.
fn transfer(read: bool, loss: usize, window: u32) -> u64 {
    let mut pair = Pair::new(Setup {
        mtu: Mtu::Mtu4096,
        ack_timeout: 9, // two milliseconds
        flow: FlowLimit {
            bytes: window,
            packets: u32::MAX,
        },
        faults: Faults {
            loss,
            delay: Duration::from_micros(10),
            ..Faults::default()
        },
        ..Setup::default()
    });
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let bytes = pattern(1, MESSAGE_LEN);
    let va = pair.hosts[B].memory.store(&bytes);
    let rkey = pair.hosts[B].memory.register(va, MESSAGE_LEN, access);
    let start = pair.now;
    for _ in 0..TOTAL_BYTES / MESSAGE_LEN {
        match read {
            true => pair.read(A, remote(va, rkey), MESSAGE_LEN).0,
            false => pair.write(A, remote(va, rkey), &bytes, None),
        };
    }
    pair.drive(1_000_000);
    assert_eq!(pair.hosts[A].sent.len(), TOTAL_BYTES / MESSAGE_LEN);
    assert_eq!(pair.hosts[A].requester.error(), None);
    pair.now.saturating_since(start).as_nanos() / 1_000
}

#[test]
fn the_times_match_the_reviewed_table() {
    let windows = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
    let mut table = String::from("us for 1 MiB, by lost frames in 1000 and by window\n");
    for (name, read) in [("write", false), ("read", true)] {
        write!(table, "{name:>6}").unwrap();
        for window in windows {
            write!(table, "{:>8} KiB", window >> 10).unwrap();
        }
        table.push('\n');
        for loss in [0, 1, 10, 50, 100] {
            write!(table, "{loss:>6}").unwrap();
            for window in windows {
                write!(table, "{:>12}", transfer(read, loss, window)).unwrap();
            }
            table.push('\n');
        }
    }
    assert!(
        table == include_str!("rc_netsim.txt"),
        "the table is now\n{table}"
    );
}
