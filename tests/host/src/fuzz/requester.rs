// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: a requester with arbitrary work requests, responses and timeouts, in any order. At
//! the end, a well-behaved peer responds, and all requests must complete.

use super::{
    bytes::Bytes,
    packets::{
        packet,
        MTU, //
    }, //
};
use roce::{
    access::Obstacle,
    congestion::Algorithm,
    id::{
        Msn,
        Pkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    message::connection::Connection,
    psn::Psn,
    rc::{
        requester::{
            FlowLimit,
            Requester,
            RequesterConfig,
            RequesterState,
            ResponseContext, //
        },
        send_window::Slot, //
    },
    segmentation::{
        mtu::{
            Mtu,
            MAX_PSNS, //
        },
        tx_desc::{
            BurstLimit,
            RxPayload,
            SlotIndex,
            TxPayload, //
        }, //
    },
    status::WcStatus,
    time::{
        Duration,
        Instant, //
    },
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        opcode::{
            Opcode,
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        LocalOp,
        Placement,
        Remote,
        SendOp,
        SendWr,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};
use std::collections::VecDeque;

mod peer;

/// Slots of the send queue.
const SLOTS: usize = 8;

/// READs and atomics outstanding at a time.
const MAX_RD_ATOMIC: u8 = 3;

/// Flow limit.
const FLOW_LIMIT: FlowLimit = FlowLimit {
    bytes: 16 * MTU,
    packets: 20,
};

/// The key that requests invalidate.
const INVALIDATED_RKEY: Rkey = Rkey::new(77);

/// Maximum length of a message to which the peer responds completely at the end.
const MAX_ANSWERED_BYTES: u32 = 64 * MTU;

/// A posted request.
#[derive(Clone, Copy, Debug)]
struct Posted {
    wr_id: u64,
    length: u32,
    /// `None` if it was rejected.
    op: Option<SendOp>,
    performed: bool,
    signaled: bool,
    slot: SlotIndex,
}

/// A requester and the expected state.
struct World {
    requester: Requester<Vec<Slot>>,
    now: Instant,
    posted: VecDeque<Posted>,
    next_id: u64,
    failed: bool,
    copies_fail: bool,
}

/// A context that copies nothing and checks the destinations.
struct TestContext<'a> {
    posted: &'a VecDeque<Posted>,
    copies_fail: bool,
}

impl ResponseContext for TestContext<'_> {
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>> {
        let posted = self.posted.iter().find(|posted| posted.slot == slot);
        let posted = posted.expect("a request in progress");
        let read = posted.op.is_some_and(|op| op.is_read());
        assert!(read, "only a READ has response data");
        assert_eq!(offset % MTU, 0);
        assert_eq!(payload.len, MTU.min(posted.length - offset));
        match self.copies_fail {
            true => Err(WcStatus::LocProtErr.into()),
            false => Ok(()),
        }
    }

    fn place_value(&mut self, slot: SlotIndex, _found: u64) -> Result<(), Obstacle<WcStatus>> {
        let posted = self.posted.iter().find(|posted| posted.slot == slot);
        let posted = posted.expect("a request in progress");
        assert!(matches!(posted.op, Some(SendOp::Atomic { .. })));
        match self.copies_fail {
            true => Err(WcStatus::LocProtErr.into()),
            false => Ok(()),
        }
    }

    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus> {
        assert_eq!(rkey, INVALIDATED_RKEY);
        match self.copies_fail {
            true => Err(WcStatus::LocQpOpErr),
            false => Ok(()),
        }
    }
}

/// Drives a requester with `data`.
///
/// # Panics
///
/// If a property is violated.
pub fn requester(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut world = World::new(&mut bytes);
    while !bytes.is_empty() {
        match bytes.below(16) {
            0..=3 => world.post(&mut bytes),
            4..=6 => world.send(&mut bytes),
            7..=11 => world.respond(&mut bytes),
            12 => match bytes.flag() {
                true => world.wait(&mut bytes),
                false => world.perform(bytes.byte() == 0),
            },
            13 | 14 => world.report(),
            _ => world.command(&mut bytes),
        }
        world.check();
    }
    world.finish();
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let mut world = Self {
            requester: Requester::new(vec![Slot::EMPTY; SLOTS]),
            now: Instant::from_nanos(1),
            posted: VecDeque::new(),
            next_id: 0,
            failed: false,
            copies_fail: false,
        };
        world.start(bytes);
        world
    }

    fn start(&mut self, bytes: &mut Bytes<'_>) {
        self.requester.init();
        self.requester.configure(&RequesterConfig {
            connection: Connection::new(Service::Rc, Qpn::new(2)),
            first_psn: Psn::new(bytes.number(1 << 19)),
            path_mtu: Mtu::Mtu256,
            max_rd_atomic: MAX_RD_ATOMIC,
            ack_timeout: 1 + bytes.byte() % 31,
            retry_cnt: 7,
            rnr_retry: 7,
            flow: FLOW_LIMIT,
            initial_window: FLOW_LIMIT.packets,
            congestion: Algorithm::Window,
        });
        self.requester.start();
        self.failed = false;
    }

    fn post(&mut self, bytes: &mut Bytes<'_>) {
        let flags = bytes.byte();
        let op = operation(bytes, flags);
        let wr_id = self.next_id;
        let length = match op {
            SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => 8,
            SendOp::Flush { .. } | SendOp::Local(_) => 0,
            _ => bytes.number(MTU),
        };
        // A rejected request is always reported.
        let signaled = flags >> 4 == 0 || bytes.flag();
        let slot = match flags >> 4 {
            0 => self
                .requester
                .reject(wr_id, WcOpcode::BindMw, WcStatus::LocQpOpErr),
            _ => self.requester.post(SendWr {
                wr_id,
                op,
                length,
                srqn: Srqn::default(),
                signaled,
                solicited: flags & 8 != 0,
                fence: flags & 9 == 9,
            }),
        };
        let full = self.posted.len() == SLOTS;
        assert_eq!(
            slot.is_none(),
            full || self.requester.state() == RequesterState::Reset
        );
        if let Some(slot) = slot {
            self.next_id += 1;
            self.posted.push_back(Posted {
                wr_id,
                length,
                op: (flags >> 4 != 0).then_some(op),
                performed: false,
                signaled,
                slot,
            });
        }
    }

    /// Executes local operations.
    fn perform(&mut self, fail: bool) {
        let posted = &mut self.posted;
        while self.requester.perform_local(|slot, op| {
            let index = posted.iter().position(|posted| posted.slot == slot);
            let index = index.expect("a request in progress");
            assert_eq!(posted[index].op, Some(SendOp::Local(op)));
            assert!(!posted[index].performed, "once");
            posted[index].performed = true;
            let before = posted.iter().take(index);
            let locals = before.filter(|p| matches!(p.op, Some(SendOp::Local(_))));
            assert!(locals.clone().all(|posted| posted.performed), "in order");
            match fail {
                true => Err(WcStatus::MwBindErr),
                false => Ok(()),
            }
        }) {}
    }

    fn send(&mut self, bytes: &mut Bytes<'_>) {
        let limit = BurstLimit {
            bytes: bytes.number(MTU),
            packets: u32::from(bytes.byte()),
        };
        let mut next = self.requester.next_psn();
        let probe_psn = self.requester.oldest_psn().sub(1);
        let (mut packets, mut sent) = (0, 0);
        let mut last_slot = None;
        let burst = self.requester.burst(self.now, limit);
        for desc in burst.sparse_ack_requests(bytes.flag()) {
            packets += 1;
            sent += u64::from(desc.length);
            assert!(desc.length <= MTU && packets <= limit.packets);
            let fits = sent <= u64::from(limit.bytes);
            assert!(packets == 1 || desc.length == 0 || fits);
            let headers = desc.headers.emit(desc.length as usize);
            let len = headers.len() + desc.length.next_multiple_of(4) as usize + 4;
            let packet = Packet::parse(headers.as_slice(), len).expect("a packet");
            assert!(packet.opcode().is_request());
            if packet.psn() == probe_psn {
                assert!(packet.ack_request() && len == headers.len() + 4 && packets == 1);
                continue;
            }
            if packet.psn().is_before(next) && packets == 1 {
                assert!(packet.ack_request(), "again, instead of a probe");
                next = packet.psn();
            }
            assert_eq!(packet.psn(), next, "consecutive");
            next = match packet.opcode().operation() {
                Operation::ReadRequest => {
                    let len = packet.reth().expect("a RETH").len;
                    next.add(Mtu::Mtu256.packets(len))
                }
                _ => next.next(),
            };
            if let TxPayload::Slot(slot) = desc.source {
                let posted = self.posted.iter().find(|posted| posted.slot == slot);
                let posted = posted.expect("a request in progress");
                assert!(desc.offset + desc.length <= posted.length);
                last_slot = Some(slot);
            }
        }
        if let (Some(slot), 0) = (last_slot, bytes.below(16)) {
            self.requester.abort(slot, WcStatus::LocProtErr);
        }
    }

    fn respond(&mut self, bytes: &mut Bytes<'_>) {
        self.copies_fail = bytes.byte() == 0xff;
        let oldest = self.requester.oldest_psn();
        let mut context = TestContext {
            posted: &self.posted,
            copies_fail: self.copies_fail,
        };
        let (requester, now) = (&mut self.requester, self.now);
        packet(bytes, oldest, |packet| {
            let _ = requester.handle_response(now, packet, &mut context);
        });
    }

    fn wait(&mut self, bytes: &mut Bytes<'_>) {
        if let (Some(deadline), true) = (self.requester.next_wake().at(), bytes.flag()) {
            self.now = self.now.max(deadline);
        }
        let nanos = u64::from(bytes.number(1 << 16));
        self.now = self.now.saturating_add(Duration::from_nanos(nanos));
        self.requester.handle_timeout(self.now);
    }

    fn command(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(8) {
            0 | 1 => self.requester.drain(),
            2..=4 => self.requester.resume(),
            5 => self.requester.fail(),
            6 => {
                let slot = SlotIndex(bytes.below(SLOTS) as u32);
                self.requester.abort(slot, WcStatus::LocProtErr);
            }
            _ => {
                self.requester.reset();
                self.posted.clear();
                assert_eq!(self.requester.poll_completion(), None);
                self.start(bytes);
            }
        }
    }

    fn report(&mut self) {
        while let Some(retired) = self.requester.poll_completion() {
            let posted = self.posted.pop_front().expect("each once");
            assert_eq!(retired.slot, posted.slot);
            let status = match retired.completion() {
                Some(completion) => {
                    assert_eq!(completion.wr_id, posted.wr_id);
                    let succeeded = completion.status == WcStatus::Success;
                    assert!(!succeeded || posted.signaled);
                    assert!(!succeeded || completion.byte_len == posted.length);
                    completion.status
                }
                None => {
                    assert!(!posted.signaled);
                    WcStatus::Success
                }
            };
            match status {
                WcStatus::Success => {
                    assert!(!self.failed, "nothing succeeds after a failure");
                    assert!(posted.length <= MAX_MESSAGE_BYTES);
                    let local = matches!(posted.op, Some(SendOp::Local(_)));
                    assert_eq!(posted.performed, local);
                }
                WcStatus::WrFlushErr => {
                    assert_eq!(self.requester.state(), RequesterState::Error);
                    self.failed = true;
                }
                status => {
                    assert!(!self.failed, "one request fails");
                    assert_eq!(self.requester.error(), Some(status));
                    self.failed = true;
                }
            }
        }
    }

    fn check(&self) {
        let requester = &self.requester;
        let oldest = requester.oldest_psn();
        let (next, high) = (
            requester.next_psn().since(oldest),
            requester.psn().since(oldest),
        );
        assert!(next <= high && high <= MAX_PSNS, "{next} {high}");
        let flight = requester.flight();
        assert!(flight.reads <= u32::from(MAX_RD_ATOMIC));
        // A single packet may exceed the limit.
        let max = self.max_flow();
        let within = flight.packets <= max.packets && flight.bytes <= max.bytes;
        assert!(within || flight.packets == 1, "{flight:?}");
        let active = matches!(
            requester.state(),
            RequesterState::Ready | RequesterState::Draining
        );
        if active {
            assert_eq!(flight.packets == 0, next == 0, "{flight:?} {next}");
            let waits = requester.next_wake().at().is_some() || requester.has_work();
            assert!(waits || flight.packets == 0, "a loss would not be detected");
        } else {
            assert_eq!(requester.next_wake().at(), None);
        }
    }
}

/// Chooses the operation of a request.
fn operation(bytes: &mut Bytes<'_>, flags: u8) -> SendOp {
    let remote = Remote {
        va: u64::from(bytes.byte()) << 40,
        rkey: Rkey::new(1),
    };
    let imm = (flags & 1 != 0).then_some(Imm([flags; 4]));
    match (flags & 6, bytes.below(8)) {
        (0, 0) => SendOp::SendInvalidate {
            rkey: INVALIDATED_RKEY,
        },
        (0, 1) => SendOp::Local(LocalOp::Bind),
        (0, 2) => SendOp::Local(LocalOp::Invalidate),
        (0, _) => SendOp::Send { imm },
        (2, 0) => SendOp::AtomicWrite { remote, value: 7 },
        (2, 1) => SendOp::Flush {
            remote,
            scope: FlushScope::Range(9),
            placement: Placement::Global,
        },
        (2, 2 | 3) => SendOp::Atomic {
            remote,
            op: AtomicOp::FetchAdd { add: 1 },
        },
        (2, _) => SendOp::Write { remote, imm },
        (_, 0) => SendOp::ReadInvalidate {
            remote,
            rkey: INVALIDATED_RKEY,
        },
        _ => SendOp::Read { remote },
    }
}
