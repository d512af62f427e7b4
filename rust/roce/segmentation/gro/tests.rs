// SPDX-License-Identifier: GPL-2.0

//! Tests of the rules for joining received packets.

use super::*;
use crate::{
    id::Pkey,
    wire::opcode::Position, //
};
use zerocopy::IntoBytes;

const QPN: Qpn = Qpn::new(0x1234);

fn bth(service: Service, operation: Operation, position: Position, psn: u32) -> Bth {
    let opcode = Opcode::of(service, operation, position, false).unwrap();
    Bth::new(opcode.to_byte(), Pkey::new(0xffff), QPN, Psn::new(psn))
}

fn parsed(bth: &Bth) -> GroHeader {
    GroHeader::parse(bth.as_bytes().first_chunk().unwrap()).unwrap()
}

fn write(position: Position, psn: u32) -> GroHeader {
    parsed(&bth(Service::Rc, Operation::RdmaWrite, position, psn))
}

fn response(position: Position, psn: u32) -> GroHeader {
    parsed(&bth(Service::Rc, Operation::ReadResponse, position, psn))
}

fn acknowledge(psn: u32) -> GroHeader {
    let position = Position::Only;
    parsed(&bth(Service::Rc, Operation::Acknowledge, position, psn))
}

#[test]
fn consecutive_packets_of_a_stream_are_joined() {
    let first = write(Position::First, 0xff_ffff);
    assert!(write(Position::Middle, 0).follows(&first));
    assert!(write(Position::Only, 0).follows(&first));
    assert!(response(Position::Middle, 8).follows(&response(Position::First, 7)));
    let send = bth(Service::Rc, Operation::Send, Position::Only, 0);
    assert!(parsed(&send).follows(&first));
}

#[test]
fn a_gap_a_repetition_or_another_connection_is_not_joined() {
    let first = write(Position::First, 5);
    for psn in [0, 4, 5, 7] {
        assert!(!write(Position::Middle, psn).follows(&first));
    }
    let other = Bth::new(
        0x07,
        Pkey::new(0xffff),
        Qpn::new(QPN.get() + 1),
        Psn::new(6),
    );
    assert!(!parsed(&other).follows(&first));
    assert!(!parsed(&other).is_same_stream(&first));
    let unreliable = bth(Service::Uc, Operation::RdmaWrite, Position::Middle, 6);
    assert!(!parsed(&unreliable).follows(&first));
}

#[test]
fn requests_and_responses_are_two_streams() {
    let request = write(Position::Only, 5);
    assert!(!response(Position::Only, 6).is_same_stream(&request));
    assert!(!response(Position::Only, 6).follows(&request));
    assert!(!acknowledge(6).is_same_stream(&request));
    // But an acknowledgement must not overtake a response.
    assert!(acknowledge(6).is_same_stream(&response(Position::Only, 5)));
}

#[test]
fn packets_of_their_own_kind_are_not_joined_but_keep_their_order() {
    let request = write(Position::Only, 5);
    for operation in [
        Operation::ReadRequest,
        Operation::FetchAdd,
        Operation::AtomicWrite,
        Operation::Flush,
    ] {
        let packet = parsed(&bth(Service::Rc, operation, Position::Only, 6));
        assert!(!packet.can_join() && !packet.follows(&request));
        assert!(packet.is_same_stream(&request));
        let next = write(Position::Only, 7);
        assert!(!next.follows(&packet));
    }
    assert!(!acknowledge(6).follows(&response(Position::Only, 5)));
}

#[test]
fn a_packet_that_asks_for_an_answer_is_urgent() {
    let mut asking = bth(Service::Rc, Operation::RdmaWrite, Position::Last, 6);
    assert!(!parsed(&asking).is_urgent());
    asking.set_ack_request(true);
    assert!(parsed(&asking).is_urgent());
    assert!(parsed(&asking).follows(&write(Position::First, 5)));
}

#[test]
fn datagrams_notifications_and_unknown_packets_belong_to_no_stream() {
    for bth in [
        bth(Service::Ud, Operation::Send, Position::Only, 1),
        bth(Service::Cnp, Operation::Cnp, Position::Only, 0),
        Bth::new(0xff, Pkey::new(0xffff), QPN, Psn::new(0)),
    ] {
        assert!(GroHeader::parse(bth.as_bytes().first_chunk().unwrap()).is_none());
    }
}
