// SPDX-License-Identifier: GPL-2.0

//! Tests of the UC receiver: packets in order, lost, late and invalid.

extern crate std;

use super::*;
use crate::{
    access::AccessError,
    segmentation::tx_desc::RxPayload,
    status::WcStatus,
    uc::testing::{
        Pkt,
        IMM,
        REMOTE, //
    },
    wire::opcode::Position,
    wr::{
        BadRecv,
        RecvWr,
        Remote,
        WcOpcode, //
    }, //
};
use std::{
    collections::VecDeque,
    vec::Vec, //
};
use Position::{
    First,
    Last,
    Middle,
    Only, //
};

/// A context that records the calls.
#[derive(Default)]
struct TestContext {
    receives: VecDeque<Result<RecvWr, BadRecv>>,
    /// Offset and length of each copy to the receive in progress.
    placed: Vec<(u32, u32)>,
    /// Address and length of each copy to remote-accessible memory.
    written: Vec<(u64, u32)>,
    /// Length of each WRITE that is complete.
    whole_writes: Vec<u32>,
    completions: Vec<(Completion, bool)>,
    /// All copies fail.
    copies_fail: bool,
    /// No key grants write access.
    access_denied: bool,
    /// No memory is present.
    absent: bool,
}

impl RecvContext for TestContext {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        self.receives.pop_front()
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        if self.absent {
            return Err(Obstacle::Absent);
        }
        if self.copies_fail {
            return Err(WcStatus::LocProtErr.into());
        }
        self.placed.push((offset, payload.len));
        Ok(())
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_eq!((remote, access), (REMOTE, Access::REMOTE_WRITE));
        assert_ne!(length, 0);
        match self.access_denied {
            true => Err(AccessError::Key.into()),
            false => Ok(()),
        }
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        _left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        if self.absent {
            return Err(Obstacle::Absent);
        }
        if self.copies_fail {
            return Err(AccessError::Key.into());
        }
        self.written.push((remote.va, payload.len));
        Ok(())
    }

    fn on_written(&mut self, length: u32) {
        self.whole_writes.push(length);
    }

    fn complete_receive(&mut self, completion: Completion, solicited: bool) {
        self.completions.push((completion, solicited));
    }
}

/// A receiver in RTR and its context.
struct Test {
    receiver: UcReceiver,
    context: TestContext,
}

impl Test {
    /// The path MTU is 256, the expected PSN 100. `receives` receives of 600 bytes are posted, with
    /// `wr_id` from 1.
    fn new(receives: u64) -> Self {
        let mut receiver = UcReceiver::new();
        receiver.configure(&ReceiverConfig {
            expected_psn: Psn::new(100),
            path_mtu: Mtu::Mtu256,
            access: Access::REMOTE_WRITE,
        });
        receiver.start();
        let mut context = TestContext::default();
        let wr = |wr_id| RecvWr { wr_id, length: 600 };
        context.receives.extend((1..=receives).map(|id| Ok(wr(id))));
        Self { receiver, context }
    }

    fn handle(&mut self, pkt: Pkt) -> Result<Taken, DropReason> {
        let bytes = pkt.bytes();
        let packet = Packet::parse(&bytes, bytes.len()).unwrap();
        self.receiver.handle_request(&packet, &mut self.context)
    }

    /// Handles packets that must succeed.
    fn handle_all<const N: usize>(&mut self, pkts: [Pkt; N]) {
        for pkt in pkts {
            assert_eq!(self.handle(pkt), Ok(Taken::Whole), "{pkt:?}");
        }
    }

    /// Returns `wr_id` and length of each message received since the last call.
    fn received(&mut self) -> Vec<(u64, u32)> {
        assert_eq!(
            self.receiver.take_receives() as usize,
            self.context.completions.len()
        );
        let completions = self.context.completions.drain(..);
        completions
            .map(|(done, _)| {
                assert_eq!(done.status, WcStatus::Success);
                (done.wr_id, done.byte_len)
            })
            .collect()
    }
}

#[test]
fn a_message_is_reassembled() {
    let mut test = Test::new(1);
    test.handle_all([
        Pkt::send(First, 100, 256),
        Pkt::send(Middle, 101, 256),
        Pkt::send(Last, 102, 8).with_imm().solicited(),
    ]);
    assert_eq!(test.context.placed, [(0, 256), (256, 256), (512, 8)]);
    let (done, solicited) = test.context.completions[0];
    assert_eq!((done.wr_id, done.byte_len), (1, 520));
    assert_eq!((done.imm, done.opcode), (Some(IMM), WcOpcode::Recv));
    assert!(solicited && !test.receiver.take_failure());
}

#[test]
fn a_write_uses_a_receive_only_with_immediate_data() {
    let mut test = Test::new(1);
    test.handle_all([
        Pkt::write(First, 100, 256, 300),
        Pkt::write(Last, 101, 44, 0),
        Pkt::write(Only, 102, 0, 0),
        Pkt::write(Only, 103, 5, 5).with_imm(),
    ]);
    let va = REMOTE.va;
    assert_eq!(test.context.written, [(va, 256), (va + 256, 44), (va, 5)]);
    assert_eq!(test.context.whole_writes, [300, 0, 5]);
    assert_eq!(
        test.context.completions[0].0.opcode,
        WcOpcode::RecvRdmaWithImm,
        "{:?}",
        test.context.completions
    );
    assert_eq!(test.received(), [(1, 5)]);
}

#[test]
fn a_lost_packet_loses_only_its_message() {
    // SEND and WRITE, with each packet lost once.
    let messages: [fn(Position, u32, usize) -> Pkt; 2] = [Pkt::send, |position, psn, len| {
        Pkt::write(position, psn, len, 600)
    }];
    for message in messages {
        let parts = [
            message(First, 100, 256),
            message(Middle, 101, 256),
            message(Last, 102, 88),
        ];
        for lost in 0..parts.len() {
            let mut test = Test::new(1);
            for (index, part) in parts.into_iter().enumerate() {
                if index != lost {
                    let expected = match index < lost {
                        true => Ok(Taken::Whole),
                        false => Err(DropReason::BadSequence),
                    };
                    assert_eq!(test.handle(part), expected, "{part:?} after {lost}");
                }
            }
            assert_eq!(test.received(), []);
            test.handle_all([Pkt::send(Only, 103, 10)]);
            assert_eq!(test.received(), [(1, 10)], "the receive was kept");
            test.handle_all([Pkt::write(Only, 104, 10, 10)]);
        }
    }
}

#[test]
fn an_unfinished_message_is_discarded_when_the_next_one_starts() {
    let mut test = Test::new(2);
    test.handle_all([
        Pkt::send(First, 100, 256),
        Pkt::send(Only, 101, 7),
        Pkt::write(First, 102, 256, 300),
        Pkt::send(Only, 103, 8),
    ]);
    assert_eq!(test.received(), [(1, 7), (2, 8)]);
}

#[test]
fn late_and_duplicate_packets_are_dropped() {
    let mut test = Test::new(3);
    test.handle_all([Pkt::send(Only, 100, 1), Pkt::send(First, 101, 256)]);
    for psn in [100, 101, 0xff_ffff] {
        let duplicate = Pkt::send(Only, psn, 1);
        assert_eq!(test.handle(duplicate), Err(DropReason::BadSequence));
    }
    test.handle_all([Pkt::send(Last, 102, 1)]);
    assert_eq!(test.received(), [(1, 1), (2, 257)]);
}

#[test]
fn the_next_message_is_received_after_any_number_of_lost_packets() {
    for lost in [
        1,
        MAX_LATE_PACKETS,
        1 << 23,
        (1 << 24) - MAX_LATE_PACKETS - 1,
    ] {
        let mut test = Test::new(1);
        test.handle_all([Pkt::send(Only, (100 + lost) & 0xff_ffff, 1)]);
        assert_eq!(test.received(), [(1, 1)], "{lost}");
    }
}

#[test]
fn a_packet_that_does_not_continue_the_message_is_dropped() {
    let mut test = Test::new(1);
    test.handle_all([Pkt::send(First, 100, 256)]);
    let other = Pkt::write(Middle, 101, 256, 0);
    assert_eq!(test.handle(other), Err(DropReason::BadSequence));
    let rest = Pkt::send(Last, 102, 1);
    assert_eq!(test.handle(rest), Err(DropReason::BadSequence));
    let invalid = Pkt::send(Last, 103, 0);
    assert_eq!(
        test.handle(invalid),
        Err(DropReason::BadSequence),
        "the length is checked later"
    );
}

#[test]
fn a_packet_of_invalid_length_loses_the_message() {
    for pkt in [
        Pkt::send(First, 100, 255),
        Pkt::send(Only, 100, 257),
        Pkt::write(Only, 100, 5, 6),
        Pkt::write(Only, 100, 6, 5),
        Pkt::write(First, 100, 256, 256),
    ] {
        let mut test = Test::new(1);
        assert_eq!(test.handle(pkt), Err(DropReason::BadLength), "{pkt:?}");
        test.handle_all([Pkt::send(Only, 101, 1)]);
    }
    let mut test = Test::new(1);
    test.handle_all([Pkt::send(First, 100, 256)]);
    let empty = Pkt::send(Last, 101, 0);
    assert_eq!(test.handle(empty), Err(DropReason::BadLength));
}

#[test]
fn a_message_too_long_for_the_receive_is_lost_and_the_receive_is_kept() {
    let mut test = Test::new(1);
    test.handle_all([Pkt::send(First, 100, 256), Pkt::send(Middle, 101, 256)]);
    let long = Pkt::send(Last, 102, 89);
    assert_eq!(test.handle(long), Err(DropReason::BadLength));
    test.handle_all([Pkt::send(Only, 103, 9)]);
    assert_eq!(test.received(), [(1, 9)]);
}

#[test]
fn without_a_receive_the_message_is_lost() {
    let mut test = Test::new(0);
    for pkt in [
        Pkt::send(Only, 100, 1),
        Pkt::write(Only, 101, 1, 1).with_imm(),
    ] {
        assert_eq!(test.handle(pkt), Err(DropReason::NoReceiveBuffer));
    }
    assert!(test.context.written.is_empty() && test.context.whole_writes.is_empty());
    let first = Pkt::send(First, 102, 256);
    assert_eq!(test.handle(first), Err(DropReason::NoReceiveBuffer));
    let wr = RecvWr {
        wr_id: 1,
        length: 600,
    };
    test.context.receives.push_back(Ok(wr));
    let rest = Pkt::send(Last, 103, 1);
    assert_eq!(test.handle(rest), Err(DropReason::BadSequence));
    test.handle_all([Pkt::send(Only, 104, 1)]);
}

#[test]
fn memory_is_written_only_if_access_is_granted() {
    let mut test = Test::new(1);
    test.context.access_denied = true;
    let denied = Pkt::write(First, 100, 256, 300);
    assert_eq!(test.handle(denied), Err(DropReason::AccessDenied));
    let rest = Pkt::write(Last, 101, 44, 0);
    assert_eq!(test.handle(rest), Err(DropReason::BadSequence));
    test.context.access_denied = false;
    test.receiver.set_access(Access::NONE);
    let denied = Pkt::write(Only, 102, 1, 1);
    assert_eq!(test.handle(denied), Err(DropReason::AccessDenied));
    test.receiver.set_access(Access::REMOTE_WRITE);
    test.handle_all([Pkt::write(First, 103, 256, 600)]);
    test.receiver.set_access(Access::NONE);
    let denied = Pkt::write(Middle, 104, 256, 0);
    assert_eq!(test.handle(denied), Err(DropReason::AccessDenied));
    test.receiver.set_access(Access::REMOTE_WRITE);
    let rest = Pkt::write(Last, 105, 88, 0);
    assert_eq!(test.handle(rest), Err(DropReason::BadSequence));
    test.context.copies_fail = true;
    let failed_copy = Pkt::write(Only, 106, 1, 1).with_imm();
    assert_eq!(test.handle(failed_copy), Err(DropReason::AccessDenied));
    test.context.copies_fail = false;
    test.handle_all([Pkt::send(Only, 107, 1)]);
    assert_eq!(test.received(), [(1, 1)], "no receive was consumed");
}

#[test]
fn a_failed_receive_moves_the_receiver_to_error() {
    let mut test = Test::new(1);
    test.context.copies_fail = true;
    test.handle_all([Pkt::send(Only, 100, 1)]);
    let (done, _) = test.context.completions[0];
    assert_eq!((done.wr_id, done.status), (1, WcStatus::LocProtErr));
    assert!(test.receiver.take_failure() && !test.receiver.take_failure());
    let next = Pkt::send(Only, 101, 1);
    assert_eq!(test.handle(next), Err(DropReason::WrongQpState));
    assert_eq!(test.receiver.flush_receive(), None);

    let mut test = Test::new(0);
    let bad = BadRecv {
        wr_id: 9,
        status: WcStatus::LocQpOpErr,
    };
    test.context.receives.push_back(Err(bad));
    assert!(test.handle(Pkt::send(Only, 100, 1)).is_err());
    let (done, _) = test.context.completions[0];
    assert_eq!((done.wr_id, done.status), (9, WcStatus::LocQpOpErr));
    assert!(test.receiver.take_failure());
}

#[test]
fn the_receive_in_progress_is_flushed_once() {
    let mut test = Test::new(1);
    test.handle_all([Pkt::send(First, 100, 256)]);
    test.receiver.fail();
    let done = test.receiver.flush_receive().unwrap();
    assert_eq!((done.wr_id, done.status), (1, WcStatus::WrFlushErr));
    assert_eq!(test.receiver.flush_receive(), None);
}

#[test]
fn packets_are_dropped_before_rtr_and_of_another_service() {
    let mut test = Test::new(1);
    test.receiver.reset();
    let early = Pkt::send(Only, 100, 1);
    assert_eq!(test.handle(early), Err(DropReason::WrongQpState));
    test.receiver.start();
    let mut bytes = early.bytes();
    bytes[0] &= 0x1f;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    let outcome = test.receiver.handle_request(&packet, &mut test.context);
    assert_eq!(outcome, Err(DropReason::WrongService));
}

#[test]
fn a_packet_is_paused_while_memory_is_absent() {
    for pkts in [
        [Pkt::send(First, 100, 256), Pkt::send(Last, 101, 44)],
        [
            Pkt::write(First, 100, 256, 300),
            Pkt::write(Last, 101, 44, 0).with_imm(),
        ],
    ] {
        let mut test = Test::new(1);
        for pkt in pkts {
            test.context.absent = true;
            let before = test.receiver.expected_psn();
            assert_eq!(test.handle(pkt), Ok(Taken::Paused));
            assert_eq!(test.receiver.expected_psn(), before);
            test.context.absent = false;
            test.handle_all([pkt]);
        }
        assert_eq!(test.received(), [(1, 300)]);
    }
}
