// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: an unreliable connection. Either two halves with a network between them, which takes what it does
//! to each frame from the end of the input: each message is delivered whole, in order, once or not at all. Or a
//! receiver alone, under any packets and any host.

use super::{
    bytes::Bytes,
    packets::{
        unreliable as packet,
        MTU, //
    },
    responder::Host,
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
        LONGEST, //
    },
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

/// Messages that are sent in the end, over a network without faults.
const CALM: usize = 2;

/// A message; its number is in the immediate data.
struct Message {
    bytes: Vec<u8>,
    /// Where it goes, as a WRITE; otherwise it is a SEND.
    place: Option<Remote>,
    /// A right key was given.
    good: bool,
}

/// Makes an unreliable connection do what `data` says.
///
/// # Panics
///
/// If a promise is broken.
pub fn unreliable(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    match bytes.flag() {
        true => connection(bytes, data),
        false => receiver(bytes),
    }
}

/// Two halves.
fn connection(mut bytes: Bytes<'_>, data: &[u8]) {
    let harmed = Rc::new(Cell::new(false));
    let mut net = Net::new(0, Faults::default());
    net.meddle = Some(Box::new(meddle(data.to_vec(), harmed.clone())));
    let mtu = Mtu::ALL[bytes.below(3)];
    let psn = Psn::new(bytes.number(1 << 19));
    let mut connection = Connection::new(mtu, psn, net);
    let mut messages = Vec::new();
    let mut starved = false;
    while !bytes.is_empty() && messages.len() < 40 {
        starved |= bytes.below(8) == 0;
        if !starved || bytes.flag() {
            let va = connection.memory.alloc(LONGEST);
            connection.receives.push_back(va);
        }
        match bytes.below(10) {
            0 => fail(&mut connection, &mut bytes),
            _ => messages.push(send(&mut connection, &mut bytes, messages.len())),
        }
    }
    connection.settle();
    connection.net = Net::new(0, Faults::default());
    let calm = messages.len();
    for _ in 0..CALM {
        let va = connection.memory.alloc(LONGEST);
        connection.receives.push_back(va);
        messages.push(send(&mut connection, &mut Bytes::new(&[]), messages.len()));
    }
    connection.settle();
    let surely = match starved || harmed.get() {
        true => calm,
        false => 0,
    };
    check(&connection, &messages, surely);
}

/// What becomes of each frame, by the bytes from the last on. When there are no more, they pass.
fn meddle(mut fates: Vec<u8>, harmed: Rc<Cell<bool>>) -> impl FnMut(&crate::net::Sent) -> Fate {
    move |_| {
        let choice = fates.pop().unwrap_or(0);
        let fate = match choice & 7 {
            0..=3 => return Fate::Pass,
            4 => Fate::Drop,
            5 => Fate::Twice,
            6 => Fate::Damage,
            _ => Fate::Late(Duration::from_nanos(u64::from(choice >> 3) * 400)),
        };
        harmed.set(true);
        fate
    }
}

/// Sends a message. Whether it arrives, this half never learns.
fn send(connection: &mut Connection, bytes: &mut Bytes<'_>, number: usize) -> Message {
    let choice = bytes.byte();
    let len = bytes.number(connection.mtu.bytes()) as usize % (LONGEST + 1);
    let good = choice & 0x30 != 0x30;
    let content = pattern(number as u64, len);
    let imm = Some(Imm((number as u32).to_be_bytes()));
    let place = (choice & 1 != 0).then(|| {
        let va = connection.memory.alloc(LONGEST);
        let access = Access::REMOTE_WRITE;
        let rkey = connection.memory.register(va, len, access);
        let rkey = if good { rkey } else { Rkey::new(1) };
        Remote { va, rkey }
    });
    let op = match place {
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
        place,
        good: good || place.is_none() || len == 0,
    }
}

/// Posts what cannot be sent. Whatever is posted then is flushed, until the consumer goes on.
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
        let done = sender.poll_completion().expect("done with");
        assert_eq!(done.expect("a failure is told").status, status);
        assert_eq!(sender.poll_completion(), None, "once");
        sender.post(SlotIndex(0), send);
    }
    sender.reset();
    assert!(!sender.is_busy() && sender.poll_completion().is_none());
    sender.start();
}

/// Checks what was delivered; everything from message `surely` on must have been.
fn check(connection: &Connection, messages: &[Message], surely: usize) {
    let imm = |imm: Option<Imm>| u32::from_be_bytes(imm.expect("each has a number").0) as usize;
    let numbers: Vec<_> = connection.done.iter().map(|done| imm(done.imm)).collect();
    let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(in_order, "in order, none twice: {numbers:?}");
    for (number, message) in messages.iter().enumerate() {
        let delivered = numbers.contains(&number);
        assert!(!delivered || message.good, "with a wrong key");
        assert!(
            delivered || number < surely || !message.good,
            "{number} got lost"
        );
    }
    for (done, &number) in connection.done.iter().zip(&numbers) {
        let message = &messages[number];
        let len = message.bytes.len();
        assert_eq!(
            (done.status, done.byte_len as usize),
            (WcStatus::Success, len)
        );
        let va = message.place.map_or(done.wr_id, |place| place.va);
        assert!(
            connection.memory.get(va, len) == message.bytes,
            "right bytes"
        );
    }
    for message in messages {
        let Some(place) = message.place else {
            continue;
        };
        // Of a message that was lost, a part may be there, where it belongs; and nothing beyond.
        let found = connection.memory.get(place.va, LONGEST);
        let (inside, beyond) = found.split_at(message.bytes.len());
        let mut bytes = inside.iter().zip(&message.bytes);
        assert!(bytes.all(|(is, sent)| *is == 0xaa || message.good && is == sent));
        assert!(beyond.iter().all(|byte| *byte == 0xaa));
    }
}

/// A receiver alone.
fn receiver(mut bytes: Bytes<'_>) {
    let mut host = Host::default();
    let mut receiver = UcReceiver::new();
    start(&mut receiver, &mut bytes);
    while !bytes.is_empty() {
        match bytes.below(8) {
            0..=4 => handle(&mut receiver, &mut host, &mut bytes),
            5 => host.posted += 1,
            6 => host.refuse = bytes.byte(),
            _ => control(&mut receiver, &mut host, &mut bytes),
        }
        let open = u64::from(host.in_progress.is_some());
        assert_eq!(host.completed + open, host.taken, "each receive once");
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

fn handle(receiver: &mut UcReceiver, host: &mut Host, bytes: &mut Bytes<'_>) {
    let before = receiver.expected_psn();
    let (calls, state) = (host.calls, receiver.state());
    let (psn, outcome) = packet(bytes, before, |packet| loop {
        // Memory that is absent comes before the refusals run out.
        match receiver.handle_request(packet, host) {
            Ok(Taken::Paused) => {
                assert_eq!(receiver.expected_psn(), before, "nothing has happened")
            }
            outcome => return (packet.psn(), outcome),
        }
    });
    let late = psn != before && before.since(psn) <= roce::uc::receiver::MAX_LATE_PACKETS;
    if late || state != UcRecvState::Ready {
        assert!(outcome.is_err());
        assert_eq!(host.calls, calls, "what comes late has no effect");
        assert_eq!(receiver.expected_psn(), before);
    }
    let failed = receiver.take_failure();
    assert_eq!(
        failed,
        state == UcRecvState::Ready && receiver.state() == UcRecvState::Error
    );
}

fn control(receiver: &mut UcReceiver, host: &mut Host, bytes: &mut Bytes<'_>) {
    let reset = bytes.flag();
    receiver.fail();
    let open = host.in_progress.take().map(|wr| wr.wr_id);
    let flushed = receiver.flush_receive();
    assert_eq!(
        flushed.map(|done| (done.wr_id, done.status)),
        open.map(|id| (id, WcStatus::WrFlushErr))
    );
    host.completed += u64::from(flushed.is_some());
    if reset {
        receiver.reset();
        assert_eq!(receiver.flush_receive(), None);
        start(receiver, bytes);
    }
}
