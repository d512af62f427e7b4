// SPDX-License-Identifier: GPL-2.0

//! What a queue pair can reach: the memory regions of its protection domain.
//!
//! Owns the walk over scatter lists, and the copies between memory, received packets and packets
//! to be sent. Does not know why bytes move. Every access goes through a key, under RCU: a region
//! that is deregistered stays whole until the copy ends, and nothing starts on it afterwards.
//!
//! Memory on demand may be absent. Then an access says what it missed, and is to be made again, all
//! of it, when that was brought.

use crate::{
    abi::{
        send_op::LocalRequest,
        wqe::WqeSge, //
    },
    mem::{
        access_request::AccessRequest,
        key_table::{
            KeyTable,
            Mapped, //
        },
        mw::QpIdentity,
        page_fault::{
            AccessFailure,
            FaultRequest,
            MOST_AHEAD, //
        },
        payload::{
            Fault,
            PayloadSink,
            PayloadSource, //
        },
        pd::Pd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use roce::{
    access::{
        Access,
        AccessError, //
    },
    id::Rkey,
    segmentation::tx_desc::RxPayload,
    status::WcStatus,
    wr::{
        AtomicOp,
        Remote,
        ATOMIC_BYTES, //
    }, //
};

/// The memory that one queue pair can reach.
#[derive(Clone, Copy)]
pub(crate) struct QpMemory<'a> {
    /// Keys of the device.
    pub(crate) keys: &'a KeyTable,
    /// Protection domain of the queue pair.
    pub(crate) pd: &'a Arc<Pd>,
    /// The queue pair.
    pub(crate) identity: QpIdentity,
}

/// One run of bytes of a message that stands in one region.
pub(crate) struct SgPiece {
    lkey: u32,
    va: u64,
    pub(super) len: u32,
    /// Bytes from `va` to the end of the entry of the list.
    rest: u32,
}

/// Most bytes that are brought ahead where it is not known how long the message will be.
const SHORT_AHEAD: u32 = 64 << 10;

impl QpMemory<'_> {
    /// Copies `payload` of the packet in `bytes` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_PROT_ERR`: a key, a right or a range is wrong; `IB_WC_LOC_LEN_ERR`: the list is
    /// too short.
    pub(crate) fn scatter(
        &self,
        sges: &[WqeSge],
        offset: u32,
        bytes: &impl PayloadSource,
        payload: RxPayload,
    ) -> Result<(), AccessFailure<WcStatus>> {
        let guard = rcu::read_lock();
        let mut from = payload.offset;
        let mut left = payload.len;
        for piece in pieces(sges, offset, payload.len) {
            let found = self.local(&piece, Access::LOCAL_WRITE, &guard)?;
            bytes
                .copy_to(from, found.memory(), found.at(), piece.len)
                .map_err(|fault| match fault {
                    Fault::PayloadSource => AccessFailure::AbsentElsewhere,
                    Fault::Memory(error) => {
                        self.failed_piece(&piece, error, Access::LOCAL_WRITE, SHORT_AHEAD)
                    }
                })?;
            from = from.wrapping_add(piece.len);
            left = left.wrapping_sub(piece.len);
        }
        if left == 0 {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// Copies `bytes` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// As [`QpMemory::scatter`].
    pub(crate) fn scatter_bytes(
        &self,
        sges: &[WqeSge],
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), AccessFailure<WcStatus>> {
        let guard = rcu::read_lock();
        let mut left = bytes;
        let len = u32::try_from(bytes.len()).map_err(|_| WcStatus::LocLenErr)?;
        for piece in pieces(sges, offset, len) {
            let found = self.local(&piece, Access::LOCAL_WRITE, &guard)?;
            let (now, later) = left
                .split_at_checked(piece.len as usize)
                .ok_or(WcStatus::LocLenErr)?;
            found.memory().write(found.at(), now).map_err(|error| {
                self.failed_piece(&piece, error, Access::LOCAL_WRITE, SHORT_AHEAD)
            })?;
            left = later;
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// Appends `len` bytes to `to`, from byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// As [`QpMemory::scatter`]; `Ok(false)` when memory for the packet ran out.
    pub(crate) fn gather(
        &self,
        sges: &[WqeSge],
        offset: u32,
        len: u32,
        to: &mut impl PayloadSink,
    ) -> Result<bool, AccessFailure<WcStatus>> {
        let guard = rcu::read_lock();
        let mut left = len;
        for piece in pieces(sges, offset, len) {
            let found = self.local(&piece, Access::NONE, &guard)?;
            match to.append(found.memory(), found.at(), piece.len) {
                Ok(()) => {}
                Err(EAGAIN) => {
                    return Err(self.failed_piece(&piece, EAGAIN, Access::NONE, MOST_AHEAD))
                }
                Err(_) => return Ok(false),
            }
            left = left.wrapping_sub(piece.len);
        }
        if left == 0 {
            Ok(true)
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// Checks that a peer may do `access` to `len` bytes at `remote`. `ahead`: and that their memory
    /// is there, as far as it could be brought at a time.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] finds wrong.
    pub(crate) fn check(
        &self,
        remote: Remote,
        len: u32,
        access: Access,
        ahead: bool,
    ) -> Result<(), AccessFailure<AccessError>> {
        let guard = rcu::read_lock();
        let found = self.remote(remote, len, access, &guard)?;
        if !ahead || found.memory().is_pinned() {
            return Ok(());
        }
        let soon = len.min(MOST_AHEAD);
        match found
            .memory()
            .probe(found.at(), soon as usize, access.writes())
        {
            // Nothing of it must be there, before it is used.
            Err(EAGAIN) => Err(AccessFailure::Absent(FaultRequest {
                pd: self.pd.clone(),
                peer_of: Some(self.identity),
                key: remote.rkey.get(),
                va: remote.va,
                must: 0,
                may: soon,
                access,
            })),
            _ => Ok(()),
        }
    }

    /// Copies `payload` of the packet in `bytes` to `remote`, an address that the peer chose.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] finds wrong.
    pub(crate) fn write_remote(
        &self,
        remote: Remote,
        bytes: &impl PayloadSource,
        payload: RxPayload,
    ) -> Result<(), AccessFailure<AccessError>> {
        let access = Access::REMOTE_WRITE;
        let guard = rcu::read_lock();
        let found = self.remote(remote, payload.len, access, &guard)?;
        bytes
            .copy_to(payload.offset, found.memory(), found.at(), payload.len)
            .map_err(|fault| match fault {
                Fault::PayloadSource => AccessFailure::AbsentElsewhere,
                Fault::Memory(error) => self.failed_remote(error, remote, payload.len, access),
            })
    }

    /// Appends `len` bytes at `remote` to `to`, to answer a read.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] finds wrong; `Ok(false)` when memory for the packet ran out.
    pub(crate) fn read_remote(
        &self,
        remote: Remote,
        len: u32,
        to: &mut impl PayloadSink,
    ) -> Result<bool, AccessFailure<AccessError>> {
        let access = Access::REMOTE_READ;
        let guard = rcu::read_lock();
        let found = self.remote(remote, len, access, &guard)?;
        match to.append(found.memory(), found.at(), len) {
            Ok(()) => Ok(true),
            Err(EAGAIN) => Err(self.failed_remote(EAGAIN, remote, len, access)),
            Err(_) => Ok(false),
        }
    }

    /// Does `op` to the eight bytes at `remote`. Returns what they were.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] finds wrong; nothing has changed then.
    pub(crate) fn atomic(
        &self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, AccessFailure<AccessError>> {
        let access = Access::REMOTE_ATOMIC;
        let guard = rcu::read_lock();
        let found = self.remote(remote, ATOMIC_BYTES, access, &guard)?;
        let (memory, at) = (found.memory(), found.at());
        match op {
            AtomicOp::CompareSwap { compare, swap } => memory.compare_swap(at, compare, swap),
            AtomicOp::FetchAdd { add } => memory.fetch_add(at, add),
        }
        .map_err(|error| self.failed_remote(error, remote, ATOMIC_BYTES, access))
    }

    /// Copies `payload` of the packet in `bytes`, eight bytes, to `remote`, at once and after everything that was
    /// written before.
    ///
    /// # Errors
    ///
    /// What [`KeyTable::remote`] finds wrong; nothing has changed then.
    pub(crate) fn write_whole(
        &self,
        remote: Remote,
        bytes: &impl PayloadSource,
        payload: RxPayload,
    ) -> Result<(), AccessFailure<AccessError>> {
        let access = Access::REMOTE_WRITE;
        let mut value = [0; ATOMIC_BYTES as usize];
        bytes
            .read(payload.offset, &mut value)
            .map_err(|_| AccessError::Bounds)?;
        let guard = rcu::read_lock();
        let found = self.remote(remote, ATOMIC_BYTES, access, &guard)?;
        found
            .memory()
            .store_release(found.at(), u64::from_ne_bytes(value))
            .map_err(|error| self.failed_remote(error, remote, ATOMIC_BYTES, access))
    }

    /// Carries out an operation on keys.
    ///
    /// # Errors
    ///
    /// The status that the request completes with.
    pub(crate) fn perform(&self, local: &LocalRequest) -> Result<(), WcStatus> {
        match local {
            LocalRequest::Invalidate(rkey) => self
                .invalidate(*rkey, false)
                .map_err(|_| WcStatus::LocQpOpErr),
            LocalRequest::Bind(bind) => self.keys.bind(self.pd, self.identity, bind),
            LocalRequest::Register(reg) => self.keys.register(self.pd, reg),
        }
    }

    /// Takes a key back; `remote`: at the wish of the peer.
    ///
    /// # Errors
    ///
    /// Why it cannot be taken back.
    pub(crate) fn invalidate(&self, rkey: Rkey, remote: bool) -> Result<(), AccessError> {
        self.keys
            .invalidate(self.pd, self.identity, rkey.get(), remote)
    }

    /// What it means that memory of a work request was not accessed.
    pub(super) fn failed_piece(
        &self,
        piece: &SgPiece,
        error: Error,
        access: Access,
        ahead: u32,
    ) -> AccessFailure<WcStatus> {
        if error != EAGAIN {
            return AccessFailure::Refused(WcStatus::LocProtErr);
        }
        AccessFailure::Absent(FaultRequest {
            pd: self.pd.clone(),
            peer_of: None,
            key: piece.lkey,
            va: piece.va,
            must: piece.len,
            may: piece.rest.min(ahead),
            access,
        })
    }

    /// What it means that memory that a peer asks for was not accessed.
    pub(super) fn failed_remote(
        &self,
        error: Error,
        remote: Remote,
        len: u32,
        access: Access,
    ) -> AccessFailure<AccessError> {
        if error != EAGAIN {
            return AccessFailure::Refused(AccessError::Bounds);
        }
        AccessFailure::Absent(FaultRequest {
            pd: self.pd.clone(),
            peer_of: Some(self.identity),
            key: remote.rkey.get(),
            va: remote.va,
            must: len,
            may: SHORT_AHEAD,
            access,
        })
    }

    pub(super) fn local<'g>(
        &'g self,
        piece: &SgPiece,
        access: Access,
        guard: &'g rcu::Guard,
    ) -> Result<Mapped<'g>, WcStatus> {
        let request = AccessRequest {
            pd: self.pd,
            va: piece.va,
            len: piece.len,
            access,
        };
        self.keys
            .local(piece.lkey, &request, guard)
            .map_err(|_| WcStatus::LocProtErr)
    }

    pub(super) fn remote<'g>(
        &'g self,
        remote: Remote,
        len: u32,
        access: Access,
        guard: &'g rcu::Guard,
    ) -> Result<Mapped<'g>, AccessError> {
        let request = AccessRequest {
            pd: self.pd,
            va: remote.va,
            len,
            access,
        };
        self.keys
            .remote(self.identity, remote.rkey.get(), &request, guard)
    }
}

/// Cuts bytes `offset..offset + len` of a message out of its scatter list.
pub(crate) fn pieces(sges: &[WqeSge], offset: u32, len: u32) -> impl Iterator<Item = SgPiece> + '_ {
    let mut skip = offset;
    let mut left = len;
    sges.iter().filter_map(move |sge| {
        let passed = skip.min(sge.length);
        skip = skip.wrapping_sub(passed);
        let taken = left.min(sge.length.wrapping_sub(passed));
        left = left.wrapping_sub(taken);
        (taken != 0).then_some(SgPiece {
            lkey: sge.lkey,
            va: sge.addr.wrapping_add(u64::from(passed)),
            len: taken,
            rest: sge.length.wrapping_sub(passed),
        })
    })
}
