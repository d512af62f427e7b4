// SPDX-License-Identifier: GPL-2.0

//! Fatal errors: the NAK, the completion and the event.

use super::*;

/// Receives valid packets, then an invalid one, with `receives` posted.
fn with_nak(before: &[Pkt], bad: Pkt, receives: &[u32]) -> Bench {
    let mut bench = Bench::new();
    for length in receives {
        bench.post(*length);
    }
    for packet in before {
        bench.receive(*packet).unwrap();
        assert_eq!(bench.responder.error(), None);
    }
    bench.receive(bad).unwrap();
    bench
}

#[test]
fn opcodes_out_of_order_are_invalid() {
    let begun_send = send(Position::First, 100, 256);
    let begun_write = write(Position::First, 100, 256).with_reth(0, 1000);
    let only_write = write(Position::Only, 101, 1).with_reth(0, 1);
    for (before, bad) in [
        (None, send(Position::Middle, 100, 256)),
        (None, send(Position::Last, 100, 1)),
        (None, write(Position::Middle, 100, 256)),
        (None, write(Position::Last, 100, 1)),
        (Some(begun_send), send(Position::First, 101, 256)),
        (Some(begun_send), send(Position::Only, 101, 1)),
        (Some(begun_send), write(Position::Last, 101, 1)),
        (Some(begun_send), only_write),
        (Some(begun_send), read(101, 0, 1)),
        (Some(begun_write), send(Position::Last, 101, 1)),
        (Some(begun_write), send(Position::Only, 101, 1)),
        (Some(begun_write), only_write),
        (Some(begun_write), read(101, 0, 1)),
    ] {
        let mut bench = with_nak(before.as_slice(), bad, &[2000, 2000]);
        bench.assert_fatal_nak(bad.psn, INVALID, Fatal::RequestError);
    }
}

#[test]
fn a_reserved_opcode_is_invalid_where_a_request_is_expected() {
    let reserved = |psn, len| Pkt::new(Operation::Reserved, Position::Only, psn, len);
    for len in [0, 1, 256, 300] {
        with_nak(&[], reserved(100, len), &[]).assert_fatal_nak(100, INVALID, Fatal::RequestError);
        let begun = send(Position::First, 100, 256);
        let mut bench = with_nak(&[begun], reserved(101, len), &[2000]);
        bench.assert_fatal_nak(101, INVALID, Fatal::RequestError);
    }

    let mut bench = Bench::new();
    bench.post(1);
    let early = bench.receive(reserved(101, 0).with_ack_request());
    assert_eq!(early, Err(DropReason::AheadOfSequence));
    assert_eq!(bench.transmit(), [aeth_packet(100, SEQUENCE)]);
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    let late = bench.receive(reserved(100, 0).with_ack_request());
    assert_eq!(late, Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.state(), ResponderState::Ready);
}

#[test]
fn a_payload_length_that_does_not_match_the_position_is_invalid() {
    let begun = send(Position::First, 100, 256);
    for (before, bad) in [
        (None, send(Position::First, 100, 255)),
        (None, send(Position::First, 100, 257)),
        (None, send(Position::Only, 100, 257)),
        (Some(begun), send(Position::Middle, 101, 255)),
        (Some(begun), send(Position::Middle, 101, 257)),
        (Some(begun), send(Position::Last, 101, 0)),
        (Some(begun), send(Position::Last, 101, 257)),
    ] {
        let mut bench = with_nak(before.as_slice(), bad, &[2000]);
        bench.assert_fatal_nak(bad.psn, INVALID, Fatal::RequestError);
    }
}

#[test]
fn the_payload_of_a_write_must_match_its_reth() {
    let begun = write(Position::First, 100, 256).with_reth(0, 600);
    for (before, bad) in [
        (None, write(Position::Only, 100, 10).with_reth(0, 11)),
        (None, write(Position::Only, 100, 10).with_reth(0, 9)),
        (None, write(Position::First, 100, 256).with_reth(0, 256)),
        (None, write(Position::First, 100, 256).with_reth(0, 255)),
        (Some(begun), write(Position::Last, 101, 256)),
        (Some(begun), write(Position::Last, 101, 88)),
    ] {
        let mut bench = with_nak(before.as_slice(), bad, &[]);
        bench.assert_fatal_nak(bad.psn, INVALID, Fatal::RequestError);
        let written = |call: &HostCall| matches!(call, HostCall::Written(..));
        let host_calls = bench.host_calls();
        assert_eq!(
            host_calls.iter().filter(|call| written(call)).count(),
            before.iter().count()
        );
    }
    let middle = write(Position::Middle, 101, 256);
    let bad = write(Position::Middle, 102, 256);
    let mut bench = with_nak(&[begun, middle], bad, &[]);
    bench.assert_fatal_nak(102, INVALID, Fatal::RequestError);
}

#[test]
fn a_too_long_message_is_invalid() {
    let too_long = (1 << 31) + 1;
    let bad = write(Position::First, 100, 256).with_reth(0, too_long);
    with_nak(&[], bad, &[]).assert_fatal_nak(100, INVALID, Fatal::RequestError);
    let bad = read(100, 0, too_long);
    with_nak(&[], bad, &[]).assert_fatal_nak(100, INVALID, Fatal::RequestError);
    let longest = read(100, 0, 1 << 31);
    assert_eq!(with_nak(&[], longest, &[]).responder.error(), None);
}

#[test]
fn access_that_the_qp_does_not_grant_is_invalid() {
    for (access, bad) in [
        (
            Access::REMOTE_READ,
            write(Position::Only, 100, 1).with_reth(0, 1),
        ),
        (
            Access::REMOTE_READ,
            write(Position::Only, 100, 0).with_reth(0, 0),
        ),
        (Access::REMOTE_WRITE, read(100, 0, 1)),
    ] {
        let mut bench = Bench::with(|config| config.access = access);
        bench.receive(bad).unwrap();
        assert_eq!(bench.host_calls(), []);
        bench.assert_fatal_nak(100, INVALID, Fatal::RequestError);
    }
}

#[test]
fn access_that_the_key_does_not_grant_is_an_access_error() {
    for bad in [
        write(Position::Only, 100, 1).with_reth(0, 1),
        write(Position::First, 100, 256).with_reth(0, 600),
        read(100, 0, 1),
    ] {
        let mut bench = Bench::new();
        bench.host.access_fault = Some(AccessError::Bounds);
        bench.receive(bad).unwrap();
        assert_eq!(bench.host_calls().len(), 1, "refused at once");
        bench.assert_fatal_nak(100, ACCESS, Fatal::AccessError);
    }
}

#[test]
fn a_key_invalidated_within_a_message_is_an_access_error() {
    let mut bench = Bench::new();
    let first = write(Position::First, 100, 256).with_reth(0, 300);
    bench.receive(first).unwrap();
    bench.host.write_fault = Some(AccessError::Key);
    bench.receive(write(Position::Last, 101, 44)).unwrap();
    bench.assert_fatal_nak(101, ACCESS, Fatal::AccessError);
    assert_eq!(bench.host.completions, []);
}

#[test]
fn a_write_fails_when_its_right_is_revoked() {
    let mut bench = Bench::new();
    let first = write(Position::First, 100, 256).with_reth(0, 600);
    bench.receive(first).unwrap();
    bench.host_calls();
    bench.responder.set_access(Access::REMOTE_READ);
    bench.receive(write(Position::Middle, 101, 256)).unwrap();
    assert_eq!(bench.host_calls(), []);
    bench.assert_fatal_nak(101, INVALID, Fatal::RequestError);
}

#[test]
fn a_read_fails_when_its_right_is_revoked() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 768)).unwrap();
    let one = BurstLimit {
        bytes: u32::MAX,
        packets: 1,
    };
    assert_eq!(bench.transmit_up_to(one), [data(Position::First, 100, 256)]);
    bench.responder.set_access(Access::REMOTE_WRITE);
    assert_eq!(bench.transmit(), [aeth_packet(101, INVALID)]);
    assert_eq!(bench.responder.state(), ResponderState::Error);
    assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
    assert_eq!(bench.transmit(), []);
}

#[test]
fn a_receive_consumed_by_a_failed_write_completes_with_an_error() {
    let mut bench = Bench::new();
    bench.post(5);
    bench.host.write_fault = Some(AccessError::Key);
    let bad = write(Position::Only, 100, 1).with_reth(0, 1);
    bench.receive(bad.with_imm([0; 4])).unwrap();
    let opcode = WcOpcode::RecvRdmaWithImm;
    let failed = Completion::failed(5, opcode, WcStatus::LocAccessErr);
    assert_eq!(bench.host.completions, [(failed, false)]);
    bench.assert_fatal_nak(100, ACCESS, Fatal::AccessError);
}

#[test]
fn a_message_too_long_for_its_receive_fails_both() {
    let first = send(Position::First, 100, 256);
    for (before, bad, room) in [
        (None, send(Position::Only, 100, 11), 10),
        (None, first, 255),
        (Some(first), send(Position::Last, 101, 45), 300),
    ] {
        let mut bench = with_nak(before.as_slice(), bad, &[room]);
        let status = WcStatus::LocLenErr;
        let failed = Completion::failed(room.into(), WcOpcode::Recv, status);
        assert_eq!(bench.host.completions, [(failed, false)]);
        bench.assert_fatal_nak(bad.psn, INVALID, Fatal::LocalError);
        assert_eq!(
            bench.responder.flush_receive(),
            None,
            "it is already complete"
        );
    }
}

#[test]
fn a_receive_without_memory_fails_both() {
    let mut bench = Bench::new();
    bench.post(300);
    bench.receive(send(Position::First, 100, 256)).unwrap();
    bench.host.receive_fault = Some(WcStatus::LocProtErr);
    bench.receive(send(Position::Last, 101, 1)).unwrap();
    let failed = Completion::failed(300, WcOpcode::Recv, WcStatus::LocProtErr);
    assert_eq!(bench.host.completions, [(failed, false)]);
    bench.assert_fatal_nak(101, OPERATIONAL, Fatal::LocalError);
}

#[test]
fn an_invalid_receive_fails_both() {
    let bad_send = send(Position::Only, 100, 1);
    let bad_write = write(Position::Only, 100, 1)
        .with_reth(0, 1)
        .with_imm([0; 4]);
    for (packet, opcode) in [
        (bad_send, WcOpcode::Recv),
        (bad_write, WcOpcode::RecvRdmaWithImm),
    ] {
        let mut bench = Bench::new();
        let status = WcStatus::LocQpOpErr;
        bench.host.receives.push(Err(BadRecv { wr_id: 4, status }));
        bench.receive(packet).unwrap();
        let failed = Completion::failed(4, opcode, status);
        assert_eq!(bench.host.completions, [(failed, false)]);
        bench.assert_fatal_nak(100, OPERATIONAL, Fatal::LocalError);
    }
}

#[test]
fn too_many_reads_are_invalid_after_the_earlier_responses() {
    let mut bench = Bench::new();
    for psn in [100, 101, 102] {
        bench.receive(read(psn, 0, 1)).unwrap();
    }
    assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
    bench.responder.fail();
    assert_eq!(
        bench.transmit(),
        [
            data(Position::Only, 100, 1),
            data(Position::Only, 101, 1),
            aeth_packet(102, INVALID),
        ]
    );
}

#[test]
fn reads_beyond_half_of_the_psn_space_are_invalid() {
    let longest = 1 << 31;
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 1)).unwrap();
    bench.receive(read(101, 0, longest)).unwrap();
    assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));

    // The peer may have received all but the last packet of the first response.
    let mut bench = Bench::new();
    bench.receive(read(100, 0, longest)).unwrap();
    bench
        .receive(read(100 + (1 << 23), 0, longest - 256))
        .unwrap();
    assert_eq!(bench.responder.take_event(), None);
}

#[test]
fn without_storage_reads_are_invalid() {
    let mut bench = Bench::new();
    bench.responder.replace_storage(Vec::new());
    bench.receive(read(100, 0, 1)).unwrap();
    bench.assert_fatal_nak(100, INVALID, Fatal::RequestError);
}

#[test]
fn an_unreadable_response_gets_a_nak_at_its_psn() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 1024)).unwrap();
    bench.receive(read(104, 0, 1)).unwrap();
    let two = BurstLimit {
        bytes: u32::MAX,
        packets: 2,
    };
    bench.transmit_up_to(two);
    bench.responder.abort_read(1, AccessError::Key);
    bench.assert_fatal_nak(101, ACCESS, Fatal::AccessError);
}

#[test]
fn a_read_with_payload_is_invalid() {
    let bad = Pkt {
        len: 4,
        ..read(100, 0, 4)
    };
    with_nak(&[], bad, &[]).assert_fatal_nak(100, INVALID, Fatal::RequestError);
}

#[test]
fn too_many_response_packets_are_not_sent_before_a_nak() {
    // Packets of 256 bytes; two are already sent.
    for (packets, last) in [
        (2050, aeth_packet(2150, INVALID)),
        (2051, aeth_packet(102, OPERATIONAL)),
    ] {
        let mut bench = Bench::new();
        bench.receive(read(100, 0, packets * 256)).unwrap();
        let two = BurstLimit {
            bytes: u32::MAX,
            packets: 2,
        };
        bench.transmit_up_to(two);
        let bad = Pkt {
            len: 4,
            ..read(100 + packets, 0, 4)
        };
        bench.receive(bad).unwrap();
        assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
        bench.responder.fail();
        assert_eq!(bench.transmit().pop(), Some(last));
        assert!(!bench.responder.has_work());
    }
}

#[test]
fn aborted_replies_are_not_sent() {
    let mut bench = Bench::new();
    for psn in [100, 101, 102] {
        bench.receive(read(psn, 0, 1)).unwrap();
    }
    assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
    bench.responder.abort_replies();
    assert!(!bench.responder.has_work());
    assert_eq!(bench.transmit(), []);
}

#[test]
fn an_external_failure_sends_no_nak() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0, 1)).unwrap();
    bench.responder.fail();
    assert!(!bench.responder.has_work());
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.take_event(), None);
}
