// SPDX-License-Identifier: GPL-2.0

//! Work requests of ULPs: the lists that `ib_post_send` and `ib_post_recv` pass. Any context.
//!
//! User space posts WRs as WQEs in rings instead. This file checks nothing: the driver rejects an opcode that the
//! QP cannot execute.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::object, //
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout, //
};

/// One scatter/gather element (`struct ib_sge`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Sge {
    /// Address in the MR of `lkey`.
    pub addr: u64,
    /// Number of bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

/// The scatter/gather list of a WR.
#[derive(Default)]
pub struct SgeList<'a> {
    entries: &'a [bindings::ib_sge],
}

impl SgeList<'_> {
    /// # Safety
    ///
    /// `list` points to `count` elements that do not change while the result is used; or `count` is 0 or negative.
    pub(crate) unsafe fn from_raw(list: *const bindings::ib_sge, count: c_int) -> Self {
        let entries = match usize::try_from(count) {
            // SAFETY: The caller guarantees `count` valid elements, which do not change for the lifetime of the
            // result.
            Ok(count) if count > 0 => unsafe { core::slice::from_raw_parts(list, count) },
            _ => &[],
        };
        Self { entries }
    }

    /// Returns the number of SGEs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the SGEs in order.
    pub fn iter(&self) -> impl Iterator<Item = Sge> + '_ {
        self.entries.iter().map(|raw| Sge {
            addr: raw.addr,
            length: raw.length,
            lkey: raw.lkey,
        })
    }
}

/// Inline data of a ULP's WR: data that is copied when the WR is posted.
pub struct InlineData<'a> {
    entries: &'a [bindings::ib_sge],
}

impl InlineData<'_> {
    /// Returns the number of bytes, at most `u32::MAX`.
    pub fn len(&self) -> u32 {
        let lengths = self.entries.iter().map(|entry| entry.length);
        lengths.fold(0, u32::saturating_add)
    }

    /// Returns whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces of the data.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let used = self.entries.iter().filter(|entry| entry.length != 0);
        used.map(|entry| {
            // CAST: A kernel address that the ULP passed as an integer.
            let from = ptr::with_exposed_provenance::<u8>(entry.addr as usize);
            // SAFETY: By the contract of `SendWrList::from_raw` the WR is a well-formed one of a ULP: its inline
            // SGEs name `entry.length` bytes of the ULP's own memory, which do not change until the WR is posted.
            // CAST: `u32` to `usize`, on 64 bits.
            unsafe { core::slice::from_raw_parts(from, entry.length as usize) }
        })
    }
}

/// A list of send WRs: an iterator over them.
///
/// `A` is the driver's part of an AH.
pub struct SendWrList<'a, A> {
    next: *const bindings::ib_send_wr,
    current: *const bindings::ib_send_wr,
    is_ud: bool,
    _list: PhantomData<(&'a bindings::ib_send_wr, Arc<A>)>,
}

impl<A> SendWrList<'_, A> {
    /// # Safety
    ///
    /// `head` is null or the first of a list of well-formed WRs, which a ULP posts to a QP of type `qp_type`: a WR
    /// is embedded in the structure that its opcode calls for, as the first field, and `head` may be used to access
    /// it. The AHs in it have an `A`. The list and inline data do not change while the result is used.
    pub(crate) unsafe fn from_raw(
        head: *const bindings::ib_send_wr,
        qp_type: bindings::ib_qp_type,
    ) -> Self {
        Self {
            next: head,
            current: head,
            is_ud: qp_type == bindings::ib_qp_type_IB_QPT_UD
                || qp_type == bindings::ib_qp_type_IB_QPT_GSI,
            _list: PhantomData,
        }
    }

    /// Returns the WR that was yielded last: the bad one, if posting fails.
    pub(crate) fn current(&self) -> *const bindings::ib_send_wr {
        self.current
    }
}

impl<'a, A> Iterator for SendWrList<'a, A> {
    type Item = KernelSendWr<'a, A>;

    fn next(&mut self) -> Option<KernelSendWr<'a, A>> {
        let raw = NonNull::new(self.next.cast_mut())?;
        self.current = self.next;
        // SAFETY: `raw` is an element of the list, which is valid and does not change: see `from_raw`.
        self.next = unsafe { (*raw.as_ptr()).next };
        // INVARIANT: `raw` is an element of the list, and comes from the list's own pointers.
        Some(KernelSendWr {
            raw,
            is_ud: self.is_ud,
            _wr: PhantomData,
        })
    }
}

/// One send WR (`struct ib_send_wr`).
///
/// # Invariants
///
/// `raw` points to a WR as [`SendWrList::from_raw`] requires: valid for `'a`, well-formed and constant. It has the
/// provenance of the structure in which the WR is embedded.
pub struct KernelSendWr<'a, A> {
    raw: NonNull<bindings::ib_send_wr>,
    is_ud: bool,
    _wr: PhantomData<(&'a bindings::ib_send_wr, Arc<A>)>,
}

impl<'a, A> KernelSendWr<'a, A> {
    /// Returns the part that all send WRs have.
    pub(super) fn header(&self) -> &'a bindings::ib_send_wr {
        // SAFETY: By the invariant `raw` is valid and constant for `'a`.
        unsafe { self.raw.as_ref() }
    }

    /// Returns the structure in which the WR is embedded.
    ///
    /// # Safety
    ///
    /// The WR is the first field of a `W`.
    pub(super) unsafe fn container<W>(&self) -> &'a W {
        // SAFETY: The caller guarantees that a `W` begins at `raw`. By the invariant it is valid and constant for
        // `'a`, and `raw` may be used to access all of it.
        unsafe { self.raw.cast().as_ref() }
    }

    /// Returns the data, if the WR is inline.
    pub fn inline_data(&self) -> Option<InlineData<'a>> {
        let inline = self.header().send_flags & bindings::ib_send_flags_IB_SEND_INLINE != 0;
        inline.then(|| InlineData {
            entries: self.sges().entries,
        })
    }

    /// Returns the scatter/gather list of the data.
    pub fn sges(&self) -> SgeList<'a> {
        // SAFETY: By the invariant the WR is well-formed and constant for `'a`: `sg_list` points to `num_sge` SGEs.
        unsafe { SgeList::from_raw(self.header().sg_list, self.header().num_sge) }
    }

    /// Returns the part of a datagram (`struct ib_ud_wr`); `None` if the WR is not a SEND, or the QP is not UD or GSI.
    pub(super) fn ud(&self) -> Option<&'a bindings::ib_ud_wr> {
        let sends = matches!(
            self.header().opcode,
            bindings::ib_wr_opcode_IB_WR_SEND | bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
        );
        // The core itself posts other opcodes to a UD QP, to drain it.
        if !self.is_ud || !sends {
            return None;
        }
        // SAFETY: By the invariant the WR is well-formed, so a SEND to a UD or GSI QP is embedded in an `ib_ud_wr`.
        let wr: &bindings::ib_ud_wr = unsafe { self.container() };
        (!wr.ah.is_null()).then_some(wr)
    }

    /// Returns the AH of a datagram.
    pub fn ah(&self) -> Option<&'a Arc<A>> {
        // SAFETY: By the contract of `SendWrList::from_raw` the AH is one of this driver, with an `A`. The ULP
        // destroys it only after the WR has completed.
        self.ud().map(|wr| unsafe { object::Ah::<A>::data(wr.ah) })
    }
}

/// A list of receive WRs: an iterator over them.
pub struct RecvWrList<'a> {
    next: *const bindings::ib_recv_wr,
    current: *const bindings::ib_recv_wr,
    _list: PhantomData<&'a bindings::ib_recv_wr>,
}

impl RecvWrList<'_> {
    /// # Safety
    ///
    /// `head` is null or the first of a list of well-formed WRs, which does not change while the result is used.
    pub(crate) unsafe fn from_raw(head: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: head,
            current: head,
            _list: PhantomData,
        }
    }

    /// Returns the WR that was yielded last: the bad one, if posting fails.
    pub(crate) fn current(&self) -> *const bindings::ib_recv_wr {
        self.current
    }
}

impl<'a> Iterator for RecvWrList<'a> {
    type Item = KernelRecvWr<'a>;

    fn next(&mut self) -> Option<KernelRecvWr<'a>> {
        // SAFETY: Null or an element of the list, which is valid and does not change: see `from_raw`.
        let raw = unsafe { self.next.as_ref() }?;
        self.current = self.next;
        self.next = raw.next;
        Some(KernelRecvWr { raw })
    }
}

/// One receive WR (`struct ib_recv_wr`).
pub struct KernelRecvWr<'a> {
    raw: &'a bindings::ib_recv_wr,
}

impl<'a> KernelRecvWr<'a> {
    /// Returns the identifier that the completion carries.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants of the union are 64 bits for which all values are valid.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// Returns the scatter/gather list for the data.
    pub fn sges(&self) -> SgeList<'a> {
        // SAFETY: By the contract of `RecvWrList::from_raw` the WR is well-formed and constant for `'a`: `sg_list`
        // points to `num_sge` SGEs.
        unsafe { SgeList::from_raw(self.raw.sg_list, self.raw.num_sge) }
    }
}
