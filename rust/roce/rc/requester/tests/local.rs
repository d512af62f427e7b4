// SPDX-License-Identifier: GPL-2.0

//! Local operations: order, fences, failures.

use super::*;
use crate::wr::LocalOp;

const BIND: SendOp = SendOp::Local(LocalOp::Bind);
const REGISTER: SendOp = SendOp::Local(LocalOp::Register);
const INVALIDATE: SendOp = SendOp::Local(LocalOp::Invalidate);

impl Bench {
    /// Executes all ready local operations and returns them.
    fn execute_local(&mut self) -> Vec<(u32, LocalOp)> {
        let mut executed = Vec::new();
        while self.requester.perform_local(|slot, op| {
            executed.push((slot.0, op));
            Ok(())
        }) {}
        executed
    }
}

#[test]
fn a_bind_is_executed_and_completes_in_order() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(SEND, 2);
    assert_eq!(bench.execute_local(), [], "the SEND is not sent yet");
    assert_eq!(psns(&bench.transmit()), [100]);
    assert!(bench.requester.has_work());
    assert_eq!(bench.execute_local(), [(1, LocalOp::Bind)]);
    assert_eq!(psns(&bench.transmit()), [101], "it uses no PSN");
    assert_eq!(bench.completions(), [], "the earlier SEND is not complete");
    bench.receive(ack(100)).unwrap();
    let done = WcStatus::Success;
    assert_eq!(bench.completions(), [(1, done), (0, done)]);
    bench.receive(ack(101)).unwrap();
    assert_eq!(bench.completions(), [(2, done)]);
}

#[test]
fn local_operations_alone_complete_at_once() {
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
    assert_eq!(bench.requester.next_wake().at(), None);
    assert!(!bench.requester.has_work());
}

#[test]
fn an_invalidation_waits_for_all_earlier_requests() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(INVALIDATE, 0);
    bench.post(SEND, 2);
    bench.transmit();
    assert_eq!(bench.execute_local(), []);
    assert_eq!(bench.transmit(), [], "later requests wait");
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
fn a_retransmission_does_not_execute_it_again() {
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
fn a_packet_before_it_can_be_unsent() {
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
fn a_failed_one_fails_the_queue_after_earlier_completions() {
    let mut bench = Bench::new();
    bench.post(SEND, 1);
    bench.post(BIND, 0);
    bench.post(SEND, 2);
    bench.transmit();
    assert!(bench
        .requester
        .perform_local(|_, _| Err(WcStatus::MwBindErr)));
    assert!(
        !bench.requester.perform_local(|_, _| Ok(())),
        "it is not executed again"
    );
    assert_eq!(bench.transmit(), [], "no later request is sent");
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
fn none_is_executed_while_draining_or_before_the_start() {
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
