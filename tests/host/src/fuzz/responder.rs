// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: a responder with arbitrary requests, context results and commands, in any order.

use super::{
    bytes::Bytes,
    packets::{
        packet,
        MTU, //
    }, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle,
        Taken, //
    },
    id::{
        Qpn,
        Rkey, //
    },
    message::connection::Connection,
    psn::Psn,
    rc::{
        replay::ReplayEntry,
        responder::{
            RequestContext,
            Responder,
            ResponderConfig,
            ResponderState, //
        }, //
    },
    recv_context::RecvContext,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            RxPayload,
            TxPayload, //
        }, //
    },
    status::{
        NakCode,
        WcStatus, //
    },
    wire::{
        aeth::Syndrome,
        opcode::{
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::{
        AtomicOp,
        BadRecv,
        Completion,
        FlushScope,
        Placement,
        RecvWr,
        Remote, //
    }, //
};

/// The PSN sequence error NAK.
const SEQUENCE_NAK: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

/// A context whose results the fuzzer chooses. It checks its arguments.
#[derive(Default)]
pub(super) struct TestContext {
    /// Results of the next calls, one bit each: 1 fails.
    pub(super) results: u8,
    /// Number of receives posted and not taken.
    pub(super) posted: u32,
    pub(super) taken: u64,
    pub(super) completed: u64,
    pub(super) in_progress: Option<RecvWr>,
    /// Accesses granted: address, length and right.
    granted: Vec<(Remote, u32, Access)>,
    /// A WRITE of several packets is in progress.
    pub(super) in_write: bool,
    /// Number of calls with an effect. A check of a key has none.
    pub(super) calls: u64,
}

impl TestContext {
    fn next_fails(&mut self) -> bool {
        self.calls += 1;
        self.next_result()
    }

    fn next_result(&mut self) -> bool {
        let fails = self.results & 1 != 0;
        self.results >>= 1;
        fails
    }

    /// Result of a copy: success, failure, or memory not present.
    fn copy_result<E>(&mut self, error: E) -> Result<(), Obstacle<E>> {
        match (self.next_fails(), self.next_fails()) {
            (false, _) => Ok(()),
            (true, false) => Err(Obstacle::Refused(error)),
            (true, true) => Err(Obstacle::Absent),
        }
    }

    fn granted(&self, remote: Remote, len: u32, access: Access) -> bool {
        self.granted.iter().any(|(start, length, right)| {
            let offset = remote.va.wrapping_sub(start.va);
            *right == access
                && remote.rkey == start.rkey
                && offset
                    .checked_add(len.into())
                    .is_some_and(|end| end <= u64::from(*length))
        })
    }
}

impl RecvContext for TestContext {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let bad = self.next_fails();
        self.posted = self.posted.checked_sub(1)?;
        self.taken += 1;
        let wr_id = self.taken;
        if bad {
            let status = WcStatus::LocQpOpErr;
            return Some(Err(BadRecv { wr_id, status }));
        }
        let length = MTU * (self.taken as u32 % 4);
        let wr = RecvWr { wr_id, length };
        self.in_progress = Some(wr);
        Some(Ok(wr))
    }

    fn place_receive(&mut self, offset: u32, payload: RxPayload) -> Result<(), Obstacle<WcStatus>> {
        let wr = self.in_progress.expect("a receive in progress");
        assert!(payload.len > 0 && payload.len <= MTU);
        assert!(
            offset + payload.len <= wr.length,
            "past the end of the receive"
        );
        assert_eq!(offset % MTU, 0);
        self.copy_result(WcStatus::LocProtErr)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        assert!(length > 0 && length <= 1 << 31);
        if self.next_result() {
            return Err(AccessError::Key.into());
        }
        self.granted.push((remote, length, access));
        Ok(())
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
        left: u32,
    ) -> Result<(), Obstacle<AccessError>> {
        assert!(payload.len > 0 && payload.len <= MTU && payload.len <= left);
        // A message of one packet needs no check before.
        let is_more = left != payload.len;
        if is_more || self.in_write {
            assert!(self.granted(remote, left, Access::REMOTE_WRITE));
        }
        let result = self.copy_result(AccessError::Fault);
        if result != Err(Obstacle::Absent) {
            self.in_write = is_more && result.is_ok();
        }
        result
    }

    fn complete_receive(&mut self, completion: Completion, _solicited: bool) {
        self.calls += 1;
        self.completed += 1;
        assert_eq!(completion.wr_id, self.completed, "in order, each once");
        self.in_progress = None;
    }
}

impl RequestContext for TestContext {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        _op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        assert_eq!(remote.va % 8, 0);
        match self.next_fails() {
            true => Err(AccessError::Key.into()),
            false => Ok(self.calls),
        }
    }

    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_eq!((remote.va % 8, payload.len), (0, 8));
        match self.next_fails() {
            true => Err(AccessError::Key.into()),
            false => Ok(()),
        }
    }

    fn flush(
        &mut self,
        _remote: Remote,
        scope: FlushScope,
        _placement: Placement,
    ) -> Result<(), Obstacle<AccessError>> {
        assert_ne!(scope, FlushScope::Range(0));
        match self.next_fails() {
            true => Err(AccessError::Key.into()),
            false => Ok(()),
        }
    }

    fn invalidate(&mut self, _rkey: Rkey) -> Result<(), AccessError> {
        match self.next_fails() {
            true => Err(AccessError::Key),
            false => Ok(()),
        }
    }
}

/// Drives a responder with `data`.
///
/// # Panics
///
/// If a property is violated.
pub fn responder(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut context = TestContext::default();
    let mut responder = Responder::new(vec![ReplayEntry::EMPTY; bytes.below(4)]);
    start(&mut responder, &mut bytes);
    while !bytes.is_empty() {
        match bytes.below(16) {
            0..=8 => handle(&mut responder, &mut context, &mut bytes),
            9 | 10 => context.posted += 1,
            11 | 12 => send(&mut responder, &context, &mut bytes),
            13 => context.results = bytes.byte(),
            14 => {
                responder.replace_storage(vec![ReplayEntry::EMPTY; bytes.below(4)]);
            }
            _ => command(&mut responder, &mut context, &mut bytes),
        }
        let open = u64::from(context.in_progress.is_some());
        assert_eq!(context.completed + open, context.taken, "each receive once");
    }
}

fn start(responder: &mut Responder<Vec<ReplayEntry>>, bytes: &mut Bytes<'_>) {
    responder.init();
    responder.configure(&ResponderConfig {
        connection: Connection::new(Service::Rc, Qpn::new(2)),
        expected_psn: Psn::new(bytes.number(1 << 19)),
        path_mtu: Mtu::Mtu256,
        access: Access::from_bits(u32::from(!bytes.byte())),
        min_rnr_timer: 3,
    });
    responder.start();
}

fn handle(
    responder: &mut Responder<Vec<ReplayEntry>>,
    context: &mut TestContext,
    bytes: &mut Bytes<'_>,
) {
    let (calls, before) = (context.calls, responder.expected_psn());
    let ready = responder.state() == ResponderState::Ready;
    let (psn, outcome) = packet(bytes, before, |packet| {
        context.in_write &= !packet.opcode().starts_message();
        loop {
            // Terminates: each repetition consumes result bits.
            match responder.handle_request(packet, context) {
                Ok(Taken::Paused) => {
                    assert_eq!(responder.expected_psn(), before, "the state is unchanged");
                }
                outcome => return (packet.psn(), outcome),
            }
        }
    });
    let advanced = responder.expected_psn().since(before);
    if psn != before || outcome.is_err() || !ready {
        assert_eq!(advanced, 0, "only the expected request is executed");
        assert_eq!(
            context.calls, calls,
            "only the expected request has an effect"
        );
    }
    assert!(advanced <= 1 << 23);
    if responder.state() == ResponderState::Error {
        assert_eq!(advanced, 0);
    }
}

fn send(responder: &mut Responder<Vec<ReplayEntry>>, context: &TestContext, bytes: &mut Bytes<'_>) {
    let limit = BurstLimit {
        bytes: bytes.number(MTU),
        packets: u32::from(bytes.byte()),
    };
    let (mut sent, mut packets, mut last_ack) = (0, 0, None);
    for desc in responder.burst(limit) {
        assert!(desc.length <= MTU);
        packets += 1;
        sent += u64::from(desc.length);
        assert!(packets <= limit.packets);
        let fits = sent <= u64::from(limit.bytes);
        assert!(packets == 1 || desc.length == 0 || fits);
        let headers = desc.headers.emit(desc.length as usize);
        let len = headers.len() + desc.length.next_multiple_of(4) as usize + 4;
        let packet = Packet::parse(headers.as_slice(), len).expect("a packet");
        assert!(packet.opcode().is_response());
        let syndrome = packet.aeth().map(|aeth| aeth.syndrome);
        if let Some(before) = last_ack {
            let both = (before, syndrome) == (SEQUENCE_NAK, Some(Syndrome::ACK_UNLIMITED));
            assert!(both, "only an ACK may follow, after a sequence NAK");
        }
        match desc.source {
            TxPayload::Remote(remote, _) => {
                assert!(context.granted(remote, desc.length, Access::REMOTE_READ));
            }
            _ => {
                assert_eq!(desc.length, 0);
                if packet.opcode().operation() == Operation::Acknowledge {
                    last_ack = syndrome;
                }
            }
        }
    }
}

fn command(
    responder: &mut Responder<Vec<ReplayEntry>>,
    context: &mut TestContext,
    bytes: &mut Bytes<'_>,
) {
    match bytes.below(4) {
        0 => {
            let before = responder.state();
            responder.abort_read(1, AccessError::Fault);
            // Nothing changes if it was a duplicate READ.
            assert!(
                responder.state() == before || responder.has_work(),
                "a NAK is pending"
            );
        }
        1 => responder.fail(),
        2 => {
            responder.fail();
            let taken = context.in_progress.map(|wr| wr.wr_id);
            let flushed = responder.flush_receive();
            // An RDMA WRITE with immediate data takes its receive and completes it at once.
            assert_eq!(flushed.map(|completion| completion.wr_id), taken);
            if flushed.is_some() {
                context.completed += 1;
                context.in_progress = None;
            }
        }
        _ => {
            if responder.flush_receive().is_some() {
                context.completed += 1;
                context.in_progress = None;
            }
            responder.reset();
            assert!(!responder.has_work());
            start(responder, bytes);
        }
    }
}
