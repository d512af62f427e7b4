// SPDX-License-Identifier: GPL-2.0

//! Tests of the UC sender: packets, completions, errors.

extern crate std;

use super::*;
use crate::{
    segmentation::tx_desc::TxPayload,
    uc::testing::{
        request,
        Pkt,
        IMM,
        REMOTE, //
    },
    wire::{
        opcode::Position,
        packet::Packet, //
    },
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
        connection: Connection::new(Service::Uc, Qpn::new(5)),
        first_psn: Psn::new(psn),
        path_mtu: Mtu::Mtu256,
    });
    sender.start();
    sender
}

/// Plans packets within `limit`. Returns each with its offset in the message.
fn send_within(sender: &mut UcSender, limit: &mut BurstLimit) -> Vec<(Pkt, u32)> {
    let burst = sender.burst(limit);
    burst
        .map(|desc| {
            let headers = desc.headers.emit(desc.length as usize);
            let len = headers.len() + desc.length as usize;
            let pad = desc.length.wrapping_neg() as usize % 4;
            let packet = Packet::parse(headers.as_slice(), len + pad + 4).unwrap();
            assert_eq!(desc.source == TxPayload::None, desc.length == 0);
            (Pkt::of(&packet), desc.offset)
        })
        .collect()
}

fn send_all(sender: &mut UcSender) -> Vec<(Pkt, u32)> {
    let mut limit = BurstLimit {
        bytes: u32::MAX,
        packets: u32::MAX,
    };
    send_within(sender, &mut limit)
}

fn status(sender: &mut UcSender) -> Option<WcStatus> {
    sender.poll_completion().map(|retired| retired.status)
}

#[test]
fn a_message_is_divided_by_the_path_mtu_and_completes_with_its_last_packet() {
    let mut sender = ready(0xff_ffff);
    let op = SendOp::Write {
        remote: REMOTE,
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
        send_all(&mut sender),
        vec![
            (Pkt::write(Position::First, 0xff_ffff, 256, 600), 0),
            (Pkt::write(Position::Middle, 0, 256, 0), 256),
            (
                Pkt::write(Position::Last, 1, 88, 0).with_imm().solicited(),
                512
            ),
        ]
    );
    let done = sender.poll_completion().unwrap().completion().unwrap();
    assert_eq!(
        (done.wr_id, done.status, done.opcode, done.byte_len),
        (600, WcStatus::Success, WcOpcode::RdmaWrite, 600)
    );
    assert!(sender.accepts_requests() && sender.poll_completion().is_none());
    assert_eq!(sender.psn(), Psn::new(2));
}

#[test]
fn an_empty_message_is_one_packet() {
    let mut sender = ready(9);
    sender.post(SLOT, request(SendOp::Send { imm: Some(IMM) }, 0));
    let only = Pkt::send(Position::Only, 9, 0).with_imm();
    assert_eq!(send_all(&mut sender), vec![(only, 0)]);
}

#[test]
fn a_write_without_immediate_data_is_not_solicited() {
    let mut sender = ready(9);
    let op = SendOp::Write {
        remote: REMOTE,
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
    assert_eq!(send_all(&mut sender), vec![(only, 0)]);
}

#[test]
fn one_limit_applies_to_several_messages() {
    let mut sender = ready(0);
    let mut limit = BurstLimit {
        bytes: 700,
        packets: 10,
    };
    sender.post(SLOT, request(SendOp::Send { imm: None }, 300));
    assert_eq!(send_within(&mut sender, &mut limit).len(), 2);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    assert_eq!(send_within(&mut sender, &mut limit).len(), 1);
    assert_eq!(status(&mut sender), None);
    assert!(sender.is_busy() && !sender.accepts_requests());
    assert_eq!(send_all(&mut sender).len(), 2);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
}

#[test]
fn success_is_reported_only_for_signaled_requests() {
    let mut sender = ready(0);
    sender.post(
        SLOT,
        SendWr {
            signaled: false,
            ..request(SendOp::Send { imm: None }, 1)
        },
    );
    send_all(&mut sender);
    assert_eq!(sender.take_sends(), 0);
    let retired = sender.poll_completion().unwrap();
    assert_eq!(retired.completion(), None);
    let ended = (retired.opcode, retired.status, retired.length());
    assert_eq!(ended, (WcOpcode::Send, WcStatus::Success, 1));
    assert_eq!(sender.take_sends(), 1, "it is counted");
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.fail();
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
    assert_eq!(sender.take_sends(), 0, "a failed request is not counted");
}

#[test]
fn an_invalid_request_moves_the_send_queue_to_error_until_resumed() {
    let read = SendOp::Read { remote: REMOTE };
    let send = SendOp::Send { imm: None };
    let invalidate = SendOp::SendInvalidate { rkey: REMOTE.rkey };
    for (wr, expected) in [
        (request(read, 1), WcStatus::LocQpOpErr),
        (request(invalidate, 1), WcStatus::LocQpOpErr),
        (request(send, MAX_MESSAGE_BYTES + 1), WcStatus::LocLenErr),
    ] {
        let mut sender = ready(7);
        sender.post(SLOT, wr);
        assert_eq!(send_all(&mut sender), vec![]);
        assert_eq!(status(&mut sender), Some(expected));
        assert_eq!(sender.state(), UcSendState::Error);

        sender.post(SLOT, request(send, 1));
        assert_eq!(send_all(&mut sender), vec![]);
        assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));

        sender.resume();
        sender.post(SLOT, request(send, 1));
        assert_eq!(send_all(&mut sender).len(), 1, "the PSN continues");
        assert_eq!(sender.psn(), Psn::new(8));
    }
}

#[test]
fn a_local_operation_is_executed_once_and_sends_no_packet() {
    for op in [LocalOp::Bind, LocalOp::Invalidate, LocalOp::Register] {
        let mut sender = ready(7);
        sender.post(SLOT, request(SendOp::Local(op), 0));
        assert_eq!(status(&mut sender), None, "it is not executed yet");
        let mut times = 0;
        for _ in 0..2 {
            sender.perform_local(|slot| {
                assert_eq!(slot, SLOT);
                times += 1;
                Ok(())
            });
        }
        assert_eq!(times, 1);
        assert_eq!(send_all(&mut sender), vec![]);
        let done = sender.poll_completion().unwrap().completion().unwrap();
        let expected = SendOp::Local(op).wc_opcode();
        assert_eq!((done.status, done.opcode), (WcStatus::Success, expected));
        assert_eq!(sender.psn(), Psn::new(7));
        assert!(sender.accepts_requests());
    }
}

#[test]
fn a_failed_local_operation_moves_the_send_queue_to_error() {
    let mut sender = ready(7);
    sender.post(SLOT, request(SendOp::Local(LocalOp::Bind), 0));
    sender.perform_local(|_| Err(WcStatus::MwBindErr));
    sender.perform_local(|_| panic!("executed twice"));
    assert_eq!(status(&mut sender), Some(WcStatus::MwBindErr));
    assert_eq!(sender.state(), UcSendState::Error);
    sender.post(SLOT, request(SendOp::Local(LocalOp::Bind), 0));
    sender.perform_local(|_| panic!("executed although flushed"));
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
}

#[test]
fn perform_local_executes_only_local_operations() {
    let mut sender = ready(7);
    sender.perform_local(|_| panic!("there is no request"));
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.perform_local(|_| panic!("it is not local"));
    assert_eq!(send_all(&mut sender).len(), 1);
}

#[test]
fn a_rejected_request_completes_with_its_status() {
    let mut sender = ready(7);
    sender.reject(SLOT, 42, WcOpcode::Send, WcStatus::LocQpOpErr);
    let done = sender.poll_completion().unwrap().completion().unwrap();
    assert_eq!((done.wr_id, done.status), (42, WcStatus::LocQpOpErr));
    assert_eq!(sender.state(), UcSendState::Error);
}

#[test]
fn an_aborted_message_leaves_a_gap_in_the_psns() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    let mut limit = BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    };
    assert_eq!(send_within(&mut sender, &mut limit).len(), 2);
    sender.abort(WcStatus::LocProtErr);
    assert_eq!(send_all(&mut sender), vec![]);
    assert_eq!(status(&mut sender), Some(WcStatus::LocProtErr));
    assert_eq!(
        sender.psn(),
        Psn::new(2),
        "the PSN of the second packet is used"
    );
    // The same for the last packet.
    sender.resume();
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    send_all(&mut sender);
    sender.abort(WcStatus::LocProtErr);
    assert_eq!(status(&mut sender), Some(WcStatus::LocProtErr));
}

#[test]
fn a_draining_sender_completes_the_current_request() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 600));
    sender.drain();
    assert!(!sender.is_drained());
    assert_eq!(send_all(&mut sender).len(), 3);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    assert!(sender.is_drained() && !sender.accepts_requests());
    sender.resume();
    assert!(sender.accepts_requests());
}

#[test]
fn a_failed_sender_flushes_only_unsent_requests() {
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    send_all(&mut sender);
    sender.fail();
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
    let mut sender = ready(0);
    sender.post(SLOT, request(SendOp::Send { imm: None }, 1));
    sender.fail();
    assert_eq!(send_all(&mut sender), vec![]);
    assert_eq!(status(&mut sender), Some(WcStatus::WrFlushErr));
    sender.reset();
    assert!(!sender.accepts_requests());
}

#[test]
fn a_packet_whose_memory_is_absent_is_planned_again() {
    let mut sender = ready(0);
    sender.unsend();
    assert_eq!(sender.psn(), Psn::new(0), "there is no packet to withdraw");
    sender.post(SLOT, request(SendOp::Send { imm: None }, 300));
    let first = send_all(&mut sender);
    sender.unsend();
    assert_eq!(status(&mut sender), None);
    assert_eq!(send_all(&mut sender), first[1..]);
    assert_eq!(status(&mut sender), Some(WcStatus::Success));
}
