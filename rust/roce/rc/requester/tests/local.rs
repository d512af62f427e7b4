// SPDX-License-Identifier: GPL-2.0

//! Requests that take no packet: their turn, their order, their failures.

use super::*;
use crate::wr::LocalOp;

const BIND: SendOp = SendOp::Local(LocalOp::Bind);
const REGISTER: SendOp = SendOp::Local(LocalOp::Register);
const INVALIDATE: SendOp = SendOp::Local(LocalOp::Invalidate);

impl Bench {
    /// Carries out what can be; says which.
    fn execute_local(&mut self) -> Vec<(u32, LocalOp)> {
        let mut performed = Vec::new();
        while self.requester.perform_local(|slot, op| {
            performed.push((slot.0, op));
            Ok(())
        }) {}
        performed
    }
}

#[test]
fn a_bind_is_carried_out_in_its_turn_and_completes_in_order() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(SEND, 2);
    assert_eq!(bench.execute_local(), [], "the SEND is not sent yet");
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(bench.requester.has_work());
    assert_eq!(bench.execute_local(), [(1, LocalOp::Bind)]);
    assert_eq!(psns(&bench.transmit()), [101], "it took no PSN");
    assert_eq!(bench.completions(), [], "the SEND before is not complete");
    bench.receive(ack(100)).unwrap();
    let done = WcStatus::Success;
    assert_eq!(bench.completions(), [(1, done), (0, done)]);
    bench.receive(ack(101)).unwrap();
    assert_eq!(bench.completions(), [(2, done)]);
}

#[test]
fn local_requests_alone_complete_at_once() {
    let mut bench = Bench::new();
    bench.post(REGISTER, 0);
    bench.post(INVALIDATE, 0);
    bench.post(BIND, 0);
    assert_eq!(
        bench.execute_local(),
        [
            (0, LocalOp::Register),
            (1, LocalOp::Invalidate),
            (2, LocalOp::Bind)
        ]
    );
    assert_eq!(bench.completions().len(), 3);
    assert_eq!(bench.requester.poll_timeout(), None);
    assert!(!bench.requester.has_work());
}

#[test]
fn an_invalidation_waits_for_all_before_it() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(INVALIDATE, 0);
    bench.post(SEND, 2);
    bench.transmit();
    assert_eq!(bench.execute_local(), []);
    assert_eq!(bench.transmit(), [], "nor is it overtaken");
    assert!(!bench.requester.has_work());
    bench.receive(ack(100)).unwrap();
    assert_eq!(bench.execute_local(), [(1, LocalOp::Invalidate)]);
    assert_eq!(psns(&bench.transmit()), [101]);
}

#[test]
fn a_fenced_bind_waits_for_reads_only() {
    let mut bench = Bench::new();
    bench.post(READ, 1);
    bench.post(SEND, 2);
    let mut wr = request(BIND, 0);
    wr.fence = true;
    bench.requester.post(wr).unwrap();
    bench.transmit();
    assert_eq!(bench.execute_local(), []);
    bench.receive_data(100, 1).unwrap();
    assert_eq!(bench.execute_local(), [(2, LocalOp::Bind)]);
}

#[test]
fn what_is_sent_again_does_not_carry_it_out_again() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(REGISTER, 0);
    bench.post(SEND, 2);
    bench.transmit();
    assert_eq!(bench.execute_local().len(), 2);
    bench.transmit();
    assert!(bench.wait(T));
    assert_eq!(psns(&bench.transmit()), [100, 101]);
    assert_eq!(bench.execute_local(), []);
    bench.receive(ack(101)).unwrap();
    assert_eq!(bench.completions().len(), 4);
}

#[test]
fn a_packet_before_it_can_be_taken_back() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(SEND, 2);
    bench.transmit();
    bench.execute_local();
    bench.transmit();
    assert!(bench.wait(T));
    let one = BurstLimit {
        bytes: 1,
        packets: 1,
    };
    assert_eq!(psns(&bench.transmit_up_to(one)), [100]);
    bench.requester.unsend(1);
    assert_eq!(psns(&bench.transmit()), [100, 101]);
    assert_eq!(bench.requester.flight().packets, 2);
}

#[test]
fn one_that_fails_ends_the_queue_when_all_before_it_is_complete() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(SEND, 2);
    bench.transmit();
    assert!(bench
        .requester
        .perform_local(|_, _| Err(WcStatus::MwBindErr)));
    assert!(!bench.requester.perform_local(|_, _| Ok(())), "not again");
    assert_eq!(bench.transmit(), [], "nothing after it is sent");
    assert_eq!(bench.completions(), []);
    bench.receive(ack(100)).unwrap();
    let flushed = WcStatus::WrFlushErr;
    assert_eq!(
        bench.completions(),
        [
            (1, WcStatus::Success),
            (0, WcStatus::MwBindErr),
            (2, flushed)
        ]
    );
    assert_eq!(bench.requester.error(), Some(WcStatus::MwBindErr));
}

#[test]
fn nothing_local_begins_while_the_queue_drains_or_before_it_starts() {
    let mut bench = Bench::new();
    bench.requester.drain();
    bench.post(BIND, 0);
    assert_eq!(bench.execute_local(), []);
    assert!(bench.requester.is_drained());
    bench.requester.resume();
    assert_eq!(bench.execute_local(), [(0, LocalOp::Bind)]);

    bench.requester.reset();
    bench.requester.init();
    bench.post(BIND, 0);
    assert_eq!(bench.execute_local(), []);
    assert!(!bench.requester.has_work());
    bench.requester.start();
    assert_eq!(bench.execute_local(), [(1, LocalOp::Bind)]);
}

#[test]
fn in_the_error_state_it_is_flushed() {
    let mut bench = Bench::new();
    bench.post(BIND, 0);
    bench.requester.fail();
    assert_eq!(bench.execute_local(), []);
    assert_eq!(bench.completions(), [(0, WcStatus::WrFlushErr)]);
}
