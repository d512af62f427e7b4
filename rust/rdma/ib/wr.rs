// SPDX-License-Identifier: GPL-2.0

//! Work requests of consumers in the kernel.
//!
//! Owns the walk along the lists that `ib_post_send` and `ib_post_recv` pass. Work requests of user
//! space are elsewhere, in rings. Knows no rules: an opcode that the queue pair cannot carry out is
//! the driver's to refuse.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::object, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// One scatter/gather entry (`struct ib_sge`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sge {
    /// Address in the region that `lkey` names.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Local key.
    pub lkey: u32,
}

/// The scatter list of a work request.
#[derive(Default)]
pub struct SgeList<'a> {
    entries: &'a [bindings::ib_sge],
}

impl SgeList<'_> {
    /// # Safety
    ///
    /// `list` points to `count` entries that stay as they are while the result is used, or `count`
    /// is not above 0.
    pub(crate) unsafe fn from_raw(list: *const bindings::ib_sge, count: c_int) -> Self {
        let entries = match usize::try_from(count) {
            // SAFETY: As the function requires.
            Ok(count) if count > 0 => unsafe { core::slice::from_raw_parts(list, count) },
            _ => &[],
        };
        Self { entries }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = Sge> + '_ {
        self.entries.iter().map(|raw| Sge {
            addr: raw.addr,
            length: raw.length,
            lkey: raw.lkey,
        })
    }
}

/// Data that a work request of a consumer in the kernel takes along when it is posted.
pub struct InlineData<'a> {
    entries: &'a [bindings::ib_sge],
}

impl InlineData<'_> {
    /// Bytes; of more than can be counted, as many as can.
    pub fn len(&self) -> u32 {
        let lengths = self.entries.iter().map(|entry| entry.length);
        lengths.fold(0, u32::saturating_add)
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies all of it to `to`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `to` is shorter.
    pub fn copy_to(&self, to: &mut [u8]) -> Result {
        let mut rest = to;
        for entry in self.entries.iter().filter(|entry| entry.length != 0) {
            // CAST: `u32` to `usize`, on 64 bits.
            let (now, later) = rest
                .split_at_mut_checked(entry.length as usize)
                .ok_or(EINVAL)?;
            // CAST: An address, as the consumer gave it.
            let from = ptr::with_exposed_provenance::<u8>(entry.addr as usize);
            // SAFETY: The request is well-formed and of a consumer in the kernel, see `SendWrList::from_raw`:
            // of inline data, entries name its own memory, which stays as it is until it is posted. `now`
            // is as long, and nobody else's.
            unsafe { ptr::copy_nonoverlapping(from, now.as_mut_ptr(), now.len()) };
            rest = later;
        }
        Ok(())
    }
}

/// A list of send work requests; yields them in order.
///
/// `A` is the driver's part of an address handle.
pub struct SendWrList<'a, A> {
    next: *const bindings::ib_send_wr,
    current: *const bindings::ib_send_wr,
    datagrams: bool,
    _list: PhantomData<(&'a bindings::ib_send_wr, Arc<A>)>,
}

impl<A> SendWrList<'_, A> {
    /// # Safety
    ///
    /// `head` is null, or starts a list of well-formed requests of a consumer in the kernel for a queue pair of
    /// the type `qp_type`, and address handles in it have an `A`; the list, and data that is inline, stay as
    /// they are while the result is used.
    pub(crate) unsafe fn from_raw(
        head: *const bindings::ib_send_wr,
        qp_type: bindings::ib_qp_type,
    ) -> Self {
        Self {
            next: head,
            current: head,
            datagrams: qp_type == bindings::ib_qp_type_IB_QPT_UD
                || qp_type == bindings::ib_qp_type_IB_QPT_GSI,
            _list: PhantomData,
        }
    }

    /// The request that was yielded last: the one to blame.
    pub(crate) fn current(&self) -> *const bindings::ib_send_wr {
        self.current
    }
}

impl<'a, A> Iterator for SendWrList<'a, A> {
    type Item = KernelSendWr<'a, A>;

    fn next(&mut self) -> Option<KernelSendWr<'a, A>> {
        // SAFETY: Null or an element of the list, as `from_raw` requires.
        let raw = unsafe { self.next.as_ref() }?;
        self.current = self.next;
        self.next = raw.next;
        Some(KernelSendWr {
            raw,
            datagram: self.datagrams,
            _ah: PhantomData,
        })
    }
}

/// One send work request (`struct ib_send_wr`).
pub struct KernelSendWr<'a, A> {
    pub(super) raw: &'a bindings::ib_send_wr,
    datagram: bool,
    _ah: PhantomData<Arc<A>>,
}

/// What a datagram has beside its data (`struct ib_ud_wr`).
pub struct UdWr<'a, A> {
    /// Where it goes.
    pub ah: &'a Arc<A>,
    /// Whom it is for.
    pub remote_qpn: u32,
    /// What lets it in.
    pub remote_qkey: u32,
    /// Index into the P_Key table (GSI only).
    pub pkey_index: u16,
}

impl<'a, A> KernelSendWr<'a, A> {
    /// Identifier that comes back with the completion.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants are 64 bits that may have any value.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// `enum ib_wr_opcode`.
    pub fn opcode(&self) -> u32 {
        self.raw.opcode
    }

    /// `enum ib_send_flags`.
    pub fn flags(&self) -> u32 {
        // CAST: A set of bits.
        self.raw.send_flags as u32
    }

    /// Whether the success of the request is to be reported.
    pub fn is_signaled(&self) -> bool {
        self.raw.send_flags & bindings::ib_send_flags_IB_SEND_SIGNALED != 0
    }

    /// Whether the receiver is to be woken.
    pub fn is_solicited(&self) -> bool {
        self.raw.send_flags & bindings::ib_send_flags_IB_SEND_SOLICITED != 0
    }

    /// Whether it waits until all earlier READs and atomics are complete.
    pub fn is_fenced(&self) -> bool {
        self.raw.send_flags & bindings::ib_send_flags_IB_SEND_FENCE != 0
    }

    /// The data, if the request says that it is to be taken along at once.
    pub fn inline_data(&self) -> Option<InlineData<'a>> {
        let inline = self.raw.send_flags & bindings::ib_send_flags_IB_SEND_INLINE != 0;
        inline.then(|| InlineData {
            entries: self.sges().entries,
        })
    }

    /// Whether immediate data goes with it.
    pub fn has_imm(&self) -> bool {
        matches!(
            self.opcode(),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
                | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM
        )
    }

    /// Immediate data, in network byte order. Means something for opcodes that have it.
    pub fn imm(&self) -> [u8; 4] {
        // SAFETY: Both variants are 32 bits that may have any value.
        unsafe { self.raw.ex.imm_data }.to_ne_bytes()
    }

    /// Where the data is.
    pub fn sges(&self) -> SgeList<'a> {
        // SAFETY: The request is well-formed, see `SendWrList::from_raw`.
        unsafe { SgeList::from_raw(self.raw.sg_list, self.raw.num_sge) }
    }

    /// What a datagram has beside its data; `None` if it is none, or the queue pair does not send datagrams.
    pub fn ud(&self) -> Option<UdWr<'a, A>> {
        let sends = matches!(
            self.opcode(),
            bindings::ib_wr_opcode_IB_WR_SEND | bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
        );
        // The core itself posts other requests, to see a queue drained.
        if !self.datagram || !sends {
            return None;
        }
        let wr: *const bindings::ib_ud_wr = ptr::from_ref(self.raw).cast();
        // SAFETY: A send to such a queue pair is embedded in an `ib_ud_wr`, as its first field.
        let wr = unsafe { &*wr };
        if wr.ah.is_null() {
            return None;
        }
        Some(UdWr {
            // SAFETY: A datagram has an address handle of the same device, which lives until the
            // request has completed.
            ah: unsafe { object::Ah::<A>::data(wr.ah) },
            remote_qpn: wr.remote_qpn,
            remote_qkey: wr.remote_qkey,
            pkey_index: wr.pkey_index,
        })
    }
}

/// A list of receive work requests; yields them in order.
pub struct RecvWrList<'a> {
    next: *const bindings::ib_recv_wr,
    current: *const bindings::ib_recv_wr,
    _list: PhantomData<&'a bindings::ib_recv_wr>,
}

impl RecvWrList<'_> {
    /// # Safety
    ///
    /// `head` starts a list of well-formed requests, which stays as it is while the result is used.
    pub(crate) unsafe fn from_raw(head: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: head,
            current: head,
            _list: PhantomData,
        }
    }

    /// The request that was yielded last: the one to blame.
    pub(crate) fn current(&self) -> *const bindings::ib_recv_wr {
        self.current
    }
}

impl<'a> Iterator for RecvWrList<'a> {
    type Item = KernelRecvWr<'a>;

    fn next(&mut self) -> Option<KernelRecvWr<'a>> {
        // SAFETY: Null or an element of the list, as `from_raw` requires.
        let raw = unsafe { self.next.as_ref() }?;
        self.current = self.next;
        self.next = raw.next;
        Some(KernelRecvWr { raw })
    }
}

/// One receive work request (`struct ib_recv_wr`).
pub struct KernelRecvWr<'a> {
    raw: &'a bindings::ib_recv_wr,
}

impl<'a> KernelRecvWr<'a> {
    /// Identifier that comes back with the completion.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both variants are 64 bits that may have any value.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// Where the data goes.
    pub fn sges(&self) -> SgeList<'a> {
        // SAFETY: The request is well-formed, see `RecvWrList::from_raw`.
        unsafe { SgeList::from_raw(self.raw.sg_list, self.raw.num_sge) }
    }
}
