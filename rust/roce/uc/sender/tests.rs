// SPDX-License-Identifier: GPL-2.0

//! What the sender of an unreliable connection makes of requests: packets, completions, errors.

extern crate std;

use super::*;
use crate::{
    uc::testing::{
        request,
        Pkt,
        IMM,
        PLACE, //
    },
    wire::packet::Packet,
    wr::LocalOp, //
};
use std::{
    vec,
    vec::Vec, //
};

const SLOT: SlotIndex = SlotIndex(3);

/// A sender in RTS whose path MTU is 256 and whose next PSN is `psn`.
fn ready(psn: u32) -> UcSender {
    let mut sender = UcSender::new();
    sender.configure(&SenderConfig {
        dest_qpn: Qpn::new(5),
        pkey: Pkey::DEFAULT,
        first_psn: Psn::new(psn),
        path_mtu: Mtu::Mtu256,
    });
    sender.start();
    sender
}

/// Takes packets as far as `limit` goes, with their offsets.
fn sent(sender: &mut UcSender, limit: &mut BurstLimit) -> Vec<(Pkt, u32)> {
    let burst = sender.burst(limit);
    burst
        .map(|segment| {
            let headers = segment.headers.emit(segment.length as usize);
            let len = headers.len() + segment.length as usize;
            let pad = segment.length.wrapping_neg() as usize % 4;
            let packet = Packet::parse(headers.as_slice(), len + pad + 4).unwrap();
            assert_eq!(segment.source == TxPayload::None, segment.length == 0);
            (Pkt::of(&packet), segment.offset)
        })
        .collect()
}

fn all(sender: &mut UcSender) -> Vec<(Pkt, u32)> {
    let mut limit = BurstLimit {
        bytes: u32::MAX,
        packets: u32::MAX,
    };
    sent(sender, &mut limit)
}

fn status(sender: &mut UcSender) -> Option<WcStatus> {
    sender
        .poll_completion()
        .map(|done| done.map_or(WcStatus::Success, |done| done.status))
}

#[test]
fn a_message_is_cut_at_the_path_mtu_and_done_when_its_last_packet_is_planned() {
    let mut sender = ready(0xff_ffff);
    let op = SendOp::Write {
        remote: PLACE,
        imm: Some(IMM),
    };
    sender.post(
        SLOT,
        SendWr {
            solicited: true,
            ..request(op, 600)
        },
    );
    assert_eq!(sender.poll_completion(), None);
    assert_eq!(
        all(&mut sender),
        vec![
            (Pkt::write(Position::First, 0xff_ffff, 256, 600), 0),
            (Pkt::write(Position::Middle, 0, 256, 0), 256),
            (
                Pkt::write(Position::Last, 1, 88, 0).with_imm().solicited(),
                512
            ),
        ]
    );
    let done = sender.poll_completion().unwrap().unwrap();
    assert_eq!(
        (done.wr_id, done.status, done.opcode, done.byte_len),
        (600, WcStatus::Success, WcOpcode::RdmaWrite, 600)
    );
    assert!(sender.takes() && sender.poll_completion().is_none());
    assert_eq!(sender.psn(), Psn::new(2));
}

#[test]
fn an_empty_message_is_one_packet() {
    let mut sender = ready(9);
    sender.post(SLOT, request(SendOp::Send { imm: Some(IMM) }, 0));
    let only = Pkt::send(Position::Only, 9, 0).with_imm();
    assert_eq!(all(&mut sender), vec![(only, 0)]);
}

#[test]
fn a_write_that_nobody_hears_of_solicits_nothing() {
    let mut sender = ready(9);
    let op = SendOp::Write {
        remote: PLACE,
        imm: None,
    };
    sender.post(
        SLOT,
        SendWr {
            solicited: true,
            ..request(op, 4)
        },
    );
    let only = Pkt::write(Position::Only, 9, 4, 4);
    assert_eq!(all(&mut sender), vec![(only, 0)]);
}

#[test]
fn one_limit_holds_for_all_messages_of_a_burst() {
    let mut sender = ready(0);
    let mut limit = BurstLimit {
        bytes: 700,
        packets: 10,
    };
    sender.post(SLOT, request(SendOp::Send { imm: None }, 300));
    assert_eq!(sent(&mut sender, &mut limit).len(), 2);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    assert_eq!(sent(&mut sender, &mut limit).len(), 1);
    assert_eq!(status(&mut sender), None);
    assert!(sender.is_busy() && !sender.takes());
    assert_eq!(all(&mut sender).len(), 2);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
}

#[test]
fn success_is_told_only_where_it_was_asked_for() {
    let mut sender = ready(0);
    sender.post(
        SLOT,
        SendWr {
            signaled: false,
            ..request(SendOp::Send { imm: None }, 1)
        },
    );
    all(&mut sender);
    assert_eq!(sender.take_sends(), 0);
    assert_eq!(sender.poll_completion(), Some(None));
    assert_eq!(sender.take_sends(), 1, "but it counts");
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.fail();
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
    assert_eq!(sender.take_sends(), 0, "what failed does not");
}

#[test]
fn what_cannot_be_sent_takes_the_send_queue_to_error_until_it_is_resumed() {
    let read = SendOp::Read { remote: PLACE };
    let send = SendOp::Send { imm: None };
    let invalidate = SendOp::SendInvalidate { rkey: PLACE.rkey };
    for (wr, expected) in [
        (request(read, 1), WcStatus::LocQpOpErr),
        (request(invalidate, 1), WcStatus::LocQpOpErr),
        (request(send, MAX_MESSAGE_BYTES + 1), WcStatus::LocLenErr),
    ] {
        let mut sender = ready(7);
        sender.post(SLOT, wr);
        assert_eq!(all(&mut sender), vec![]);
        assert_eq!(status(&mut sender), Some(expected));
        assert_eq!(sender.state(), UcSendState::Error);

        sender.post(SLOT, request(send, 1));
        assert_eq!(all(&mut sender), vec![]);
        assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));

        sender.resume();
        sender.post(SLOT, request(send, 1));
        assert_eq!(all(&mut sender).len(), 1, "the PSN goes on");
        assert_eq!(sender.psn(), Psn::new(8));
    }
}

#[test]
fn a_local_request_is_carried_out_once_and_takes_no_packet() {
    for op in [LocalOp::Bind, LocalOp::Invalidate, LocalOp::Register] {
        let mut sender = ready(7);
        sender.post(SLOT, request(SendOp::Local(op), 0));
        assert_eq!(status(&mut sender), None, "not before it was carried out");
        let mut times = 0;
        for _ in 0..2 {
            sender.perform_local(|slot| {
                assert_eq!(slot, SLOT);
                times += 1;
                Ok(())
            });
        }
        assert_eq!(times, 1);
        assert_eq!(all(&mut sender), vec![]);
        let done = sender.poll_completion().unwrap().unwrap();
        let expected = SendOp::Local(op).wc_opcode();
        assert_eq!((done.status, done.opcode), (WcStatus::Success, expected));
        assert_eq!(sender.psn(), Psn::new(7));
        assert!(sender.takes());
    }
}

#[test]
fn a_local_request_that_fails_takes_the_send_queue_to_error() {
    let mut sender = ready(7);
    sender.post(SLOT, request(SendOp::Local(LocalOp::Bind), 0));
    sender.perform_local(|_| Err(WcStatus::MwBindErr));
    sender.perform_local(|_| panic!("not again"));
    assert_eq!(status(&mut sender), Some(WcStatus::MwBindErr));
    assert_eq!(sender.state(), UcSendState::Error);
    sender.post(SLOT, request(SendOp::Local(LocalOp::Bind), 0));
    sender.perform_local(|_| panic!("it is flushed"));
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
}

#[test]
fn only_a_local_request_is_carried_out_here() {
    let mut sender = ready(7);
    sender.perform_local(|_| panic!("there is none"));
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.perform_local(|_| panic!("it is for the peer"));
    assert_eq!(all(&mut sender).len(), 1);
}

#[test]
fn a_request_that_makes_no_sense_completes_in_its_turn() {
    let mut sender = ready(7);
    sender.reject(SLOT, 42, WcOpcode::Send, WcStatus::LocQpOpErr);
    let done = sender.poll_completion().unwrap().unwrap();
    assert_eq!((done.wr_id, done.status), (42, WcStatus::LocQpOpErr));
    assert_eq!(sender.state(), UcSendState::Error);
}

#[test]
fn memory_that_is_gone_ends_the_message_and_leaves_a_gap() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    let mut limit = BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    };
    assert_eq!(sent(&mut sender, &mut limit).len(), 2);
    sender.abort(WcStatus::LocProtErr);
    assert_eq!(all(&mut sender), vec![]);
    assert_eq!(status(&mut sender), Some(WcStatus::LocProtErr));
    assert_eq!(sender.psn(), Psn::new(2), "that of the second is used up");
    // Also when the packet was the last one.
    sender.resume();
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    all(&mut sender);
    sender.abort(WcStatus::LocProtErr);
    assert_eq!(status(&mut sender), Some(WcStatus::LocProtErr));
}

#[test]
fn a_drained_sender_finishes_what_it_has_begun() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    sender.drain();
    assert!(!sender.is_drained());
    assert_eq!(all(&mut sender).len(), 3);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    assert!(sender.is_drained() && !sender.takes());
    sender.resume();
    assert!(sender.takes());
}

#[test]
fn a_failed_sender_flushes_but_what_was_sent() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    all(&mut sender);
    sender.fail();
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.fail();
    assert_eq!(all(&mut sender), vec![]);
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
    sender.reset();
    assert!(!sender.takes());
}

#[test]
fn a_packet_whose_memory_is_absent_is_planned_again() {
    let mut sender = ready(0);
    sender.unsend();
    assert_eq!(sender.psn(), Psn::new(0), "there is nothing to take back");
    sender.post(SLOT, request(SendOp::Send { imm: None }, 300));
    let first = all(&mut sender);
    sender.unsend();
    assert_eq!(status(&mut sender), None);
    assert_eq!(all(&mut sender), first[1..]);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
}
