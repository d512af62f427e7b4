// SPDX-License-Identifier: GPL-2.0

//! A reorder buffer, item by item.

use super::*;

const WAIT: Duration = Duration::from_micros(100);

fn psn(value: u32) -> Psn {
    Psn::new(value)
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000 * micros)
}

/// An item of that many packets of 4 KiB.
fn packets(count: u32) -> EarlySize {
    EarlySize {
        packets: count,
        bytes: 4096 * count,
    }
}

/// Takes what is due when `expected` is the first packet that is missing.
fn take(buffer: &mut ReorderBuffer<u32>, expected: u32) -> Option<u32> {
    buffer.take(|psn| psn.is_after(Psn::new(expected)))
}

/// Returns a buffer with one packet of each PSN.
fn holding<const N: usize>(psns: [u32; N]) -> ReorderBuffer<u32> {
    let mut buffer = ReorderBuffer::new(WAIT);
    for value in psns {
        assert_eq!(buffer.admission(psn(value), packets(1)), Admission::Keep);
        buffer.keep(psn(value), packets(1), value);
    }
    buffer
}

#[test]
fn items_come_out_when_it_is_their_turn() {
    let mut buffer = holding([13, 11, 0xff_ffff]);
    assert_eq!(take(&mut buffer, 0xff_fffe), None);
    assert_eq!(
        take(&mut buffer, 0xff_ffff),
        Some(0xff_ffff),
        "PSNs wrap around"
    );
    assert_eq!(take(&mut buffer, 0), None);
    assert_eq!(take(&mut buffer, 11), Some(11));
    assert_eq!(take(&mut buffer, 11), None);
    assert_eq!(
        take(&mut buffer, 20),
        Some(13),
        "a retransmission came first"
    );
    assert!(buffer.is_empty());
}

#[test]
fn a_packet_is_kept_once() {
    let buffer = holding([11]);
    assert_eq!(buffer.admission(psn(11), packets(1)), Admission::Repeated);
    assert_eq!(buffer.admission(psn(12), packets(1)), Admission::Keep);
}

#[test]
fn the_buffer_is_full_by_packets_and_by_items() {
    let mut by_packets = holding([11]);
    let rest = MAX_EARLY_PACKETS - 1;
    assert_eq!(
        by_packets.admission(psn(20), packets(rest + 1)),
        Admission::Full
    );
    assert_eq!(
        by_packets.admission(psn(20), packets(rest)),
        Admission::Keep
    );
    by_packets.keep(psn(20), packets(rest), 20);
    assert_eq!(by_packets.admission(psn(99), packets(1)), Admission::Full);
    assert_eq!(take(&mut by_packets, 20), Some(11));
    assert_eq!(by_packets.admission(psn(99), packets(1)), Admission::Keep);

    let mut by_items = holding([]);
    for value in 0..REORDER_SLOTS as u32 {
        by_items.keep(psn(value), packets(0), value);
    }
    assert_eq!(by_items.admission(psn(99), packets(0)), Admission::Full);
}

#[test]
fn memory_limits_the_buffer() {
    // One packet is left of a large item.
    let large = EarlySize {
        packets: 1,
        bytes: MAX_EARLY_BYTES - 100,
    };
    let mut buffer = holding([]);
    assert_eq!(buffer.admission(psn(11), large), Admission::Keep);
    buffer.keep(psn(11), large, 11);
    assert_eq!(buffer.admission(psn(12), packets(1)), Admission::Full);
    assert_eq!(take(&mut buffer, 11), Some(11));
    assert_eq!(buffer.admission(psn(12), packets(1)), Admission::Keep);
}

#[test]
fn a_gap_is_reported_after_the_wait_and_nothing_is_kept_for_it() {
    let mut buffer = holding([12, 14]);
    assert_eq!(buffer.gap_wait(psn(11), at(5)), GapWait::Until(at(105)));
    assert_eq!(buffer.gap_wait(psn(11), at(104)), GapWait::Until(at(105)));
    // The next gap begins when the one before it is closed.
    assert_eq!(take(&mut buffer, 12), Some(12));
    assert_eq!(buffer.gap_wait(psn(13), at(105)), GapWait::Until(at(205)));
    assert_eq!(buffer.gap_wait(psn(13), at(205)), GapWait::Over);
    assert!(buffer.is_empty(), "the peer repeats it");
    assert_eq!(buffer.gap_wait(psn(13), at(900)), GapWait::Done);
}

#[test]
fn a_gap_without_later_packets_is_none() {
    let mut buffer = holding([12]);
    assert_eq!(buffer.gap_wait(psn(11), at(5)), GapWait::Until(at(105)));
    buffer.clear();
    assert_eq!(buffer.gap_wait(psn(11), at(200)), GapWait::Done);
    buffer.keep(psn(12), packets(1), 12);
    assert_eq!(buffer.gap_wait(psn(11), at(300)), GapWait::Until(at(400)));
}

#[test]
fn a_cleared_buffer_reports_the_same_gap_again() {
    let mut buffer = holding([12]);
    assert_eq!(buffer.gap_wait(psn(11), at(0)), GapWait::Until(at(100)));
    assert_eq!(buffer.gap_wait(psn(11), at(100)), GapWait::Over);
    buffer.keep(psn(12), packets(1), 12);
    assert_eq!(buffer.gap_wait(psn(11), at(200)), GapWait::Until(at(300)));
}
