// SPDX-License-Identifier: GPL-2.0

//! Work requests as programs pass them: `struct ibv_send_wr`, `struct ibv_recv_wr`.
//!
//! They exist only behind the pointers of a program that calls a verb, and so does the memory that they point to: the
//! fields are private, and the methods return it as what may be read.

use super::{
    c,
    object::{
        Ah,
        Object, //
    },
};
use core::{
    ffi::{
        c_int,
        c_void, //
    },
    marker::PhantomData,
    ptr,
    slice, //
};

/// `struct ibv_sge`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// Memory of the program that may be read. It may change meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct UserBytes<'a> {
    at: *const u8,
    length: usize,
    _lives: PhantomData<&'a [u8]>,
}

impl UserBytes<'_> {
    /// Bytes of our own.
    #[cfg(test)]
    pub(crate) fn new(bytes: &[u8]) -> UserBytes<'_> {
        // SAFETY: A reference may be read.
        unsafe { UserBytes::from_c(bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Bytes that a program has passed.
    ///
    /// # Safety
    ///
    /// They may be read as long as the result is used.
    pub(super) unsafe fn from_c(at: *const c_void, length: usize) -> Self {
        Self {
            at: at.cast(),
            length,
            _lives: PhantomData,
        }
    }

    /// Returns the number of bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// Returns where they are; not null.
    #[inline]
    pub(super) fn as_ptr(self) -> *const u8 {
        if self.length == 0 {
            return ptr::dangling();
        }
        self.at
    }
}

/// `struct ibv_send_wr`. The comments have the fields of its unions: `rdma`, `atomic`, `ud`.
#[repr(C)]
pub(crate) struct SendWr {
    wr_id: u64,
    next: *const SendWr,
    list: *const Sge,
    num_sge: c_int,
    opcode: u32,
    flags: u32,
    imm_or_key: u32,
    /// Remote address; of a datagram, the address handle.
    first: u64,
    /// `rkey`; `compare_add`; `remote_qpn` and `remote_qkey`.
    second: [u32; 2],
    /// `swap`.
    third: [u32; 2],
    /// `rkey` of an atomic.
    fourth: [u32; 2],
    /// XRC.
    remote_srqn: u32,
    mw: *mut c::Mw,
    new_rkey: u32,
    bind: c::MwBindInfo,
}

/// A window that is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    pub(crate) rkey: u32,
    pub(crate) new_rkey: u32,
    pub(crate) mr_lkey: u32,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: u32,
}

impl Bind {
    /// Converts the arguments of a program.
    ///
    /// # Safety
    ///
    /// `mr` is null or valid.
    pub(super) unsafe fn new(rkey: u32, new_rkey: u32, info: &c::MwBindInfo) -> Self {
        // SAFETY: The caller guarantees that it is valid if it is not null.
        let mr_lkey = unsafe { info.mr.as_ref() }.map_or(0, |mr| mr.lkey);
        Self {
            rkey,
            new_rkey,
            mr_lkey,
            addr: info.addr,
            length: info.length,
            access: info.access,
        }
    }
}

/// Joins two words to one, as they lie in memory.
fn join([first, second]: [u32; 2]) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

impl SendWr {
    /// Returns the identifier.
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Returns the opcode.
    pub(crate) fn opcode(&self) -> u32 {
        self.opcode
    }

    /// Returns the flags.
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns immediate data, or the key to invalidate.
    pub(crate) fn imm_or_key(&self) -> u32 {
        self.imm_or_key
    }

    /// Returns the list.
    #[inline]
    pub(crate) fn sges(&self) -> Option<&[Sge]> {
        // SAFETY: The program says that the list has so many entries.
        unsafe { list(self.list, self.num_sge) }
    }

    /// Returns what the list refers to, of a request with inline data.
    #[inline]
    pub(crate) fn inline(&self) -> Option<impl Iterator<Item = UserBytes<'_>>> {
        Some(self.sges()?.iter().map(|sge| {
            let length = usize::try_from(sge.length).unwrap_or(usize::MAX);
            // SAFETY: With inline data, the program says that this memory may be read until the verb returns.
            unsafe { UserBytes::from_c(ptr::with_exposed_provenance(sge.addr as usize), length) }
        }))
    }

    /// Returns the SRQ of the peer that a request of XRC is for.
    #[inline]
    pub(crate) fn remote_srqn(&self) -> u32 {
        self.remote_srqn
    }

    /// Returns remote address and key.
    #[inline]
    pub(crate) fn rdma(&self) -> (u64, u32) {
        let [rkey, _] = self.second;
        (self.first, rkey)
    }

    /// Returns remote address and key, and the operands, of an atomic.
    pub(crate) fn atomic(&self) -> ((u64, u32), (u64, u64)) {
        let [rkey, _] = self.fourth;
        ((self.first, rkey), (join(self.second), join(self.third)))
    }

    /// Returns the number of the address handle, and QPN and Q_Key, of a datagram. `None` without a handle.
    #[inline]
    pub(crate) fn datagram(&self) -> Option<(u32, u32, u32)> {
        let ah: *mut c::Ah = ptr::with_exposed_provenance_mut(self.first as usize);
        let [qpn, qkey] = self.second;
        // SAFETY: The program says that this is an address handle, or null.
        Some((unsafe { ah_number(ah) }?, qpn, qkey))
    }

    /// Returns the window that is bound. `None` if there is none.
    pub(crate) fn bind(&self) -> Option<Bind> {
        // SAFETY: The program says that this is a window, or null.
        let rkey = unsafe { self.mw.as_ref() }?.rkey;
        // SAFETY: The program says that this is a region, or null.
        Some(unsafe { Bind::new(rkey, self.new_rkey, &self.bind) })
    }
}

/// Returns the number of an address handle. `None` for null.
///
/// # Safety
///
/// `ah` is null or valid.
pub(super) unsafe fn ah_number(ah: *mut c::Ah) -> Option<u32> {
    if ah.is_null() {
        return None;
    }
    // SAFETY: The caller guarantees that it is valid, and all of a context are ours.
    let ah: &Ah = unsafe { Object::from_c(ah) };
    Some(ah.body().number)
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(crate) struct RecvWr {
    wr_id: u64,
    next: *const RecvWr,
    list: *const Sge,
    num_sge: c_int,
}

impl RecvWr {
    /// Returns the identifier.
    #[inline]
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Returns the list.
    #[inline]
    pub(crate) fn sges(&self) -> Option<&[Sge]> {
        // SAFETY: The program says that the list has so many entries.
        unsafe { list(self.list, self.num_sge) }
    }
}

/// Returns a list of a program. `None`: its length is impossible, or there are no entries to read.
///
/// # Safety
///
/// If `at` is not null, so many entries may be read as long as the result is used.
#[inline]
pub(super) unsafe fn list<'a>(at: *const Sge, entries: c_int) -> Option<&'a [Sge]> {
    match usize::try_from(entries) {
        Ok(0) => Some(&[]),
        // SAFETY: The caller guarantees that the entries may be read.
        Ok(entries) if !at.is_null() => Some(unsafe { slice::from_raw_parts(at, entries) }),
        _ => None,
    }
}

/// A list of work requests.
pub(crate) struct Chain<'a, W> {
    next: *const W,
    _lives: PhantomData<&'a W>,
}

impl<W> Chain<'_, W> {
    /// Returns the list that begins with `first`.
    ///
    /// # Safety
    ///
    /// `first` and all that follow may be read as long as the result is used.
    pub(super) unsafe fn new(first: *const W) -> Self {
        Self {
            next: first,
            _lives: PhantomData,
        }
    }
}

impl<'a> Iterator for Chain<'a, SendWr> {
    type Item = &'a SendWr;

    #[inline]
    fn next(&mut self) -> Option<&'a SendWr> {
        // SAFETY: `new` demands that each may be read.
        let wr = unsafe { self.next.as_ref() }?;
        self.next = wr.next;
        Some(wr)
    }
}

impl<'a> Iterator for Chain<'a, RecvWr> {
    type Item = &'a RecvWr;

    #[inline]
    fn next(&mut self) -> Option<&'a RecvWr> {
        // SAFETY: `new` demands that each may be read.
        let wr = unsafe { self.next.as_ref() }?;
        self.next = wr.next;
        Some(wr)
    }
}

const _: () = assert!(core::mem::offset_of!(SendWr, first) == 40);
const _: () = assert!(core::mem::offset_of!(SendWr, remote_srqn) == 72);
const _: () = assert!(core::mem::offset_of!(SendWr, mw) == 80);
const _: () = assert!(core::mem::offset_of!(SendWr, bind) == 96);
