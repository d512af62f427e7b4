// SPDX-License-Identifier: GPL-2.0

//! Memory that packets lend, and for how long.
//!
//! A packet may point to memory of the consumer who has posted it, in place of a copy. As long as he has not been told
//! what became of it, he leaves that memory alone; once he knows that it is lost, he may write there, while somebody on
//! this machine still has the packet. So a lender ends the term of all packets that he has out before he tells, and who
//! has one sees by its term whether it still holds what was posted.
//!
//! Owns the numbers of the terms. Does not know the packets. Some lenders share their terms: one that ends for the sake
//! of another's packet costs who has it a look at the ICRC.

use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// How many lenders have terms of their own.
const LENDERS: usize = 256;

/// The present term of each. Wraps around.
static TERMS: [Atomic<u32>; LENDERS] = [const { Atomic::new(0) }; LENDERS];

/// One who lends memory to packets.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(transparent)]
pub struct Lender(u32);

impl Lender {
    /// The lender that the queue pair with this number is.
    pub const fn of(qpn: u32) -> Self {
        let [_, a, b, c] = qpn.to_be_bytes();
        // CAST: Widens; `From` is not for constants.
        Self((a ^ b ^ c) as u32)
    }

    /// Ends the term of all packets that have been made. To be called before the consumer is told that one is lost.
    pub fn end_term(self) {
        // Ordered: the consumer writes only after he has seen a completion, which must not be visible before this is.
        self.present().fetch_add(1, Full);
    }

    /// The term of packets that are made now.
    #[inline]
    pub(super) fn term(self) -> Term {
        Term {
            lender: self,
            number: self.present().load(Relaxed),
        }
    }

    #[inline]
    fn present(self) -> &'static Atomic<u32> {
        // CAST: Widens. One that is no lender's is a stranger's bytes, which only look like ours.
        let [first, ..] = &TERMS;
        TERMS.get(self.0 as usize).unwrap_or(first)
    }
}

/// The time for which a packet's memory is as it was posted.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes)]
#[repr(C)]
pub(super) struct Term {
    lender: Lender,
    number: u32,
}

impl Term {
    /// Whether its owner may use the memory for something else by now.
    #[inline]
    pub(super) fn has_ended(self) -> bool {
        self.lender.present().load(Relaxed) != self.number
    }
}
