// SPDX-License-Identifier: GPL-2.0

//! Encoders of queue elements: `struct ferroce_send_wqe` and `struct ferroce_recv_wqe`.
//!
//! They write to the words of an element that the kernel does not read yet. An encoder that returns `None` has found
//! that the element is too short; what it wrote must not be published.

use crate::{
    ffi::{
        memory::copy_in,
        wr::{
            Sge,
            UserBytes, //
        },
    },
    sync::{
        AtomicU64,
        Ordering, //
    },
};

/// `enum ibv_wr_opcode`.
pub(crate) mod opcode {
    pub(crate) const RDMA_WRITE: u8 = 0;
    pub(crate) const RDMA_WRITE_WITH_IMM: u8 = 1;
    pub(crate) const SEND: u8 = 2;
    pub(crate) const SEND_WITH_IMM: u8 = 3;
    pub(crate) const RDMA_READ: u8 = 4;
    pub(crate) const ATOMIC_CMP_AND_SWP: u8 = 5;
    pub(crate) const ATOMIC_FETCH_AND_ADD: u8 = 6;
    pub(crate) const LOCAL_INV: u8 = 7;
    pub(crate) const BIND_MW: u8 = 8;
    pub(crate) const SEND_WITH_INV: u8 = 9;
    pub(crate) const FLUSH: u8 = 14;
    pub(crate) const ATOMIC_WRITE: u8 = 15;

    /// Whether the data of a request may be in it.
    pub(crate) const fn takes_inline(opcode: u8) -> bool {
        matches!(
            opcode,
            RDMA_WRITE | RDMA_WRITE_WITH_IMM | SEND | SEND_WITH_IMM | SEND_WITH_INV
        )
    }
}

/// `enum ferroce_send_flag`.
pub(crate) mod flag {
    /// FENCE, SIGNALED and SOLICITED.
    pub(crate) const COMMON: u8 = 0b0111;
    pub(crate) const INLINE: u8 = 0b1000;
}

/// Word at which the list, the inline data, or what is in their place begins.
const BODY: usize = 4;

/// The part of a send element that all operations have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) wr_id: u64,
    pub(crate) opcode: u8,
    /// Without [`flag::INLINE`], which [`inline`] sets.
    pub(crate) flags: u8,
    /// Immediate data in network byte order, or the key to invalidate.
    pub(crate) imm_or_key: u32,
}

/// What a request is about, in the place behind the head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// Nothing.
    None,
    /// `struct ferroce_rdma`.
    Rdma { remote_addr: u64, rkey: u32 },
    /// `struct ferroce_datagram`.
    Datagram { qpn: u32, qkey: u32, ah: u32 },
}

/// What is in the place of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operands {
    /// `struct ferroce_atomic`, without the result.
    Atomic { compare_add: u64, swap: u64 },
    /// `struct ferroce_atomic_write`.
    AtomicWrite { value: u64 },
    /// `struct ferroce_flush`.
    Flush {
        length: u32,
        placement: u8,
        level: u8,
    },
    /// `struct ferroce_bind`.
    Bind {
        length: u64,
        mr_lkey: u32,
        new_rkey: u32,
        access: u32,
    },
}

/// Joins two fields of 32 bits.
#[inline]
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[inline]
fn put(element: &[AtomicU64], at: usize, value: u64) -> Option<()> {
    element.get(at)?.store(value, Ordering::Relaxed);
    Some(())
}

/// Writes the word with the number of SGEs or inline bytes.
#[inline]
fn put_count(element: &[AtomicU64], head: &Head, flags: u8, count: u16) -> Option<()> {
    let ([c0, c1], [k0, k1, k2, k3]) = (count.to_ne_bytes(), head.imm_or_key.to_ne_bytes());
    let bytes = [head.opcode, head.flags | flags, c0, c1, k0, k1, k2, k3];
    put(element, 1, u64::from_ne_bytes(bytes))
}

/// Writes an element without a message.
#[inline]
pub(crate) fn begin(element: &[AtomicU64], head: &Head, target: Target) -> Option<()> {
    put(element, 0, head.wr_id)?;
    put_count(element, head, 0, 0)?;
    self::target(element, target)
}

/// Writes what the request is about.
#[inline]
pub(crate) fn target(element: &[AtomicU64], target: Target) -> Option<()> {
    let (first, second) = match target {
        Target::None => (0, 0),
        Target::Rdma { remote_addr, rkey } => (remote_addr, pair(rkey, 0)),
        Target::Datagram { qpn, qkey, ah } => (pair(qpn, qkey), pair(ah, 0)),
    };
    put(element, 2, first)?;
    put(element, 3, second)
}

/// Writes the SRQ of the peer to a request whose target was written: the field behind the key.
#[inline]
pub(crate) fn srqn(element: &[AtomicU64], remote_srqn: u32) -> Option<()> {
    let word = element.get(3)?;
    let [k0, k1, k2, k3, ..] = word.load(Ordering::Relaxed).to_ne_bytes();
    let [s0, s1, s2, s3] = remote_srqn.to_ne_bytes();
    let both = u64::from_ne_bytes([k0, k1, k2, k3, s0, s1, s2, s3]);
    word.store(both, Ordering::Relaxed);
    Some(())
}

fn put_sge(element: &[AtomicU64], at: usize, sge: &Sge) -> Option<()> {
    put(element, at, sge.addr)?;
    put(element, at.wrapping_add(1), pair(sge.length, sge.lkey))
}

/// Writes the list of a request whose head was written. Returns the bytes of its message.
#[inline]
pub(crate) fn list(element: &[AtomicU64], head: &Head, list: &[Sge]) -> Option<u64> {
    let (mut at, mut bytes) = (BODY, 0_u64);
    for sge in list {
        put_sge(element, at, sge)?;
        at = at.wrapping_add(2);
        bytes = bytes.wrapping_add(u64::from(sge.length));
    }
    put_count(element, head, 0, u16::try_from(list.len()).ok()?)?;
    Some(bytes)
}

/// Copies the message of a request whose head was written to the element. Returns its bytes; `None` also if they are
/// more than `limit`.
#[inline]
pub(crate) fn inline<'a>(
    element: &[AtomicU64],
    head: &Head,
    message: impl Iterator<Item = UserBytes<'a>>,
    limit: u32,
) -> Option<u64> {
    let body = element.get(BODY..)?;
    let (limit, mut end) = (usize::try_from(limit).ok()?, 0_usize);
    for part in message {
        let start = end;
        end = end.checked_add(part.len()).filter(|&end| end <= limit)?;
        copy_in(body, start, part)?;
    }
    let count = u16::try_from(end).ok()?;
    put_count(element, head, flag::INLINE, count)?;
    Some(u64::from(count))
}

/// Writes the operands of a request whose head was written.
pub(crate) fn operands(element: &[AtomicU64], operands: Operands) -> Option<()> {
    let [a, b, c] = match operands {
        Operands::Atomic { compare_add, swap } => {
            put(element, BODY, compare_add)?;
            return put(element, BODY + 1, swap);
        }
        Operands::AtomicWrite { value } => [value, 0, 0],
        Operands::Flush {
            length,
            placement,
            level,
        } => {
            let [l0, l1, l2, l3] = length.to_ne_bytes();
            let bytes = [l0, l1, l2, l3, placement, level, 0, 0];
            [u64::from_ne_bytes(bytes), 0, 0]
        }
        Operands::Bind {
            length,
            mr_lkey,
            new_rkey,
            access,
        } => [length, pair(mr_lkey, new_rkey), pair(access, 0)],
    };
    put(element, BODY, a)?;
    put(element, BODY + 1, b)?;
    put(element, BODY + 2, c)
}

/// Writes where the former value goes that an atomic operation returns.
pub(crate) fn result(element: &[AtomicU64], head: &Head, sge: &Sge) -> Option<()> {
    put_sge(element, BODY + 2, sge)?;
    put_count(element, head, 0, 1)
}

/// Writes an element of a receive queue.
#[inline]
pub(crate) fn receive(element: &[AtomicU64], wr_id: u64, list: &[Sge]) -> Option<()> {
    put(element, 0, wr_id)?;
    put(element, 1, pair(u32::try_from(list.len()).ok()?, 0))?;
    let mut at = 2_usize;
    for sge in list {
        put_sge(element, at, sge)?;
        at = at.wrapping_add(2);
    }
    Some(())
}

#[cfg(test)]
mod tests;
