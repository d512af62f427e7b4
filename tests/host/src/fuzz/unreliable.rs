// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: an unreliable connection. Either a sender and a receiver with a network, whose faults
//! are chosen by the input, read from its end: each message is delivered completely, in order, once
//! or not at all. Or a receiver with arbitrary packets and context results.

use super::{
    bytes::Bytes,
    packets::{
        unreliable as packet,
        MTU, //
    },
    responder::TestContext, //
};
use crate::{
    net::{
        Fate,
        Faults,
        Net, //
    },
    pair::{
        pattern,
        request, //
    },
    unreliable::{
        Connection,
        MAX_MESSAGE_LEN, //
    }, //
};
use roce::{
    access::{
        Access,
        Taken, //
    },
    id::Rkey,
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::SlotIndex, //
    },
    status::WcStatus,
    time::Duration,
    uc::{
        receiver::{
            ReceiverConfig,
            UcReceiver,
            UcRecvState, //
        },
        sender::UcSendState, //
    },
    wr::{
        Imm,
        Remote,
        SendOp,
        SendWr,
        WcOpcode, //
    }, //
};
use std::{
    cell::Cell,
    rc::Rc, //
};

/// Messages sent at the end, over a network without faults.
const FAULT_FREE_MESSAGES: usize = 2;

/// A message. Its number is the immediate data.
struct Message {
    bytes: Vec<u8>,
    /// Destination of an RDMA WRITE; `None` for a SEND.
    remote: Option<Remote>,
    /// Whether the key is valid.
    key_valid: bool,
}

/// Drives an unreliable connection with `data`.
///
/// # Panics
///
/// If a property is violated.
pub fn unreliable(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    match bytes.flag() {
        true => connection(bytes, data),
        false => receiver(bytes),
    }
}

/// Sender and receiver with a network.
fn connection(mut bytes: Bytes<'_>, data: &[u8]) {
    let faulty = Rc::new(Cell::new(false));
    let mut net = Net::new(0, Faults::default());
    net.fault_hook = Some(Box::new(fault_hook(data.to_vec(), faulty.clone())));
    let mtu = Mtu::ALL[bytes.below(3)];
    let psn = Psn::new(bytes.number(1 << 19));
    let mut connection = Connection::new(mtu, psn, net);
    let mut messages = Vec::new();
    let mut receives_missing = false;
    while !bytes.is_empty() && messages.len() < 40 {
        receives_missing |= bytes.below(8) == 0;
        if !receives_missing || bytes.flag() {
            let va = connection.memory.alloc(MAX_MESSAGE_LEN);
            connection.receives.push_back(va);
        }
        match bytes.below(10) {
            0 => fail(&mut connection, &mut bytes),
            _ => messages.push(send(&mut connection, &mut bytes, messages.len())),
        }
    }
    connection.settle();
    connection.net = Net::new(0, Faults::default());
    let fault_free = messages.len();
    for _ in 0..FAULT_FREE_MESSAGES {
        let va = connection.memory.alloc(MAX_MESSAGE_LEN);
        connection.receives.push_back(va);
        messages.push(send(&mut connection, &mut Bytes::new(&[]), messages.len()));
    }
    connection.settle();
    let first_certain = match receives_missing || faulty.get() {
        true => fault_free,
        false => 0,
    };
    check(&connection, &messages, first_certain);
}

/// Fates of the frames, from the last bytes of the input backwards. After these, all frames pass.
fn fault_hook(mut fates: Vec<u8>, faulty: Rc<Cell<bool>>) -> impl FnMut(&crate::net::Sent) -> Fate {
    move |_| {
        let choice = fates.pop().unwrap_or(0);
        let fate = match choice & 7 {
            0..=3 => return Fate::Pass,
            4 => Fate::Drop,
            5 => Fate::Twice,
            6 => Fate::Damage,
            _ => Fate::Late(Duration::from_nanos(u64::from(choice >> 3) * 400)),
        };
        faulty.set(true);
        fate
    }
}

/// Sends a message. The sender is not notified of its arrival.
fn send(connection: &mut Connection, bytes: &mut Bytes<'_>, number: usize) -> Message {
    let choice = bytes.byte();
    let len = bytes.number(connection.mtu.bytes()) as usize % (MAX_MESSAGE_LEN + 1);
    let key_valid = choice & 0x30 != 0x30;
    let content = pattern(number as u64, len);
    let imm = Some(Imm((number as u32).to_be_bytes()));
    let remote = (choice & 1 != 0).then(|| {
        let va = connection.memory.alloc(MAX_MESSAGE_LEN);
        let access = Access::REMOTE_WRITE;
        let rkey = connection.memory.register(va, len, access);
        let rkey = if key_valid { rkey } else { Rkey::new(1) };
        Remote { va, rkey }
    });
    let op = match remote {
        Some(remote) => SendOp::Write { remote, imm },
        None => SendOp::Send { imm },
    };
    let wr = SendWr {
        wr_id: number as u64,
        signaled: choice & 2 != 0,
        ..request(op, len)
    };
    let packets = 1 + u32::from(choice >> 6);
    connection.send(wr, &content, || packets);
    Message {
        bytes: content,
        remote,
        key_valid: key_valid || remote.is_none() || len == 0,
    }
}

/// Posts a request that fails. Later requests are flushed until the send queue is reset.
fn fail(connection: &mut Connection, bytes: &mut Bytes<'_>) {
    let sender = &mut connection.sender;
    let send = request(SendOp::Send { imm: None }, 1);
    let status = match bytes.below(3) {
        0 => {
            sender.reject(SlotIndex(0), 7, WcOpcode::Send, WcStatus::LocQpOpErr);
            WcStatus::LocQpOpErr
        }
        1 => {
            sender.post(SlotIndex(0), send);
            sender.fail();
            WcStatus::WrFlushErr
        }
        _ => {
            sender.post(SlotIndex(0), send);
            sender.abort(WcStatus::LocProtErr);
            WcStatus::LocProtErr
        }
    };
    for status in [status, WcStatus::WrFlushErr] {
        assert_eq!(sender.state(), UcSendState::Error);
        let done = sender.poll_completion().expect("a completion");
        assert_eq!(done.status, status);
        let reported = done.completion().expect("a failure is always reported");
        assert_eq!(reported.status, status);
        assert_eq!(sender.poll_completion(), None, "once");
        sender.post(SlotIndex(0), send);
    }
    sender.reset();
    assert!(!sender.is_busy() && sender.poll_completion().is_none());
    sender.start();
}

/// Checks the delivered messages. All messages from `first_certain` on must be delivered.
fn check(connection: &Connection, messages: &[Message], first_certain: usize) {
    let imm = |imm: Option<Imm>| u32::from_be_bytes(imm.expect("each has a number").0) as usize;
    let numbers: Vec<_> = connection.done.iter().map(|done| imm(done.imm)).collect();
    let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(in_order, "in order, none twice: {numbers:?}");
    for (number, message) in messages.iter().enumerate() {
        let delivered = numbers.contains(&number);
        assert!(
            !delivered || message.key_valid,
            "delivered with an invalid key"
        );
        assert!(
            delivered || number < first_certain || !message.key_valid,
            "{number} is lost"
        );
    }
    for (done, &number) in connection.done.iter().zip(&numbers) {
        let message = &messages[number];
        let len = message.bytes.len();
        assert_eq!(
            (done.status, done.byte_len as usize),
            (WcStatus::Success, len)
        );
        let va = message.remote.map_or(done.wr_id, |remote| remote.va);
        assert!(
            connection.memory.get(va, len) == message.bytes,
            "right bytes"
        );
    }
    for message in messages {
        let Some(remote) = message.remote else {
            continue;
        };
        // A lost message may be placed in part, at the right offsets and not beyond its end.
        let found = connection.memory.get(remote.va, MAX_MESSAGE_LEN);
        let (inside, beyond) = found.split_at(message.bytes.len());
        let mut bytes = inside.iter().zip(&message.bytes);
        assert!(bytes.all(|(actual, sent)| *actual == 0xaa || message.key_valid && actual == sent));
        assert!(beyond.iter().all(|byte| *byte == 0xaa));
    }
}

/// A receiver without sender.
fn receiver(mut bytes: Bytes<'_>) {
    let mut context = TestContext::default();
    let mut receiver = UcReceiver::new();
    start(&mut receiver, &mut bytes);
    while !bytes.is_empty() {
        match bytes.below(8) {
            0..=4 => handle(&mut receiver, &mut context, &mut bytes),
            5 => context.posted += 1,
            6 => context.results = bytes.byte(),
            _ => command(&mut receiver, &mut context, &mut bytes),
        }
        let open = u64::from(context.in_progress.is_some());
        assert_eq!(context.completed + open, context.taken, "each receive once");
    }
}

fn start(receiver: &mut UcReceiver, bytes: &mut Bytes<'_>) {
    receiver.configure(&ReceiverConfig {
        expected_psn: Psn::new(bytes.number(1 << 19)),
        path_mtu: Mtu::Mtu256,
        access: Access::from_bits(u32::from(!bytes.byte())),
    });
    receiver.start();
    assert_eq!(Mtu::Mtu256.bytes(), MTU);
}

fn handle(receiver: &mut UcReceiver, context: &mut TestContext, bytes: &mut Bytes<'_>) {
    let before = receiver.expected_psn();
    let (calls, state) = (context.calls, receiver.state());
    let (psn, outcome) = packet(bytes, before, |packet| {
        context.in_write &= !packet.opcode().starts_message();
        loop {
            // Terminates: each repetition consumes result bits.
            match receiver.handle_request(packet, context) {
                Ok(Taken::Paused) => {
                    assert_eq!(receiver.expected_psn(), before, "the state is unchanged");
                }
                outcome => return (packet.psn(), outcome),
            }
        }
    });
    let late = psn != before && before.since(psn) <= roce::uc::receiver::MAX_LATE_PACKETS;
    if late || state != UcRecvState::Ready {
        assert!(outcome.is_err());
        assert_eq!(context.calls, calls, "a late packet has no effect");
        assert_eq!(receiver.expected_psn(), before);
    }
    let failed = receiver.take_failure();
    assert_eq!(
        failed,
        state == UcRecvState::Ready && receiver.state() == UcRecvState::Error
    );
}

fn command(receiver: &mut UcReceiver, context: &mut TestContext, bytes: &mut Bytes<'_>) {
    let reset = bytes.flag();
    receiver.fail();
    let open = context.in_progress.take().map(|wr| wr.wr_id);
    let flushed = receiver.flush_receive();
    assert_eq!(
        flushed.map(|done| (done.wr_id, done.status)),
        open.map(|id| (id, WcStatus::WrFlushErr))
    );
    context.completed += u64::from(flushed.is_some());
    if reset {
        receiver.reset();
        assert_eq!(receiver.flush_receive(), None);
        start(receiver, bytes);
    }
}
