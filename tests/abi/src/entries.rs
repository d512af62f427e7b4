// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: arbitrary bytes as a WQE of a send queue and of a receive queue.
//!
//! The expected values are read a second time, by the offsets and numbers of `rdma_user_rxe.h` and
//! `ib_user_verbs.h`. Both readings must agree and stay within the bounds of the queue.

use crate::{
    abi::{
        cqe::Cqe,
        send_op::LocalRequest,
        wqe::{
            total_length,
            BodyLayout,
            RecvWqe,
            SendWqe,
            WqeBounds,
            WqeSge, //
        }, //
    },
    limits::{
        MAX_INLINE_BYTES,
        MAX_MESSAGE_BYTES,
        MAX_SGE, //
    }, //
};
use roce::{
    status::WcStatus,
    wr::{
        AtomicOp,
        FlushScope,
        SendOp, //
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

/// Flags.
const FENCE: u32 = 1;
const SIGNALED: u32 = 2;
const SOLICITED: u32 = 4;
const INLINE: u32 = 8;

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
    fn is_known(&self) -> bool {
        match self.opcode() {
            FLUSH => (1..=3).contains(&self.0[40]) && self.0[41] <= 1,
            WRITE..=SEND_INV | READ_INV | ATOMIC_WRITE => true,
            _ => false,
        }
    }
}

/// Decodes `data` as a send WQE and as a receive WQE, with bounds that it chooses.
///
/// # Panics
///
/// If a property is violated.
pub fn entries(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let bounds = WqeBounds {
        max_sge: u32::from(bytes.byte()) % (MAX_SGE + 1),
        max_inline: (u32::from(bytes.byte()) * 2).min(MAX_INLINE_BYTES),
    };
    let opcode = bytes.byte();
    let signal_all = bytes.flag();
    let mut raw = [0; SendWqe::FIXED_LEN + 8];
    for (to, from) in raw.iter_mut().zip(data.iter().skip(4)) {
        *to = *from;
    }
    // Random bytes alone would rarely contain a valid opcode.
    if opcode < 0xf0 {
        raw[12..16].copy_from_slice(&u32::from(opcode % 20).to_ne_bytes());
    }
    let raw = Raw(&raw);
    let wqe = SendWqe::new(
        core::array::from_fn(|at| raw.u64(8 * at)),
        core::array::from_fn(|at| raw.u64(SendWqe::TAIL_OFFSET + 8 * at)),
    );
    layout(&raw, &wqe, bounds);
    work_request(&raw, &wqe, signal_all);
    datagram(&raw, &wqe, signal_all);
    receive(raw.0, bounds);
    completion(&raw);
    lengths(raw.0);
}

/// Checks the location of the message.
fn layout(raw: &Raw<'_>, wqe: &SendWqe, bounds: WqeBounds) {
    let opcode = raw.opcode();
    let with_payload = matches!(opcode, WRITE | WRITE_IMM | SEND | SEND_IMM | SEND_INV);
    match wqe.layout(bounds) {
        Ok(BodyLayout::LocalRequest(LocalRequest::Invalidate(rkey))) => {
            assert_eq!((opcode, rkey.get()), (LOCAL_INV, raw.u32(20)));
        }
        Ok(BodyLayout::LocalRequest(LocalRequest::Bind(bind))) => {
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
        Ok(BodyLayout::LocalRequest(LocalRequest::Register(_))) => {
            panic!("a process registered pages by a work request")
        }
        Ok(BodyLayout::Inline(length)) => {
            assert!(
                with_payload && raw.is_inline(),
                "inline data is payload to send"
            );
            assert_eq!(length, raw.length());
            assert!(length <= bounds.max_inline);
        }
        Ok(BodyLayout::Scatter(num_sge)) => {
            let fixed = raw.is_known() && matches!(opcode, FLUSH | ATOMIC_WRITE);
            assert_eq!(num_sge, if fixed { 0 } else { raw.num_sge() });
            assert!(num_sge <= bounds.max_sge);
        }
        Err(rejected) => {
            assert_eq!(
                (rejected.wr_id, rejected.status),
                (raw.u64(0), WcStatus::LocQpOpErr)
            );
            let is_long = match with_payload && raw.is_inline() {
                true => raw.length() > bounds.max_inline,
                false => raw.num_sge() > bounds.max_sge,
            };
            assert!(is_long, "rejected although within the bounds");
        }
    }
}

/// Checks the work request of a connected service.
fn work_request(raw: &Raw<'_>, wqe: &SendWqe, signal_all: bool) {
    let length = raw.length() % (MAX_MESSAGE_BYTES + 1);
    let (opcode, atomic) = (raw.opcode(), matches!(raw.opcode(), SWAP | ADD));
    let wr = match wqe.work_request(length, signal_all) {
        Ok(wr) => wr,
        Err(rejected) => {
            assert_eq!(rejected.wr_id, raw.u64(0));
            match rejected.status {
                WcStatus::LocLenErr => assert!(atomic && length < 8),
                status => assert_eq!((status, raw.is_known()), (WcStatus::LocQpOpErr, false)),
            }
            return;
        }
    };
    assert!(raw.is_known(), "opcode {opcode} is accepted");
    assert_eq!(wr.wr_id, raw.u64(0));
    assert_eq!(wr.signaled, signal_all || raw.has(SIGNALED));
    assert_eq!(
        (wr.solicited, wr.fence),
        (raw.has(SOLICITED), raw.has(FENCE))
    );
    let expected_length = match opcode {
        SWAP | ADD | ATOMIC_WRITE => 8,
        FLUSH | LOCAL_INV | BIND => 0,
        _ => length,
    };
    assert_eq!(wr.length, expected_length);
    operation(raw, wr.op);
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
        SendOp::Local(_) => assert!(matches!(opcode, LOCAL_INV | BIND)),
    }
    if let Some((remote, key)) = place {
        assert_eq!((remote.va, remote.rkey.get()), (raw.u64(24), raw.u32(key)));
    }
}

/// Checks the work request of a datagram service.
fn datagram(raw: &Raw<'_>, wqe: &SendWqe, signal_all: bool) {
    let length = raw.length() % 4097;
    match wqe.datagram(length, signal_all) {
        Ok((wr, ah)) => {
            assert!(matches!(raw.opcode(), SEND | SEND_IMM));
            assert_eq!((wr.wr_id, wr.length, ah), (raw.u64(0), length, raw.u32(36)));
            assert_eq!(wr.remote_qpn.get(), raw.u32(24) & 0xff_ffff);
            assert_eq!(wr.imm.is_some(), raw.opcode() == SEND_IMM);
            assert_eq!(wr.signaled, signal_all || raw.has(SIGNALED));
        }
        Err(rejected) => {
            assert!(!matches!(raw.opcode(), SEND | SEND_IMM));
            assert_eq!(
                (rejected.wr_id, rejected.status),
                (raw.u64(0), WcStatus::LocQpOpErr)
            );
        }
    }
}

/// Checks a receive WQE.
fn receive(bytes: &[u8], bounds: WqeBounds) {
    let raw = Raw(bytes);
    let wqe = RecvWqe::read_from_bytes(&bytes[..RecvWqe::LEN]).expect("enough bytes");
    assert_eq!(wqe.wr_id(), raw.u64(0));
    let num_sge = raw.u32(28);
    assert_eq!(
        wqe.num_sge(bounds),
        (num_sge <= bounds.max_sge).then_some(num_sge)
    );
    let wr = wqe.work_request(raw.u32(16));
    assert_eq!((wr.wr_id, wr.length), (raw.u64(0), raw.u32(16)));
}

/// Checks that the fields of a CQE are at the offsets that user space reads.
fn completion(raw: &Raw<'_>) {
    let wc = crate::ib::wc::Wc {
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
    let cqe = Cqe::new(&wc);
    let raw_cqe = Raw(cqe.as_bytes());
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
    let sges: Vec<WqeSge> = bytes
        .chunks_exact(size_of::<WqeSge>())
        .map(|chunk| WqeSge::read_from_bytes(chunk).expect("enough bytes"))
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
        run_bounded("entries", 3, &[vec![0; 4 + SendWqe::FIXED_LEN]], entries);
    }
}
