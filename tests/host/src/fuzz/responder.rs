// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: a responder under any requests and any host, in any order.

use super::{
    bytes::Bytes,
    packets::{
        packet,
        MTU, //
    },
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle,
        Taken, //
    },
    id::{
        Pkey,
        Qpn,
        Rkey, //
    },
    psn::Psn,
    rc::{
        replay::ReplayEntry,
        responder::{
            RequestContext,
            Responder,
            ResponderConfig, //
            ResponderState,
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
        opcode::Operation,
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

/// That a request is missing.
const GAP: Syndrome = Syndrome::Nak(NakCode::PsnSequence);

/// A host that grants and refuses as the fuzzer likes, and checks that it is asked properly.
#[derive(Default)]
pub(super) struct Host {
    /// What the next calls say: one bit each.
    pub(super) refuse: u8,
    /// Receives posted and not taken.
    pub(super) posted: u32,
    pub(super) taken: u64,
    pub(super) completed: u64,
    pub(super) in_progress: Option<RecvWr>,
    /// What was granted, for how many bytes and for what.
    granted: Vec<(Remote, u32, Access)>,
    /// Calls of any kind.
    pub(super) calls: u64,
}

impl Host {
    fn refuses(&mut self) -> bool {
        self.calls += 1;
        let refuse = self.refuse & 1 != 0;
        self.refuse >>= 1;
        refuse
    }

    /// A copy works, is refused, or finds memory absent.
    fn outcome<E>(&mut self, error: E) -> Result<(), Obstacle<E>> {
        match (self.refuses(), self.refuses()) {
            (false, _) => Ok(()),
            (true, false) => Err(Obstacle::Refused(error)),
            (true, true) => Err(Obstacle::Absent),
        }
    }

    fn granted(&self, remote: Remote, len: u32, access: Access) -> bool {
        self.granted.iter().any(|(place, length, what)| {
            let offset = remote.va.wrapping_sub(place.va);
            *what == access
                && remote.rkey == place.rkey
                && offset
                    .checked_add(len.into())
                    .is_some_and(|end| end <= u64::from(*length))
        })
    }
}

impl RecvContext for Host {
    fn take_receive(&mut self) -> Option<Result<RecvWr, BadRecv>> {
        let bad = self.refuses();
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
        self.outcome(WcStatus::LocProtErr)
    }

    fn check_remote(
        &mut self,
        remote: Remote,
        length: u32,
        access: Access,
    ) -> Result<(), Obstacle<AccessError>> {
        assert!(length > 0 && length <= 1 << 31);
        if self.refuses() {
            return Err(AccessError::Key.into());
        }
        self.granted.push((remote, length, access));
        Ok(())
    }

    fn place_remote(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>> {
        assert!(payload.len > 0 && payload.len <= MTU);
        assert!(self.granted(remote, payload.len, Access::REMOTE_WRITE));
        self.outcome(AccessError::Fault)
    }

    fn complete_receive(&mut self, completion: Completion, _solicited: bool) {
        self.calls += 1;
        self.completed += 1;
        assert_eq!(completion.wr_id, self.completed, "in order, each once");
        self.in_progress = None;
    }
}

impl RequestContext for Host {
    fn execute_atomic(
        &mut self,
        remote: Remote,
        _op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>> {
        assert_eq!(remote.va % 8, 0);
        match self.refuses() {
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
        match self.refuses() {
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
        match self.refuses() {
            true => Err(AccessError::Key.into()),
            false => Ok(()),
        }
    }

    fn invalidate(&mut self, _rkey: Rkey) -> Result<(), AccessError> {
        match self.refuses() {
            true => Err(AccessError::Key),
            false => Ok(()),
        }
    }
}

/// Makes a responder do what `data` says.
///
/// # Panics
///
/// If a promise is broken.
pub fn responder(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut host = Host::default();
    let mut responder = Responder::new(vec![ReplayEntry::EMPTY; bytes.below(4)]);
    start(&mut responder, &mut bytes);
    while !bytes.is_empty() {
        match bytes.below(16) {
            0..=8 => handle(&mut responder, &mut host, &mut bytes),
            9 | 10 => host.posted += 1,
            11 | 12 => send(&mut responder, &host, &mut bytes),
            13 => host.refuse = bytes.byte(),
            14 => {
                responder.replace_storage(vec![ReplayEntry::EMPTY; bytes.below(4)]);
            }
            _ => control(&mut responder, &mut host, &mut bytes),
        }
        let open = u64::from(host.in_progress.is_some());
        assert_eq!(host.completed + open, host.taken, "each receive once");
    }
}

fn start(responder: &mut Responder<Vec<ReplayEntry>>, bytes: &mut Bytes<'_>) {
    responder.init();
    responder.configure(&ResponderConfig {
        dest_qpn: Qpn::new(2),
        pkey: Pkey::DEFAULT,
        expected_psn: Psn::new(bytes.number(1 << 19)),
        path_mtu: Mtu::Mtu256,
        access: Access::from_bits(u32::from(!bytes.byte())),
        min_rnr_timer: 3,
    });
    responder.start();
}

fn handle(responder: &mut Responder<Vec<ReplayEntry>>, host: &mut Host, bytes: &mut Bytes<'_>) {
    let (calls, before) = (host.calls, responder.expected_psn());
    let ready = responder.state() == ResponderState::Ready;
    let (psn, outcome) = packet(bytes, before, |packet| {
        loop {
            // Memory that is absent comes before the refusals run out.
            match responder.handle_request(packet, host) {
                Ok(Taken::Paused) => {
                    assert_eq!(responder.expected_psn(), before, "nothing has happened");
                }
                outcome => return (packet.psn(), outcome),
            }
        }
    });
    let moved = responder.expected_psn().since(before);
    if psn != before || outcome.is_err() || !ready {
        assert_eq!(moved, 0, "only the expected request is carried out");
        assert_eq!(host.calls, calls, "and only it has an effect");
    }
    assert!(moved <= 1 << 23);
    if responder.state() == ResponderState::Error {
        assert_eq!(moved, 0);
    }
}

fn send(responder: &mut Responder<Vec<ReplayEntry>>, host: &Host, bytes: &mut Bytes<'_>) {
    let limit = BurstLimit {
        bytes: bytes.number(MTU),
        packets: u32::from(bytes.byte()),
    };
    let (mut sent, mut packets, mut final_word) = (0, 0, None);
    for segment in responder.burst(limit) {
        assert!(segment.length <= MTU);
        packets += 1;
        sent += u64::from(segment.length);
        assert!(packets <= limit.packets);
        let fits = sent <= u64::from(limit.bytes);
        assert!(packets == 1 || segment.length == 0 || fits);
        let headers = segment.headers.emit(segment.length as usize);
        let len = headers.len() + segment.length.next_multiple_of(4) as usize + 4;
        let packet = Packet::parse(headers.as_slice(), len).expect("a packet");
        assert!(packet.opcode().is_response());
        let word = packet.aeth().map(|aeth| aeth.syndrome);
        if let Some(before) = final_word {
            let both = (before, word) == (GAP, Some(Syndrome::ACK_UNLIMITED));
            assert!(
                both,
                "nothing follows but an acknowledgement, and that a gap"
            );
        }
        match segment.source {
            TxPayload::Remote(remote) => {
                assert!(host.granted(remote, segment.length, Access::REMOTE_READ));
            }
            _ => {
                assert_eq!(segment.length, 0);
                if packet.opcode().operation() == Operation::Acknowledge {
                    final_word = word;
                }
            }
        }
    }
}

fn control(responder: &mut Responder<Vec<ReplayEntry>>, host: &mut Host, bytes: &mut Bytes<'_>) {
    match bytes.below(4) {
        0 => {
            let before = responder.state();
            responder.abort_read(1, AccessError::Fault);
            // Nothing changes if it was a repetition.
            assert!(
                responder.state() == before || responder.has_work(),
                "the peer is told"
            );
        }
        1 => responder.fail(),
        2 => {
            responder.fail();
            let taken = host.in_progress.map(|wr| wr.wr_id);
            let flushed = responder.flush_receive();
            // A write with immediate data takes its receive and completes it at once.
            assert_eq!(flushed.map(|completion| completion.wr_id), taken);
            if flushed.is_some() {
                host.completed += 1;
                host.in_progress = None;
            }
        }
        _ => {
            if responder.flush_receive().is_some() {
                host.completed += 1;
                host.in_progress = None;
            }
            responder.reset();
            assert!(!responder.has_work());
            start(responder, bytes);
        }
    }
}
