// SPDX-License-Identifier: GPL-2.0

//! Requests of XRC: the SRQ that each of them names.

use super::*;

/// A responder of XRC, whose domain has the SRQs 7 and 8.
fn bench() -> Bench {
    let mut bench = Bench::with(|config| {
        config.connection = Connection::new(Service::Xrc, Qpn::new(2));
    });
    bench.host.srqs = vec![7, 8];
    bench
}

#[test]
fn each_packet_selects_the_srq_that_it_names() {
    let mut bench = bench();
    bench.post(600);
    for (position, psn, len) in [
        (Position::First, 100, 256),
        (Position::Middle, 101, 256),
        (Position::Last, 102, 88),
    ] {
        let packet = send(position, psn, len).for_srq(7);
        bench.receive(packet).unwrap();
    }
    let calls = [
        HostCall::Selected(7),
        HostCall::Received(0, 256),
        HostCall::Selected(7),
        HostCall::Received(256, 256),
        HostCall::Selected(7),
        HostCall::Received(512, 88),
        HostCall::Completed(600, WcStatus::Success, 600),
    ];
    assert_eq!(bench.host_calls(), calls);
    bench.post(1);
    bench
        .receive(send(Position::Only, 103, 1).with_ack_request().for_srq(8))
        .unwrap();
    assert_eq!(bench.responder.srqn(), Srqn::new(8));
    // An ACK has no XRCETH, but an opcode of XRC.
    let burst: Vec<_> = bench.responder.burst(ALL).collect();
    assert_eq!(burst[0].headers.opcode().to_byte(), 0xb1);
    assert_eq!(burst[0].headers.encoded_len(), 12 + 4);
}

#[test]
fn an_srq_that_is_not_in_the_domain_is_invalid() {
    for packet in [
        send(Position::Only, 100, 1),
        write(Position::Only, 100, 1).with_reth(0, 1),
        read(100, 0, 1),
    ] {
        let mut bench = bench();
        bench.post(1);
        bench.receive(packet.for_srq(9)).unwrap();
        assert_eq!(bench.host_calls(), []);
        assert_eq!(bench.responder.state(), ResponderState::Error);
        assert_eq!(bench.responder.take_event(), Some(Fatal::AccessError));
        assert_eq!(bench.transmit(), [aeth_packet(100, INVALID)]);
    }
}

#[test]
fn a_message_has_one_srq() {
    let mut bench = bench();
    bench.post(600);
    let first = send(Position::First, 100, 256).for_srq(7);
    bench.receive(first).unwrap();
    let _ = bench.host_calls();
    bench
        .receive(send(Position::Last, 101, 1).for_srq(8))
        .unwrap();
    assert_eq!(bench.host_calls(), []);
    assert_eq!(bench.responder.take_event(), Some(Fatal::RequestError));
    assert_eq!(bench.transmit(), [aeth_packet(101, INVALID)]);
    assert_eq!(bench.responder.srqn(), Srqn::new(7));
    let flushed = bench.responder.flush_receive().unwrap();
    assert_eq!((flushed.wr_id, flushed.status), (600, WcStatus::WrFlushErr));
}

#[test]
fn a_receive_that_was_taken_is_not_used_for_another_srq() {
    let mut bench = bench();
    bench.post(600);
    bench.host.absent = true;
    let taken = bench.deliver(send(Position::Only, 100, 256).for_srq(7));
    assert_eq!(taken, Ok(Taken::Paused));
    bench
        .receive(send(Position::Only, 100, 256).for_srq(8))
        .unwrap();
    assert_eq!(bench.transmit(), [aeth_packet(100, INVALID)]);
}

#[test]
fn the_response_to_a_read_names_its_srq() {
    let mut bench = bench();
    bench.receive(read(100, 0x100, 1).for_srq(7)).unwrap();
    bench.receive(read(101, 0x200, 1).for_srq(8)).unwrap();
    let srqs = |bench: &mut Bench| -> Vec<_> {
        let burst = bench.responder.burst(ALL);
        burst
            .filter_map(|segment| match segment.source {
                TxPayload::Remote(_, srqn) => Some(srqn.get()),
                _ => None,
            })
            .collect()
    };
    assert_eq!(srqs(&mut bench), [7, 8]);
    // A duplicate may name another one, which then counts; but none that is not in the domain.
    bench.receive(read(100, 0x100, 1).for_srq(8)).unwrap();
    assert_eq!(srqs(&mut bench), [8]);
    let foreign = read(100, 0x100, 1).for_srq(9);
    assert_eq!(bench.receive(foreign), Err(DropReason::UnknownDuplicate));
    assert_eq!(bench.responder.state(), ResponderState::Ready);
}

#[test]
fn requests_of_the_other_service_are_dropped() {
    let mut xrc = bench();
    let outcome = xrc.receive(send(Position::Only, 100, 1));
    assert_eq!(outcome, Err(DropReason::WrongService));
    let mut rc = Bench::new();
    let outcome = rc.receive(send(Position::Only, 100, 1).for_srq(7));
    assert_eq!(outcome, Err(DropReason::WrongService));
    assert_eq!((xrc.transmit(), rc.transmit()), (vec![], vec![]));
}
