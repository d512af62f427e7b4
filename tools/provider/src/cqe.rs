// SPDX-License-Identifier: GPL-2.0

//! Completion queue elements: `struct ferroce_cqe`.

use crate::{
    ring::{
        Consumer,
        Memory, //
    },
    sync::{
        AtomicU64,
        Ordering, //
    },
};

/// Place of `turn` among the words of 32 bits.
const TURN: usize = 15;

/// Place of `timestamp` among the words of 64 bits.
const TIMESTAMP: usize = 5;

/// A completion. Status, opcode and flags are those of `struct ibv_wc`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cqe {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    /// Immediate data in network byte order, or the key that was invalidated.
    pub(crate) imm_or_key: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: u32,
}

/// A completion that a program reads field by field, which may have the time at which it came.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TimedCqe {
    pub(crate) cqe: Cqe,
    /// Nanoseconds of CLOCK_MONOTONIC_RAW; 0 if the queue has no timestamps.
    pub(crate) timestamp: u64,
}

impl TimedCqe {
    /// Returns the time in nanoseconds of CLOCK_REALTIME, of which it is `wall` when it is `raw` of
    /// CLOCK_MONOTONIC_RAW.
    pub(crate) fn wallclock(&self, raw: u64, wall: u64) -> u64 {
        wall.wrapping_sub(raw.wrapping_sub(self.timestamp))
    }
}

impl Cqe {
    fn read(words: &[AtomicU64]) -> Option<Self> {
        let [wr_id, status, error, imm, source, ..] = words else {
            return None;
        };
        let (status, opcode) = split(status);
        let (vendor_err, byte_len) = split(error);
        let (imm_or_key, qp_num) = split(imm);
        let (src_qp, wc_flags) = split(source);
        Some(Self {
            wr_id: wr_id.load(Ordering::Relaxed),
            status,
            opcode,
            vendor_err,
            byte_len,
            imm_or_key,
            qp_num,
            src_qp,
            wc_flags,
        })
    }
}

/// Loads two fields of 32 bits.
#[inline]
fn split(word: &AtomicU64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.load(Ordering::Relaxed).to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

impl<M: Memory> Consumer<M> {
    /// Takes the next completion.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Cqe> {
        let cqe = Cqe::read(self.peek(TURN)?)?;
        self.advance();
        Some(cqe)
    }

    /// As [`take`](Self::take), with the time.
    pub(crate) fn take_timed(&mut self) -> Option<TimedCqe> {
        let words = self.peek(TURN)?;
        let timed = TimedCqe {
            cqe: Cqe::read(words)?,
            timestamp: words.get(TIMESTAMP)?.load(Ordering::Relaxed),
        };
        self.advance();
        Some(timed)
    }

    /// Removes the completions of a QP.
    pub(crate) fn forget(&mut self, qp_num: u32) {
        self.remove(TURN, |words| {
            Cqe::read(words).is_some_and(|cqe| cqe.qp_num == qp_num)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::direct::ring::HEAD_WORDS,
        ffi::memory::halves,
        ring::{
            tests::memory,
            Ring, //
        },
    };

    #[test]
    fn fields_are_where_the_header_has_them() {
        let memory = memory(1, 64, 0);
        let element = &memory[HEAD_WORDS..];
        element[0].store(0x1122_3344_5566_7788, Ordering::Relaxed);
        for (at, half) in halves(element).iter().enumerate().take(10).skip(2) {
            half.store(at as u32, Ordering::Relaxed);
        }
        let mut queue = Consumer::new(Ring::new(&memory[..], 64).unwrap());
        assert_eq!(queue.take(), None);
        halves(element)[TURN].store(1, Ordering::Release);
        let cqe = queue.take().unwrap();
        assert_eq!(
            cqe,
            Cqe {
                wr_id: 0x1122_3344_5566_7788,
                status: 2,
                opcode: 3,
                vendor_err: 4,
                byte_len: 5,
                imm_or_key: 6,
                qp_num: 7,
                src_qp: 8,
                wc_flags: 9,
            }
        );
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn a_completion_may_have_a_time() {
        let memory = memory(1, 64, 0);
        let element = &memory[HEAD_WORDS..];
        element[1].store(1, Ordering::Relaxed);
        element[5].store(1_000_000, Ordering::Relaxed);
        halves(element)[TURN].store(1, Ordering::Release);
        let mut queue = Consumer::new(Ring::new(&memory[..], 64).unwrap());
        let timed = queue.take_timed().unwrap();
        assert_eq!((timed.cqe.status, timed.timestamp), (1, 1_000_000));
        assert_eq!(timed.wallclock(1_000_500, 9_000_000_500), 9_000_000_000);
        // A completion may come between the two clocks being read.
        assert_eq!(timed.wallclock(999_999, 9_000_000_000), 9_000_000_001);
        assert_eq!(queue.take_timed(), None);
    }
}
