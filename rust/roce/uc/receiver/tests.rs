// SPDX-License-Identifier: GPL-2.0

//! What the receiver of an unreliable connection makes of packets: in order, lost, late, or wrong.

extern crate std;

use super::*;
use crate::{
    access::AccessError,
    uc::testing::{
        Pkt,
        IMM,
        PLACE, //
    },
    wire::opcode::Position, //
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

/// A host that notes what it is asked for.
#[derive(Default)]
struct Host {
    receives: VecDeque<Result<RecvWr, BadRecv>>,
    /// Offset and length of what went into the receive in progress.
    placed: Vec<(u32, u32)>,
    /// Address and length of what was written.
    written: Vec<(u64, u32)>,
    done: Vec<(Completion, bool)>,
    /// Nothing can be placed.
    broken: bool,
    /// Nothing may be written.
    locked: bool,
    /// The memory of everything is absent.
    absent: bool,
}

impl RecvContext for Host {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        self.receives.pop_front()
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        if self.absent {
            return Err(Obstacle::Absent);
        }
        if self.broken {
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
        assert_eq!((remote, access), (PLACE, Access::REMOTE_WRITE));
        assert_ne!(length, 0);
        match self.locked {
            true => Err(AccessError::Key.into()),
            false => Ok(()),
        }
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        if self.absent {
            return Err(Obstacle::Absent);
        }
        if self.broken {
            return Err(AccessError::Key.into());
        }
        self.written.push((remote.va, payload.len));
        Ok(())
    }

    fn complete_receive(&mut self, completion: Completion, solicited: bool) {
        self.done.push((completion, solicited));
    }
}

/// A receiver in RTR, its host, and what they made of packets.
struct Test {
    receiver: UcReceiver,
    host: Host,
}

impl Test {
    /// The path MTU is 256, the PSN that is due 100; `receives` of 600 bytes are numbered from 1.
    fn new(receives: u64) -> Self {
        let mut receiver = UcReceiver::new();
        receiver.configure(&ReceiverConfig {
            expected_psn: Psn::new(100),
            path_mtu: Mtu::Mtu256,
            access: Access::REMOTE_WRITE,
        });
        receiver.start();
        let mut host = Host::default();
        let wr = |wr_id| RecvWr { wr_id, length: 600 };
        host.receives.extend((1..=receives).map(|id| Ok(wr(id))));
        Self { receiver, host }
    }

    fn take(&mut self, pkt: Pkt) -> Result<Taken, DropReason> {
        let bytes = pkt.bytes();
        let packet = Packet::parse(&bytes, bytes.len()).unwrap();
        self.receiver.handle(&packet, &mut self.host)
    }

    /// Takes what must be carried out.
    fn all<const N: usize>(&mut self, pkts: [Pkt; N]) {
        for pkt in pkts {
            assert_eq!(self.take(pkt), Ok(Taken::Whole), "{pkt:?}");
        }
    }

    /// Number and length of what was received since the last call.
    fn received(&mut self) -> Vec<(u64, u32)> {
        assert_eq!(self.receiver.take_receives() as usize, self.host.done.len());
        let done = self.host.done.drain(..);
        done.map(|(done, _)| {
            assert_eq!(done.status, WcStatus::Success);
            (done.wr_id, done.byte_len)
        })
        .collect()
    }
}

#[test]
fn a_message_is_put_together() {
    let mut test = Test::new(1);
    test.all([
        Pkt::send(First, 100, 256),
        Pkt::send(Middle, 101, 256),
        Pkt::send(Last, 102, 8).with_imm().solicited(),
    ]);
    assert_eq!(test.host.placed, [(0, 256), (256, 256), (512, 8)]);
    let (done, solicited) = test.host.done[0];
    assert_eq!((done.wr_id, done.byte_len), (1, 520));
    assert_eq!((done.imm, done.opcode), (Some(IMM), WcOpcode::Recv));
    assert!(solicited && !test.receiver.take_failure());
}

#[test]
fn a_write_goes_to_memory_and_only_immediate_data_uses_a_receive() {
    let mut test = Test::new(1);
    test.all([
        Pkt::write(First, 100, 256, 300),
        Pkt::write(Last, 101, 44, 0),
        Pkt::write(Only, 102, 0, 0),
        Pkt::write(Only, 103, 5, 5).with_imm(),
    ]);
    let va = PLACE.va;
    assert_eq!(test.host.written, [(va, 256), (va + 256, 44), (va, 5)]);
    assert_eq!(
        test.host.done[0].0.opcode,
        WcOpcode::RecvRdmaWithImm,
        "{:?}",
        test.host.done
    );
    assert_eq!(test.received(), [(1, 5)]);
}

#[test]
fn a_lost_packet_costs_its_message_and_no_other() {
    // Of each kind, and whichever of the packets is lost.
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
                    assert_eq!(test.take(part), expected, "{part:?} after {lost}");
                }
            }
            assert_eq!(test.received(), []);
            test.all([Pkt::send(Only, 103, 10)]);
            assert_eq!(test.received(), [(1, 10)], "its receive was kept");
            test.all([Pkt::write(Only, 104, 10, 10)]);
        }
    }
}

#[test]
fn a_message_that_its_sender_gave_up_is_forgotten() {
    let mut test = Test::new(2);
    test.all([
        Pkt::send(First, 100, 256),
        Pkt::send(Only, 101, 7),
        Pkt::write(First, 102, 256, 300),
        Pkt::send(Only, 103, 8),
    ]);
    assert_eq!(test.received(), [(1, 7), (2, 8)]);
}

#[test]
fn what_comes_again_or_late_is_not_delivered_twice() {
    let mut test = Test::new(3);
    test.all([Pkt::send(Only, 100, 1), Pkt::send(First, 101, 256)]);
    for psn in [100, 101, 0xff_ffff] {
        let again = Pkt::send(Only, psn, 1);
        assert_eq!(test.take(again), Err(DropReason::BadSequence));
    }
    test.all([Pkt::send(Last, 102, 1)]);
    assert_eq!(test.received(), [(1, 1), (2, 257)]);
}

#[test]
fn however_many_packets_are_lost_the_next_message_is_taken() {
    for lost in [1, STALE, 1 << 23, (1 << 24) - STALE - 1] {
        let mut test = Test::new(1);
        test.all([Pkt::send(Only, (100 + lost) & 0xff_ffff, 1)]);
        assert_eq!(test.received(), [(1, 1)], "{lost}");
    }
}

#[test]
fn what_does_not_continue_the_message_is_dropped() {
    let mut test = Test::new(1);
    test.all([Pkt::send(First, 100, 256)]);
    let other = Pkt::write(Middle, 101, 256, 0);
    assert_eq!(test.take(other), Err(DropReason::BadSequence));
    let rest = Pkt::send(Last, 102, 1);
    assert_eq!(test.take(rest), Err(DropReason::BadSequence));
}

#[test]
fn lengths_that_cannot_be_cost_the_message() {
    for pkt in [
        Pkt::send(First, 100, 255),
        Pkt::send(Only, 100, 257),
        Pkt::write(Only, 100, 5, 6),
        Pkt::write(Only, 100, 6, 5),
        Pkt::write(First, 100, 256, 256),
    ] {
        let mut test = Test::new(1);
        assert_eq!(test.take(pkt), Err(DropReason::BadLength), "{pkt:?}");
        test.all([Pkt::send(Only, 101, 1)]);
    }
    let mut test = Test::new(1);
    test.all([Pkt::send(First, 100, 256)]);
    let empty = Pkt::send(Last, 101, 0);
    assert_eq!(test.take(empty), Err(DropReason::BadLength));
}

#[test]
fn a_message_too_long_for_the_receive_costs_neither_receive_nor_connection() {
    let mut test = Test::new(1);
    test.all([Pkt::send(First, 100, 256), Pkt::send(Middle, 101, 256)]);
    let long = Pkt::send(Last, 102, 89);
    assert_eq!(test.take(long), Err(DropReason::BadLength));
    test.all([Pkt::send(Only, 103, 9)]);
    assert_eq!(test.received(), [(1, 9)]);
}

#[test]
fn without_a_receive_the_message_is_lost() {
    let mut test = Test::new(0);
    for pkt in [
        Pkt::send(Only, 100, 1),
        Pkt::write(Only, 101, 1, 1).with_imm(),
    ] {
        assert_eq!(test.take(pkt), Err(DropReason::NoReceiveBuffer));
    }
    assert!(test.host.written.is_empty());
    let begun = Pkt::send(First, 102, 256);
    assert_eq!(test.take(begun), Err(DropReason::NoReceiveBuffer));
    let wr = RecvWr {
        wr_id: 1,
        length: 600,
    };
    test.host.receives.push_back(Ok(wr));
    let rest = Pkt::send(Last, 103, 1);
    assert_eq!(test.take(rest), Err(DropReason::BadSequence));
    test.all([Pkt::send(Only, 104, 1)]);
}

#[test]
fn memory_that_is_not_for_the_peer_is_not_written() {
    let mut test = Test::new(1);
    test.host.locked = true;
    let denied = Pkt::write(First, 100, 256, 300);
    assert_eq!(test.take(denied), Err(DropReason::AccessDenied));
    let rest = Pkt::write(Last, 101, 44, 0);
    assert_eq!(test.take(rest), Err(DropReason::BadSequence));
    test.host.locked = false;
    test.receiver.set_access(Access::NONE);
    let denied = Pkt::write(Only, 102, 1, 1);
    assert_eq!(test.take(denied), Err(DropReason::AccessDenied));
    test.receiver.set_access(Access::REMOTE_WRITE);
    test.all([Pkt::write(First, 103, 256, 600)]);
    test.receiver.set_access(Access::NONE);
    let denied = Pkt::write(Middle, 104, 256, 0);
    assert_eq!(test.take(denied), Err(DropReason::AccessDenied));
    test.receiver.set_access(Access::REMOTE_WRITE);
    let rest = Pkt::write(Last, 105, 88, 0);
    assert_eq!(test.take(rest), Err(DropReason::BadSequence));
    test.host.broken = true;
    let gone = Pkt::write(Only, 106, 1, 1).with_imm();
    assert_eq!(test.take(gone), Err(DropReason::AccessDenied));
    test.host.broken = false;
    test.all([Pkt::send(Only, 107, 1)]);
    assert_eq!(test.received(), [(1, 1)], "no receive was used");
}

#[test]
fn a_receive_that_fails_is_the_end() {
    let mut test = Test::new(1);
    test.host.broken = true;
    test.all([Pkt::send(Only, 100, 1)]);
    let (done, _) = test.host.done[0];
    assert_eq!((done.wr_id, done.status), (1, WcStatus::LocProtErr));
    assert!(test.receiver.take_failure() && !test.receiver.take_failure());
    let next = Pkt::send(Only, 101, 1);
    assert_eq!(test.take(next), Err(DropReason::WrongQpState));
    assert_eq!(test.receiver.abandon(), None);

    let mut test = Test::new(0);
    let bad = BadRecv {
        wr_id: 9,
        status: WcStatus::LocQpOpErr,
    };
    test.host.receives.push_back(Err(bad));
    assert!(test.take(Pkt::send(Only, 100, 1)).is_err());
    let (done, _) = test.host.done[0];
    assert_eq!((done.wr_id, done.status), (9, WcStatus::LocQpOpErr));
    assert!(test.receiver.take_failure());
}

#[test]
fn the_receive_in_progress_is_flushed_once() {
    let mut test = Test::new(1);
    test.all([Pkt::send(First, 100, 256)]);
    test.receiver.fail();
    let done = test.receiver.abandon().unwrap();
    assert_eq!((done.wr_id, done.status), (1, WcStatus::WrFlushErr));
    assert_eq!(test.receiver.abandon(), None);
}

#[test]
fn nothing_is_taken_before_it_is_ready_nor_of_another_service() {
    let mut test = Test::new(1);
    test.receiver.reset();
    let early = Pkt::send(Only, 100, 1);
    assert_eq!(test.take(early), Err(DropReason::WrongQpState));
    test.receiver.start();
    let mut bytes = early.bytes();
    bytes[0] &= 0x1f;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    let taken = test.receiver.handle(&packet, &mut test.host);
    assert_eq!(taken, Err(DropReason::WrongService));
}

#[test]
fn a_packet_whose_memory_is_absent_comes_again_as_if_for_the_first_time() {
    for pkts in [
        [Pkt::send(First, 100, 256), Pkt::send(Last, 101, 44)],
        [
            Pkt::write(First, 100, 256, 300),
            Pkt::write(Last, 101, 44, 0).with_imm(),
        ],
    ] {
        let mut test = Test::new(1);
        for pkt in pkts {
            test.host.absent = true;
            let before = test.receiver.expected_psn();
            assert_eq!(test.take(pkt), Ok(Taken::Paused));
            assert_eq!(test.receiver.expected_psn(), before);
            test.host.absent = false;
            test.all([pkt]);
        }
        assert_eq!(test.received(), [(1, 300)]);
    }
}
