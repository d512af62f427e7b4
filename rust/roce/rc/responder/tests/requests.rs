// SPDX-License-Identifier: GPL-2.0

//! Valid requests.

use super::*;

#[test]
fn a_send_fills_one_receive() {
    let mut bench = Bench::new();
    bench.post(700);
    bench.post(10);
    for (position, psn, len) in [
        (Position::First, 100, 256),
        (Position::Middle, 101, 256),
        (Position::Last, 102, 88),
        (Position::Only, 103, 10),
    ] {
        bench.receive(send(position, psn, len)).unwrap();
    }
    assert_eq!(
        bench.host_calls(),
        [
            HostCall::Received(0, 256),
            HostCall::Received(256, 256),
            HostCall::Received(512, 88),
            HostCall::Completed(700, WcStatus::Success, 600),
            HostCall::Received(0, 10),
            HostCall::Completed(10, WcStatus::Success, 10),
        ]
    );
    assert_eq!(bench.responder.take_stats().receives, 2);
}

#[test]
fn an_empty_send_consumes_a_receive() {
    let mut bench = Bench::new();
    bench.post(0);
    bench.receive(send(Position::Only, 100, 0)).unwrap();
    assert_eq!(
        bench.host_calls(),
        [HostCall::Completed(0, WcStatus::Success, 0)]
    );
}

#[test]
fn a_completion_contains_all_fields_of_the_packet() {
    let mut bench = Bench::new();
    bench.post(5);
    let packet = send(Position::Only, 100, 5).with_imm([1, 2, 3, 4]);
    let solicited = true;
    bench
        .receive(Pkt {
            solicited,
            ..packet
        })
        .unwrap();
    let completion = Completion {
        wr_id: 5,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        byte_len: 5,
        imm: Some(Imm([1, 2, 3, 4])),
        invalidated: None,
    };
    assert_eq!(bench.host.completions, [(completion, true)]);
}

#[test]
fn a_write_goes_to_its_address() {
    let mut bench = Bench::new();
    let first = write(Position::First, 100, 256).with_reth(0xf00, 600);
    bench.receive(first).unwrap();
    bench.receive(write(Position::Middle, 101, 256)).unwrap();
    assert!(bench.host.whole_writes.is_empty());
    for _ in 0..2 {
        // The second time it is a duplicate.
        bench.receive(write(Position::Last, 102, 88)).unwrap();
        assert_eq!(bench.host.whole_writes, [600]);
    }
    assert_eq!(
        bench.host_calls(),
        [
            HostCall::Checked(0xf00, 600, Access::REMOTE_WRITE),
            HostCall::Written(0xf00, 256),
            HostCall::Written(0x1000, 256),
            HostCall::Written(0x1100, 88),
        ]
    );
}

#[test]
fn a_write_with_immediate_data_consumes_a_receive_at_its_end() {
    let mut bench = Bench::new();
    bench.post(3);
    let first = write(Position::First, 100, 256).with_reth(0, 300);
    bench.receive(first).unwrap();
    assert_eq!(bench.host.receives.len(), 1);
    let last = write(Position::Last, 101, 44).with_imm([9; 4]);
    bench.receive(last).unwrap();
    let (completion, solicited) = bench.host.completions[0];
    assert_eq!(completion.opcode, WcOpcode::RecvRdmaWithImm);
    assert_eq!(
        completion.byte_len, 300,
        "length of the WRITE, not of the receive"
    );
    assert_eq!(completion.imm, Some(Imm([9; 4])));
    assert!(!solicited);
}

#[test]
fn operations_of_length_zero_check_no_key() {
    let mut bench = Bench::new();
    bench.host.access_fault = Some(AccessError::Key);
    bench
        .receive(write(Position::Only, 100, 0).with_reth(7, 0))
        .unwrap();
    bench.receive(read(101, 7, 0)).unwrap();
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.transmit(), [data(Position::Only, 101, 0)]);
}

#[test]
fn a_read_response_starts_at_its_address() {
    let mut bench = Bench::new();
    bench.receive(read(100, 0xf00, 600)).unwrap();
    let checked = HostCall::Checked(0xf00, 600, Access::REMOTE_READ);
    assert_eq!(bench.host_calls(), [checked]);
    assert_eq!(bench.reads(), [(0xf00, 256), (0x1000, 256), (0x1100, 88)]);
    assert_eq!(bench.responder.expected_psn(), Psn::new(103));
}

#[test]
fn psns_wrap() {
    let mut bench = Bench::with(|config| config.expected_psn = Psn::new(0xff_fffe));
    bench.post(1000);
    bench
        .receive(send(Position::First, 0xff_fffe, 256))
        .unwrap();
    bench
        .receive(send(Position::Middle, 0xff_ffff, 256))
        .unwrap();
    bench
        .receive(send(Position::Last, 0, 1).with_ack_request())
        .unwrap();
    assert_eq!(bench.transmit(), [ack(0)]);
    bench.receive(send(Position::Only, 0xff_ffff, 1)).unwrap();
    assert_eq!(bench.transmit(), [ack(0)], "a duplicate");
}

#[test]
fn no_request_is_executed_before_the_start() {
    let mut responder = Responder::new(vec![ReplayEntry::EMPTY; 2]);
    let mut host = Host::default();
    let packet = write(Position::Only, 0, 0).with_reth(0, 0);
    let mut gets = |responder: &mut Responder<_>| {
        packet.parse(|packet| responder.handle_request(packet, &mut host))
    };
    assert_eq!(gets(&mut responder), Err(DropReason::WrongQpState));
    responder.init();
    assert_eq!(responder.state(), ResponderState::Init);
    assert_eq!(gets(&mut responder), Err(DropReason::WrongQpState));
    responder.start();
    assert_eq!(gets(&mut responder), Ok(Taken::Whole));
}

#[test]
fn responses_are_dropped() {
    let mut bench = Bench::new();
    assert_eq!(bench.receive(ack(100)), Err(DropReason::WrongService));
}

#[test]
fn a_receive_in_progress_is_flushed_once() {
    let mut bench = Bench::new();
    bench.post(700);
    bench.receive(send(Position::First, 100, 256)).unwrap();
    bench.responder.fail();
    let flushed = Completion::failed(700, WcOpcode::Recv, WcStatus::WrFlushErr);
    assert_eq!(bench.responder.flush_receive(), Some(flushed));
    assert_eq!(bench.responder.flush_receive(), None);
}

#[test]
fn a_reset_keeps_only_the_attributes() {
    let mut bench = Bench::new();
    bench.post(700);
    bench.receive(read(100, 0, 256)).unwrap();
    bench.receive(send(Position::First, 101, 256)).unwrap();
    bench.responder.reset();
    assert_eq!(bench.transmit(), []);
    assert_eq!(bench.responder.flush_receive(), None);
    assert_eq!(bench.responder.state(), ResponderState::Reset);
}

#[test]
fn attributes_can_be_changed_in_operation() {
    let mut bench = Bench::new();
    bench.responder.set_min_rnr_timer(21);
    bench.responder.set_pkey(Pkey::new(0x8007));
    bench.receive(send(Position::Only, 100, 1)).unwrap();
    let segment = bench.responder.burst(ALL).next().unwrap();
    let buffer = segment.headers.emit(0);
    assert_eq!(buffer.as_slice()[2..4], [0x80, 0x07]);
    let rnr_nak = aeth_packet(100, Syndrome::Rnr { timer: 21 });
    assert_eq!(Pkt::of(&segment), rnr_nak);

    bench.responder.set_access(Access::NONE);
    bench.receive(read(100, 0, 1)).unwrap();
    assert_eq!(bench.responder.error(), Some(Fatal::RequestError));
}

#[test]
fn there_is_work_while_packets_are_pending() {
    let mut bench = Bench::new();
    assert!(!bench.responder.has_work());
    bench.receive(read(100, 0, 1)).unwrap();
    assert!(bench.responder.has_work(), "a read response");
    bench.transmit();
    assert!(!bench.responder.has_work());
    bench.post(1);
    bench
        .receive(send(Position::Only, 101, 1).with_ack_request())
        .unwrap();
    assert!(bench.responder.has_work(), "an ACK");
    bench.transmit();
    assert!(!bench.responder.has_work());
}

// Page faults.

#[test]
fn a_send_keeps_its_receive_during_a_page_fault() {
    let mut bench = Bench::new();
    bench.post(300);
    bench.post(1);
    for packet in [
        send(Position::First, 100, 256),
        send(Position::Last, 101, 44).with_ack_request(),
    ] {
        for _ in 0..2 {
            bench.host.absent = true;
            assert_eq!(bench.deliver(packet), Ok(Taken::Paused));
            assert_eq!(bench.responder.expected_psn(), Psn::new(packet.psn));
            assert_eq!(bench.transmit(), []);
        }
        bench.receive(packet).unwrap();
    }
    assert_eq!(
        bench.host.host_calls,
        [
            HostCall::Received(0, 256),
            HostCall::Received(256, 44),
            HostCall::Completed(300, WcStatus::Success, 300),
        ]
    );
    assert_eq!(bench.transmit(), [ack(101)]);
    assert_eq!(bench.host.receives.len(), 1, "one receive was taken, once");
}

#[test]
fn a_write_with_immediate_data_waits_for_a_page_fault() {
    let mut bench = Bench::new();
    bench.post(0);
    let first = write(Position::First, 100, 256).with_reth(0x1000, 300);
    let last = write(Position::Last, 101, 44)
        .with_imm([1; 4])
        .with_ack_request();
    bench.receive(first).unwrap();
    bench.host.absent = true;
    assert_eq!(bench.deliver(last), Ok(Taken::Paused));
    assert_eq!(bench.host.completions, []);
    bench.receive(last).unwrap();
    assert_eq!(
        bench.host.host_calls.last(),
        Some(&HostCall::Completed(0, WcStatus::Success, 300))
    );
    assert_eq!(bench.transmit(), [ack(101)]);
}

#[test]
fn a_receive_held_during_a_page_fault_is_flushed() {
    let mut bench = Bench::new();
    bench.post(300);
    bench.host.absent = true;
    let packet = send(Position::Only, 100, 10);
    assert_eq!(bench.deliver(packet), Ok(Taken::Paused));
    bench.responder.fail();
    let flushed = bench.responder.flush_receive().unwrap();
    assert_eq!((flushed.wr_id, flushed.status), (300, WcStatus::WrFlushErr));
    assert_eq!(bench.responder.flush_receive(), None);
}
