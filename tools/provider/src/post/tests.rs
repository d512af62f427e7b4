// SPDX-License-Identifier: GPL-2.0

//! Tests of posting to rings in memory.

use super::*;
use crate::{
    abi::direct::ring::{
        CONSUMER,
        HEAD_WORDS, //
    },
    ffi::memory::halves,
    ring::tests::{
        memory,
        set, //
    },
};
use core::sync::atomic::{
    AtomicU64,
    Ordering, //
};

const LIMITS: Limits = Limits {
    max_sge: 2,
    max_inline: 32,
    datagrams: false,
    xrc: false,
};

const SGE: Sge = Sge {
    addr: 1,
    length: 100,
    lkey: 3,
};

fn queue(memory: &[AtomicU64]) -> SendQueue<&[AtomicU64]> {
    SendQueue::new(Ring::new(memory, 64).unwrap(), LIMITS)
}

fn head(opcode: u8) -> Head {
    Head {
        opcode,
        ..Head::default()
    }
}

fn producer(memory: &[AtomicU64]) -> u32 {
    halves(memory)[16].load(Ordering::Acquire)
}

#[test]
fn a_list_is_published_at_once() {
    let memory = memory(4, 64, 0);
    let mut queue = queue(&memory);
    queue.start();
    for _ in 0..3 {
        queue.begin(head(opcode::SEND), Target::None);
        queue.set_list(&[SGE; 2]);
    }
    assert_eq!(producer(&memory), 0);
    assert_eq!(queue.finish(), Ok((3, 600)));
    assert_eq!(producer(&memory), 3);
}

#[test]
fn nothing_is_published_if_one_request_is_wrong() {
    let memory = memory(4, 64, 0);
    let mut queue = queue(&memory);
    queue.start();
    queue.begin(head(opcode::SEND), Target::None);
    queue.set_list(&[SGE; 3]);
    queue.begin(head(opcode::SEND), Target::None);
    queue.set_list(&[SGE; 1]);
    assert_eq!(queue.finish(), Err(Errno::INVAL));
    assert_eq!(producer(&memory), 0);
    // The next list is not concerned.
    queue.start();
    queue.begin(head(opcode::SEND), Target::None);
    assert_eq!(queue.finish(), Ok((1, 0)));
}

#[test]
fn an_aborted_list_leaves_no_trace() {
    let memory = memory(4, 64, 0);
    let mut queue = queue(&memory);
    for _ in 0..10 {
        queue.start();
        queue.begin(head(opcode::SEND), Target::None);
    }
    queue.start();
    assert_eq!(queue.finish(), Ok((0, 0)));
    assert_eq!(producer(&memory), 0);
}

#[test]
fn a_full_queue_is_said_to_be() {
    let memory = memory(2, 64, 0);
    let mut queue = queue(&memory);
    queue.start();
    for _ in 0..3 {
        queue.begin(head(opcode::SEND), Target::None);
    }
    assert_eq!(queue.finish(), Err(Errno::NOMEM));
    queue.start();
    queue.begin(head(opcode::SEND), Target::None);
    queue.begin(head(opcode::SEND), Target::None);
    assert_eq!(queue.finish(), Ok((2, 0)));
    queue.start();
    queue.begin(head(opcode::SEND), Target::None);
    // What follows must not change the request before.
    queue.set_list(&[SGE]);
    assert_eq!(queue.finish(), Err(Errno::NOMEM));
    assert_eq!(memory[HEAD_WORDS + 8 + 4].load(Ordering::Relaxed), 0);
    set(&memory, CONSUMER, 1);
    queue.start();
    queue.begin(head(opcode::SEND), Target::None);
    assert_eq!(queue.finish(), Ok((1, 0)));
}

#[test]
fn a_message_without_a_request_is_wrong() {
    let memory = memory(2, 64, 0);
    let mut queue = queue(&memory);
    queue.start();
    queue.set_list(&[SGE]);
    assert_eq!(queue.finish(), Err(Errno::INVAL));
}

#[test]
fn operations_that_have_no_list_accept_none() {
    let memory = memory(8, 64, 0);
    let mut queue = queue(&memory);
    for opcode in [opcode::LOCAL_INV, opcode::FLUSH, opcode::ATOMIC_WRITE] {
        queue.start();
        queue.begin(head(opcode), Target::None);
        queue.set_list(&[]);
        assert!(queue.finish().is_ok());
        queue.start();
        queue.begin(head(opcode), Target::None);
        queue.set_list(&[SGE]);
        assert_eq!(queue.finish(), Err(Errno::INVAL));
    }
    for (opcode, list) in [
        (opcode::ATOMIC_CMP_AND_SWP, &[SGE; 2][..]),
        (opcode::ATOMIC_FETCH_AND_ADD, &[]),
    ] {
        queue.start();
        queue.begin(head(opcode), Target::None);
        queue.set_list(list);
        assert_eq!(queue.finish(), Err(Errno::INVAL));
    }
}

#[test]
fn inline_data_obeys_the_limit_and_the_opcode() {
    let memory = memory(8, 128, 0);
    let mut queue = queue(&memory);
    let mut post = |opcode, length| {
        queue.start();
        queue.begin(head(opcode), Target::None);
        queue.set_inline([UserBytes::new(&[7; 64][..length])].into_iter());
        queue.finish()
    };
    assert_eq!(post(opcode::SEND, 32), Ok((1, 32)));
    assert_eq!(post(opcode::SEND, 33), Err(Errno::INVAL));
    assert_eq!(post(opcode::RDMA_READ, 8), Err(Errno::INVAL));
}

#[test]
fn receives_obey_their_limits() {
    let memory = memory(2, 64, 0);
    let mut queue = RecvQueue::new(Ring::new(&memory[..], 32).unwrap(), 2);
    assert_eq!(queue.write(1, &[SGE; 3]), Err(Errno::INVAL));
    assert_eq!(queue.write(1, &[SGE; 2]), Ok(()));
    assert_eq!(queue.write(2, &[]), Ok(()));
    assert_eq!(queue.write(3, &[]), Err(Errno::NOMEM));
}
