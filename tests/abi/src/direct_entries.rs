// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: arbitrary bytes as entries of the ABI of ferroce's own provider.
//!
//! The expected values are read a second time, by the offsets of `ferroce-abi.h`. Both readings must agree and stay
//! within the bounds of the queue.

use crate::{
    abi::{
        request::{
            load_local,
            BodyLayout,
            SendRules,
            LOCAL_REQUEST_SGES, //
        },
        Abi, //
    },
    entries::wc_opcode,
    ib::{
        ring::Ring,
        udata::OpenRequest,
        wc::Wc, //
    },
    limits::{
        MAX_MESSAGE_BYTES,
        MAX_SGE, //
    },
    mem::sge::Sge, //
};
use roce::{
    bind::LocalRequest,
    status::WcStatus,
    wr::{
        AtomicOp,
        FlushScope,
        SendOp,
        SendWr, //
    }, //
};
use roce_tests::fuzz::bytes::Bytes;
use zerocopy::IntoBytes;

/// Opcodes.
const WRITE: u8 = 0;
const WRITE_IMM: u8 = 1;
const SEND: u8 = 2;
const SEND_IMM: u8 = 3;
const READ: u8 = 4;
const SWAP: u8 = 5;
const ADD: u8 = 6;
const LOCAL_INV: u8 = 7;
const BIND: u8 = 8;
const SEND_INV: u8 = 9;
const FLUSH: u8 = 14;
const ATOMIC_WRITE: u8 = 15;

/// Offset of the list.
const LIST: usize = 32;

/// The ABI.
const DIRECT: Abi = Abi::Direct { no_doorbell: true };

/// Length of the longest entry.
const ENTRY: usize = LIST + 16 * MAX_SGE as usize;

/// An entry, read by offsets.
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn u16(&self, at: usize) -> u32 {
        u32::from(u16::from_ne_bytes([self.0[at], self.0[at + 1]]))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    fn opcode(&self) -> u8 {
        self.0[8]
    }

    fn has(&self, flag: u8) -> bool {
        self.0[9] & flag != 0
    }

    /// Returns the length of `count` SGEs at `at`.
    fn length(&self, at: usize, count: u32) -> u64 {
        let lengths = (0..count as usize).map(|sge| u64::from(self.u32(at + 16 * sge + 8)));
        lengths.sum()
    }
}

/// Decodes `data` as a send WQE and as a receive WQE, with bounds that it chooses, and encodes it as a CQE.
///
/// # Panics
///
/// If a property is violated.
pub fn direct_entries(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let max_sge = u32::from(bytes.byte()) % (MAX_SGE + 1);
    let rules = SendRules {
        max_sge,
        max_inline: (u32::from(bytes.byte()) * 2).min(16 * max_sge),
        signal_all: bytes.flag(),
        is_kernel: false,
    };
    let mut raw = [0; ENTRY];
    for (to, from) in raw.iter_mut().zip(data.iter().skip(4)) {
        *to = *from;
    }
    // Random bytes alone would rarely contain a valid opcode, or a short list.
    if bytes.byte() < 0xf0 {
        raw[8] %= 17;
        raw[11] = 0;
    }
    send(&raw, rules);
    datagram(&raw, rules);
    receive(&raw, max_sge);
    completion(&Raw(&raw));
    negotiation(&raw);
}

/// Returns the length of the message, or the status of a request without one.
fn expected_length(raw: &Raw<'_>, rules: SendRules) -> Result<u32, WcStatus> {
    let count = raw.u16(10);
    let invalid = Err(WcStatus::LocQpOpErr);
    match raw.opcode() {
        WRITE | WRITE_IMM | SEND | SEND_IMM | SEND_INV if raw.has(8) => {
            match count <= rules.max_inline {
                true => Ok(count),
                false => invalid,
            }
        }
        WRITE | WRITE_IMM | SEND | SEND_IMM | SEND_INV | READ => {
            if count > rules.max_sge {
                return invalid;
            }
            match u32::try_from(raw.length(LIST, count)) {
                Ok(length) if length <= MAX_MESSAGE_BYTES => Ok(length),
                _ => Err(WcStatus::LocLenErr),
            }
        }
        SWAP | ADD => match raw.u32(LIST + 24) {
            ..8 => Err(WcStatus::LocLenErr),
            _ => Ok(8),
        },
        ATOMIC_WRITE => Ok(8),
        FLUSH => match (1..=3).contains(&raw.0[36]) && raw.0[37] <= 1 {
            true => Ok(0),
            false => invalid,
        },
        LOCAL_INV | BIND => Ok(0),
        _ => invalid,
    }
}

fn send(bytes: &[u8], rules: SendRules) {
    let (raw, ring) = (Raw(bytes), Ring::holding(bytes));
    let mut layout = BodyLayout::Scatter(0);
    let mut body = vec![Sge::default(); rules.max_sge.max(LOCAL_REQUEST_SGES) as usize];
    let opcode = wc_opcode(raw.opcode().into());
    let flushed = DIRECT.read_flushed(&ring, 0);
    assert_eq!(
        (flushed.wr_id, flushed.status, flushed.opcode()),
        (raw.u64(0), WcStatus::WrFlushErr, opcode)
    );
    let decoded = DIRECT.read_send(&ring, 0, rules, Some((&mut layout, &mut body)));
    match (decoded, expected_length(&raw, rules)) {
        (Ok(wr), Ok(length)) => {
            assert_eq!((wr.wr_id, wr.length), (raw.u64(0), length));
            assert_eq!(wr.signaled, rules.signal_all || raw.has(2));
            assert_eq!((wr.fence, wr.solicited), (raw.has(1), raw.has(4)));
            operation(&raw, &wr);
            message(&raw, layout, &body);
        }
        (Err(rejected), Err(status)) => {
            assert_eq!((rejected.wr_id, rejected.status), (raw.u64(0), status));
            assert_eq!(rejected.opcode(), opcode);
        }
        (decoded, expected) => panic!("decoded {decoded:?}, expected {expected:?}"),
    }
}

fn operation(raw: &Raw<'_>, wr: &SendWr) {
    let (remote, with_imm) = match wr.op {
        SendOp::Send { imm } => (None, imm.is_some()),
        SendOp::Write { remote, imm } => (Some(remote), imm.is_some()),
        SendOp::Read { remote } => (Some(remote), false),
        SendOp::SendInvalidate { rkey } => {
            assert_eq!(rkey.get(), raw.u32(12));
            (None, false)
        }
        SendOp::Atomic { remote, op } => {
            match op {
                AtomicOp::CompareSwap { compare, swap } => {
                    assert_eq!((compare, swap), (raw.u64(32), raw.u64(40)));
                }
                AtomicOp::FetchAdd { add } => assert_eq!(add, raw.u64(32)),
            }
            (Some(remote), false)
        }
        SendOp::AtomicWrite { remote, value } => {
            assert_eq!(value, raw.u64(32));
            (Some(remote), false)
        }
        SendOp::Flush { remote, scope, .. } => {
            if let FlushScope::Range(length) = scope {
                assert_eq!(length, raw.u32(32));
            }
            (Some(remote), false)
        }
        SendOp::ReadInvalidate { .. } => panic!("no process may ask for it"),
        SendOp::Local(_) => (None, false),
    };
    assert_eq!(with_imm, matches!(raw.opcode(), SEND_IMM | WRITE_IMM));
    if let Some(remote) = remote {
        assert_eq!((remote.va, remote.rkey.get()), (raw.u64(16), raw.u32(24)));
    }
}

fn message(raw: &Raw<'_>, layout: BodyLayout, body: &[Sge]) {
    match layout {
        BodyLayout::Inline(length) => {
            let data = &raw.0[LIST..LIST + length as usize];
            assert_eq!(&body.as_bytes()[..length as usize], data);
        }
        BodyLayout::Scatter(count) => {
            let at = match raw.opcode() {
                SWAP | ADD => LIST + 16,
                _ => LIST,
            };
            let list = &raw.0[at..at + 16 * count as usize];
            assert_eq!(body[..count as usize].as_bytes(), list);
        }
        BodyLayout::LocalRequest => match load_local(body).expect("it was stored") {
            LocalRequest::Invalidate(rkey) => assert_eq!(rkey.get(), raw.u32(12)),
            LocalRequest::Bind(bind) => {
                let (range, window) = (bind.range, bind.window.get());
                assert_eq!((range.iova, window), (raw.u64(16), raw.u32(24)));
                assert_eq!(
                    (range.length, bind.region.get()),
                    (raw.u64(32), raw.u32(40))
                );
                assert_eq!(u32::from(bind.key), raw.u32(44) & 0xff);
                assert_eq!(bind.access.bits(), raw.u32(48));
            }
            LocalRequest::Register(_) => panic!("no process may ask for it"),
        },
    }
}

fn datagram(bytes: &[u8], rules: SendRules) {
    let (raw, ring) = (Raw(bytes), Ring::holding(bytes));
    let mut layout = BodyLayout::Scatter(0);
    let mut body = vec![Sge::default(); rules.max_sge.max(LOCAL_REQUEST_SGES) as usize];
    let decoded = DIRECT.read_datagram(&ring, 0, rules, Some((&mut layout, &mut body)));
    if let Ok((wr, ah)) = decoded {
        assert!(matches!(raw.opcode(), SEND | SEND_IMM));
        assert_eq!((wr.wr_id, ah), (raw.u64(0), raw.u32(24)));
        assert_eq!(wr.remote_qpn.get(), raw.u32(16) & 0xff_ffff);
        assert_eq!(wr.remote_qkey.get(), raw.u32(20));
        assert_eq!(Ok(wr.length), expected_length(&raw, rules));
    }
}

fn receive(bytes: &[u8], max_sge: u32) {
    let (raw, ring) = (Raw(bytes), Ring::holding(bytes));
    let mut body = [Sge::default(); MAX_SGE as usize];
    let count = raw.u32(8);
    let decoded = DIRECT.read_recv(&ring, 0, |asked| {
        assert_eq!(asked, count);
        body.get_mut(..(asked <= max_sge).then_some(asked as usize)?)
    });
    match decoded {
        Ok(wr) => {
            let length = raw.length(16, count).min(u64::from(MAX_MESSAGE_BYTES));
            assert_eq!((wr.wr_id, u64::from(wr.length)), (raw.u64(0), length));
            let count = count as usize;
            assert_eq!(body[..count].as_bytes(), &bytes[16..16 + 16 * count]);
        }
        Err(bad) => {
            assert_eq!((bad.wr_id, bad.status), (raw.u64(0), WcStatus::LocQpOpErr));
            assert!(count > max_sge);
        }
    }
}

fn completion(raw: &Raw<'_>) {
    let wc = Wc {
        wr_id: raw.u64(0),
        status: raw.u32(8),
        opcode: raw.u32(12),
        byte_len: raw.u32(16),
        imm: raw.has(1).then_some(raw.u32(20).to_ne_bytes()),
        invalidated: raw.has(2).then_some(raw.u32(24)),
        qp_num: raw.u32(28),
        src_qp: raw.u32(32),
        grh: raw.has(4),
    };
    let (ring, index) = (Ring::holding(&[0xff; 64]), raw.u32(36));
    DIRECT.write_completion(&ring, index, &wc, raw.u64(40));
    let bytes = ring.bytes();
    let cqe = Raw(&bytes);
    assert_eq!(cqe.u64(0), wc.wr_id);
    assert_eq!((cqe.u32(8), cqe.u32(12)), (wc.status, wc.opcode));
    assert_eq!((cqe.u32(16), cqe.u32(20)), (0, wc.byte_len));
    let extra = wc.invalidated.or(wc.imm.map(u32::from_ne_bytes));
    assert_eq!(cqe.u32(24), extra.unwrap_or(0));
    assert_eq!((cqe.u32(28), cqe.u32(32)), (wc.qp_num, wc.src_qp));
    assert_eq!(cqe.u64(40), raw.u64(40), "the timestamp");
    assert_eq!(cqe.u32(60), index.wrapping_add(1), "the turn");
}

/// A context has this ABI only if the magic number and the version are right.
fn negotiation(bytes: &[u8]) {
    let mut asked = bytes[..16].to_vec();
    if bytes[16] & 1 == 0 {
        asked[..4].copy_from_slice(&0x4645_5252_u32.to_ne_bytes());
    }
    let mut request = OpenRequest(asked, Vec::new());
    let raw = Raw(&request.0);
    let known = (raw.u16(4)..=raw.u16(6)).contains(&1);
    let expected = raw.u32(0) == 0x4645_5252 && known;
    let features = raw.u64(8) & 1;
    let no_doorbell = features != 0;
    let granted = Abi::negotiate(&mut request).ok();
    if expected {
        let response = Raw(&request.1);
        assert_eq!((response.u32(0), response.u64(8)), (1, features));
    }
    assert_eq!(
        granted,
        expected.then_some(Some(Abi::Direct { no_doorbell }))
    );
    assert_eq!(request.1.len(), if expected { 16 } else { 0 });
    let nothing = &mut OpenRequest::default();
    assert_eq!(Abi::negotiate(nothing).ok(), Some(None));
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_tests::fuzz::run_bounded;

    #[test]
    fn any_bytes_are_decoded_or_rejected() {
        run_bounded("direct_entries", 3, &[vec![0; 4 + ENTRY]], direct_entries);
    }
}
