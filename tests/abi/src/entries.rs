// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: arbitrary bytes as a WQE of a send queue and of a receive queue.
//!
//! The expected values are read a second time, by the offsets and numbers of `rdma_user_rxe.h` and
//! `ib_user_verbs.h`. Both readings must agree and stay within the bounds of the queue.

use crate::{
    abi::{
        request::{
            load_local,
            BodyLayout,
            RejectedWqe,
            SendRules,
            LOCAL_REQUEST_SGES, //
        },
        Abi, //
    },
    ib::{
        ring::Ring,
        wc::Wc,
        wr_op::{
            RemoteAddr,
            SendWrFields,
            WrArgs, //
        }, //
    },
    limits::{
        MAX_MESSAGE_BYTES,
        MAX_SGE, //
    },
    mem::sge::{
        total_length,
        Sge, //
    }, //
};
use roce::{
    bind::LocalRequest,
    status::WcStatus,
    wr::{
        AtomicOp,
        FlushScope,
        SendOp,
        SendWr,
        WcOpcode, //
    }, //
};
use roce_tests::fuzz::bytes::Bytes;
use zerocopy::{
    FromBytes,
    IntoBytes, //
};

/// Opcodes.
const WRITE: u32 = 0;
const WRITE_IMM: u32 = 1;
const SEND: u32 = 2;
const SEND_IMM: u32 = 3;
const READ: u32 = 4;
const SWAP: u32 = 5;
const ADD: u32 = 6;
const LOCAL_INV: u32 = 7;
const BIND: u32 = 8;
const SEND_INV: u32 = 9;
const READ_INV: u32 = 11;
const FLUSH: u32 = 14;
const ATOMIC_WRITE: u32 = 15;
const REG_MR: u32 = 32;

/// Flags.
const FENCE: u32 = 1;
const SIGNALED: u32 = 2;
const SOLICITED: u32 = 4;
const INLINE: u32 = 8;

/// Offset of the scatter/gather list, or inline data, of a send WQE.
const LIST: usize = 208;

/// A send WQE, read by offsets.
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }

    fn opcode(&self) -> u32 {
        self.u32(12)
    }

    fn has(&self, flag: u32) -> bool {
        self.u32(16) & flag != 0
    }

    fn length(&self) -> u32 {
        self.u32(184)
    }

    fn num_sge(&self) -> u32 {
        self.u32(196)
    }

    /// Returns whether payload is in the entry: by the flag, or as a length without SGEs.
    fn is_inline(&self) -> bool {
        self.has(INLINE) || (self.num_sge() == 0 && self.length() > 0)
    }

    /// Returns whether connected services support the operation.
    fn is_known(&self, rules: SendRules) -> bool {
        match self.opcode() {
            FLUSH => (1..=3).contains(&self.0[40]) && self.0[41] <= 1,
            WRITE..=SEND_INV | READ_INV | ATOMIC_WRITE => true,
            REG_MR => rules.is_kernel,
            _ => false,
        }
    }

    /// Returns the scatter/gather element at this index.
    fn sge(&self, index: u32) -> (u64, u32, u32) {
        let at = LIST + 16 * index as usize;
        (self.u64(at), self.u32(at + 8), self.u32(at + 12))
    }
}

/// What a WQE is decoded to.
#[derive(Debug, PartialEq)]
enum Message {
    /// An operation on memory keys.
    Local,
    /// This many bytes of inline data.
    Inline(u32),
    /// A list of this many SGEs.
    List(u32),
}

/// Decodes `data` as a send WQE and as a receive WQE, with bounds that it chooses. Encodes it as the request of a
/// kernel consumer, too.
///
/// # Panics
///
/// If a property is violated.
pub fn entries(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let max_sge = u32::from(bytes.byte()) % (MAX_SGE + 1);
    let rules = SendRules {
        max_sge,
        // They share the room of an entry.
        max_inline: (u32::from(bytes.byte()) * 2).min(16 * max_sge),
        signal_all: bytes.flag(),
        is_kernel: bytes.flag(),
    };
    let opcode = bytes.byte();
    let mut raw = [0; LIST + 16 * MAX_SGE as usize];
    for (to, from) in raw.iter_mut().zip(data.iter().skip(5)) {
        *to = *from;
    }
    // Random bytes alone would rarely contain a valid opcode, or a short list.
    if opcode < 0xf0 {
        let opcode = match opcode % 20 {
            19 => REG_MR,
            opcode => u32::from(opcode),
        };
        raw[12..16].copy_from_slice(&opcode.to_ne_bytes());
        raw[197..200].fill(0);
    }
    sends(&raw, rules);
    encoded(&raw, rules);
    receive(&raw, max_sge);
    completion(&Raw(&raw));
    lengths(&raw);
}

/// Checks a send WQE of a connected service, and of a datagram service.
fn sends(bytes: &[u8], rules: SendRules) {
    let (raw, ring) = (Raw(bytes), Ring::holding(bytes));
    let mut layout = BodyLayout::Scatter(0);
    let mut body = vec![Sge::default(); rules.max_sge.max(LOCAL_REQUEST_SGES) as usize];
    let decoded = Abi::Rxe.read_send(&ring, 0, rules, Some((&mut layout, &mut body)));
    let atomic = matches!(raw.opcode(), SWAP | ADD);
    let expected = message(&raw, rules).and_then(|(kind, length)| {
        if !raw.is_known(rules) {
            Err(WcStatus::LocQpOpErr)
        } else if atomic && length < 8 {
            Err(WcStatus::LocLenErr)
        } else {
            Ok((kind, length))
        }
    });
    match (decoded, expected) {
        (Ok(wr), Ok((kind, length))) => {
            work_request(&raw, &wr, rules, length);
            body_matches(&raw, layout, &body, &kind);
        }
        (Err(rejected), Err(status)) => is_rejected(&raw, rejected, status),
        (decoded, expected) => panic!("decoded {decoded:?}, expected {expected:?}"),
    }

    is_rejected(&raw, Abi::Rxe.read_flushed(&ring, 0), WcStatus::WrFlushErr);
    let decoded = Abi::Rxe.read_datagram(&ring, 0, rules, Some((&mut layout, &mut body)));
    let expected = message(&raw, rules).and_then(|message| match raw.opcode() {
        SEND | SEND_IMM => Ok(message),
        _ => Err(WcStatus::LocQpOpErr),
    });
    match (decoded, expected) {
        (Ok((wr, ah)), Ok((kind, length))) => {
            assert_eq!((wr.wr_id, wr.length, ah), (raw.u64(0), length, raw.u32(36)));
            assert_eq!(wr.remote_qpn.get(), raw.u32(24) & 0xff_ffff);
            assert_eq!(wr.remote_qkey.get(), raw.u32(28));
            assert_eq!(wr.imm.is_some(), raw.opcode() == SEND_IMM);
            assert_eq!(wr.signaled, rules.signal_all || raw.has(SIGNALED));
            body_matches(&raw, layout, &body, &kind);
        }
        (Err(rejected), Err(status)) => is_rejected(&raw, rejected, status),
        (decoded, expected) => panic!("decoded {decoded:?}, expected {expected:?}"),
    }
}

fn is_rejected(raw: &Raw<'_>, rejected: RejectedWqe, status: WcStatus) {
    assert_eq!((rejected.wr_id, rejected.status), (raw.u64(0), status));
    assert_eq!(rejected.opcode(), wc_opcode(raw.opcode()));
}

/// Returns the opcode of the completion of a request that was not executed.
pub(crate) fn wc_opcode(opcode: u32) -> WcOpcode {
    match opcode {
        WRITE | WRITE_IMM => WcOpcode::RdmaWrite,
        READ | READ_INV => WcOpcode::RdmaRead,
        SWAP => WcOpcode::CompSwap,
        ADD => WcOpcode::FetchAdd,
        LOCAL_INV => WcOpcode::LocalInv,
        BIND => WcOpcode::BindMw,
        FLUSH => WcOpcode::Flush,
        ATOMIC_WRITE => WcOpcode::AtomicWrite,
        REG_MR => WcOpcode::RegMr,
        _ => WcOpcode::Send,
    }
}

/// Returns the kind of message and its length.
fn message(raw: &Raw<'_>, rules: SendRules) -> Result<(Message, u32), WcStatus> {
    let with_payload = matches!(raw.opcode(), WRITE | WRITE_IMM | SEND | SEND_IMM | SEND_INV);
    let is_known = raw.is_known(rules);
    match raw.opcode() {
        LOCAL_INV | BIND => return Ok((Message::Local, 0)),
        REG_MR if is_known => return Ok((Message::Local, 0)),
        FLUSH | ATOMIC_WRITE if is_known => return Ok((Message::List(0), 0)),
        _ => {}
    }
    if with_payload && raw.is_inline() {
        return match raw.length() <= rules.max_inline {
            true => Ok((Message::Inline(raw.length()), raw.length())),
            false => Err(WcStatus::LocQpOpErr),
        };
    }
    let num_sge = raw.num_sge();
    if num_sge > rules.max_sge {
        return Err(WcStatus::LocQpOpErr);
    }
    let sum = (0..num_sge).map(|at| u64::from(raw.sge(at).1)).sum::<u64>();
    match u32::try_from(sum) {
        Ok(length) if length <= MAX_MESSAGE_BYTES => Ok((Message::List(num_sge), length)),
        _ => Err(WcStatus::LocLenErr),
    }
}

/// Checks where the message of a WQE is, and its copy.
fn body_matches(raw: &Raw<'_>, layout: BodyLayout, body: &[Sge], expected: &Message) {
    let kind = match layout {
        BodyLayout::LocalRequest => {
            local_request(raw, load_local(body).expect("it was stored"));
            Message::Local
        }
        BodyLayout::Inline(length) => {
            let end = LIST + length as usize;
            assert_eq!(body.as_bytes()[..length as usize], raw.0[LIST..end]);
            Message::Inline(length)
        }
        BodyLayout::Scatter(num_sge) => {
            for (at, sge) in (0..num_sge).zip(body) {
                assert_eq!((sge.addr, sge.length, sge.lkey), raw.sge(at));
            }
            Message::List(num_sge)
        }
    };
    assert_eq!(&kind, expected);
}

/// Checks the operands of an operation on memory keys.
fn local_request(raw: &Raw<'_>, request: LocalRequest) {
    let opcode = raw.opcode();
    match request {
        LocalRequest::Invalidate(rkey) => {
            assert_eq!((opcode, rkey.get()), (LOCAL_INV, raw.u32(20)));
        }
        LocalRequest::Bind(bind) => {
            assert_eq!(opcode, BIND);
            assert_eq!(
                (bind.range.iova, bind.range.length),
                (raw.u64(24), raw.u64(32))
            );
            assert_eq!(
                (bind.region.get(), bind.window.get()),
                (raw.u32(40), raw.u32(44))
            );
            assert_eq!(
                (u32::from(bind.key), bind.access.bits()),
                (raw.u32(48) & 0xff, raw.u32(52))
            );
        }
        LocalRequest::Register(reg) => {
            // The opcode is known only in rings of kernel consumers.
            assert_eq!(opcode, REG_MR);
            assert_eq!(
                (reg.iova, reg.key, reg.access.bits()),
                (raw.u64(24), raw.u32(32), raw.u32(36))
            );
        }
    }
}

/// Checks the work request of a connected service.
fn work_request(raw: &Raw<'_>, wr: &SendWr, rules: SendRules, length: u32) {
    let opcode = raw.opcode();
    assert_eq!(wr.wr_id, raw.u64(0));
    assert_eq!(wr.signaled, rules.signal_all || raw.has(SIGNALED));
    assert_eq!(
        (wr.solicited, wr.fence),
        (raw.has(SOLICITED), raw.has(FENCE))
    );
    let expected_length = match opcode {
        SWAP | ADD | ATOMIC_WRITE => 8,
        _ => length,
    };
    assert_eq!(wr.length, expected_length);
    operation(raw, wr.op);
}

/// Returns a request of a kernel consumer with the fields of an entry.
fn kernel_request(from: &Raw<'_>) -> Option<SendWrFields> {
    let remote = RemoteAddr {
        addr: from.u64(24),
        rkey: from.u32(32),
    };
    let args = match from.opcode() {
        WRITE | WRITE_IMM => WrArgs::Write(remote),
        READ | READ_INV => WrArgs::Read(remote),
        SWAP | ADD => WrArgs::Atomic {
            remote,
            compare_add: from.u64(40),
            swap: from.u64(48),
        },
        SEND | SEND_IMM if from.has(FENCE) => WrArgs::Datagram {
            remote_qpn: from.u32(24),
            remote_qkey: from.u32(28),
        },
        SEND | SEND_IMM | SEND_INV => WrArgs::Send,
        LOCAL_INV => WrArgs::Invalidate,
        REG_MR => WrArgs::Register {
            key: from.u32(32),
            iova: from.u64(24),
            access: from.u32(36),
        },
        _ => return None,
    };
    Some(SendWrFields {
        wr_id: from.u64(0),
        opcode: from.opcode(),
        flags: from.u32(16),
        ex: from.u32(20).to_ne_bytes(),
        args,
    })
}

/// Encodes a request of a kernel consumer, with fields from `bytes`. The entry must have them where the decoder expects
/// them, and is decoded as one of a process is.
fn encoded(bytes: &[u8], rules: SendRules) {
    let from = Raw(bytes);
    let Some(fields) = kernel_request(&from) else {
        return;
    };
    let ring = Ring::holding(bytes);
    let message = (from.num_sge(), from.length());
    assert_eq!(Abi::write_send(&ring, 7, &fields, message), LIST);
    let mut written = vec![0; bytes.len()];
    ring.read(0, 0, &mut written);
    let raw = Raw(&written);
    let flags = FENCE | SIGNALED | SOLICITED | INLINE;
    assert_eq!((raw.u64(0), raw.opcode()), (fields.wr_id, fields.opcode));
    assert_eq!(
        (raw.u32(16), raw.u32(20)),
        (fields.flags & flags, from.u32(20))
    );
    assert_eq!((raw.num_sge(), raw.length()), message);
    match fields.args {
        WrArgs::Write(remote) | WrArgs::Read(remote) => {
            assert_eq!((raw.u64(24), raw.u32(32)), (remote.addr, remote.rkey));
        }
        WrArgs::Atomic {
            remote,
            compare_add,
            swap,
        } => {
            assert_eq!((raw.u64(24), raw.u32(48)), (remote.addr, remote.rkey));
            assert_eq!((raw.u64(32), raw.u64(40)), (compare_add, swap));
        }
        WrArgs::Register { key, iova, access } => {
            assert_eq!((raw.u64(24), raw.u32(32), raw.u32(36)), (iova, key, access));
        }
        WrArgs::Datagram {
            remote_qpn,
            remote_qkey,
        } => assert_eq!(
            (raw.u32(24), raw.u32(28), raw.u32(36)),
            (remote_qpn, remote_qkey, 7)
        ),
        WrArgs::Send | WrArgs::Invalidate => {}
    }
    sends(&written, rules);
}

/// Checks the operation and its operands.
fn operation(raw: &Raw<'_>, op: SendOp) {
    let (opcode, ex) = (raw.opcode(), raw.u32(20));
    let imm_of = |opcode_with: u32| (opcode == opcode_with).then_some(ex.to_ne_bytes());
    let mut place = None;
    match op {
        SendOp::Send { imm } => {
            assert!(matches!(opcode, SEND | SEND_IMM));
            assert_eq!(imm.map(|imm| imm.0), imm_of(SEND_IMM));
        }
        SendOp::SendInvalidate { rkey } => assert_eq!((opcode, rkey.get()), (SEND_INV, ex)),
        SendOp::Write { remote, imm } => {
            assert!(matches!(opcode, WRITE | WRITE_IMM));
            assert_eq!(imm.map(|imm| imm.0), imm_of(WRITE_IMM));
            place = Some((remote, 32));
        }
        SendOp::Read { remote } => {
            assert_eq!(opcode, READ);
            place = Some((remote, 32));
        }
        SendOp::ReadInvalidate { remote, rkey } => {
            assert_eq!((opcode, rkey.get()), (READ_INV, ex));
            place = Some((remote, 32));
        }
        SendOp::Atomic { remote, op } => {
            place = Some((remote, 48));
            match op {
                AtomicOp::CompareSwap { compare, swap } => {
                    assert_eq!((opcode, compare, swap), (SWAP, raw.u64(32), raw.u64(40)));
                }
                AtomicOp::FetchAdd { add } => assert_eq!((opcode, add), (ADD, raw.u64(32))),
            }
        }
        SendOp::AtomicWrite { remote, value } => {
            assert_eq!((opcode, value), (ATOMIC_WRITE, raw.u64(208)));
            place = Some((remote, 32));
        }
        SendOp::Flush {
            remote,
            scope,
            placement,
        } => {
            assert_eq!((opcode, placement.bits()), (FLUSH, raw.0[40]));
            let range = (raw.0[41] == 0).then_some(raw.length());
            assert_eq!(scope, range.map_or(FlushScope::Region, FlushScope::Range));
            place = Some((remote, 36));
        }
        SendOp::Local(_) => assert!(matches!(opcode, LOCAL_INV | BIND | REG_MR)),
    }
    if let Some((remote, key)) = place {
        assert_eq!((remote.va, remote.rkey.get()), (raw.u64(24), raw.u32(key)));
    }
}

/// Checks a receive WQE, and one that a kernel consumer posts.
fn receive(bytes: &[u8], max_sge: u32) {
    let (raw, ring) = (Raw(bytes), Ring::holding(bytes));
    let mut body = [Sge::default(); MAX_SGE as usize];
    let decoded = Abi::Rxe.read_recv(&ring, 0, |num_sge| {
        assert_eq!(num_sge, raw.u32(28));
        let allowed = (num_sge <= max_sge).then_some(num_sge as usize);
        body.get_mut(..allowed?)
    });
    match decoded {
        Ok(wr) => {
            assert_eq!(wr.wr_id, raw.u64(0));
            let num_sge = raw.u32(28) as usize;
            let lengths = (0..num_sge).map(|at| u64::from(raw.u32(40 + 16 * at + 8)));
            let sum = lengths.sum::<u64>().min(u64::from(MAX_MESSAGE_BYTES));
            assert_eq!(u64::from(wr.length), sum);
            assert_eq!(body[..num_sge].as_bytes(), &bytes[40..40 + 16 * num_sge]);
        }
        Err(bad) => {
            assert_eq!((bad.wr_id, bad.status), (raw.u64(0), WcStatus::LocQpOpErr));
            assert!(raw.u32(28) > max_sge);
        }
    }
    assert_eq!(Abi::write_recv(&ring, 0, raw.u64(8), raw.u32(16)), 40);
    let mut written = [0; 40];
    ring.read(0, 0, &mut written);
    let written = Raw(&written);
    assert_eq!((written.u64(0), written.u32(28)), (raw.u64(8), raw.u32(16)));
}

/// Checks that the fields of a CQE are at the offsets that user space reads.
fn completion(raw: &Raw<'_>) {
    let wc = Wc {
        wr_id: raw.u64(0),
        status: raw.u32(8),
        opcode: raw.u32(12),
        byte_len: raw.u32(16),
        imm: raw.has(FENCE).then_some(raw.u32(20).to_ne_bytes()),
        invalidated: raw.has(SIGNALED).then_some(raw.u32(24)),
        qp_num: raw.u32(28),
        src_qp: raw.u32(32),
        grh: raw.has(SOLICITED),
    };
    let ring = Ring::holding(&[0; 48]);
    Abi::Rxe.write_completion(&ring, 0, &wc, 0);
    let mut cqe = [0; 48];
    ring.read(0, 0, &mut cqe);
    let raw_cqe = Raw(&cqe);
    assert_eq!(
        (raw_cqe.u64(0), raw_cqe.u32(8), raw_cqe.u32(12)),
        (wc.wr_id, wc.status, wc.opcode)
    );
    assert_eq!((raw_cqe.u32(16), raw_cqe.u32(20)), (0, wc.byte_len));
    let ex = wc.invalidated.or(wc.imm.map(u32::from_ne_bytes));
    assert_eq!(raw_cqe.u32(24), ex.unwrap_or(0));
    assert_eq!((raw_cqe.u32(28), raw_cqe.u32(32)), (wc.qp_num, wc.src_qp));
    let bits = [
        (wc.grh, 1),
        (wc.imm.is_some(), 2),
        (wc.invalidated.is_some(), 8),
    ];
    let flags = bits
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, bit)| bit)
        .sum::<u32>();
    assert_eq!(raw_cqe.u32(36), flags);
}

/// Checks that the lengths of a scatter/gather list are added without overflow.
fn lengths(bytes: &[u8]) {
    let sges: Vec<Sge> = bytes
        .chunks_exact(size_of::<Sge>())
        .map(|chunk| Sge::read_from_bytes(chunk).expect("enough bytes"))
        .collect();
    for count in 0..=sges.len() {
        let sum: u64 = sges[..count].iter().map(|sge| u64::from(sge.length)).sum();
        let expected = u32::try_from(sum)
            .ok()
            .filter(|&sum| sum <= MAX_MESSAGE_BYTES);
        assert_eq!(total_length(&sges[..count]), expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_tests::fuzz::run_bounded;

    #[test]
    fn any_bytes_are_decoded_or_rejected() {
        run_bounded("entries", 3, &[vec![0; 5 + LIST]], entries);
    }
}
