// SPDX-License-Identifier: GPL-2.0

//! Access of a QP to memory: copies between scatter/gather lists or remote addresses, and payload.
//!
//! Engines call this in process context or softirq, in a section: a region that is deregistered meanwhile remains valid
//! until their run ends, and no later run finds it. On-demand memory may be absent. The error then describes the fault,
//! and the caller repeats the whole access after the fault.

use crate::{
    abi::{
        send_op::LocalRequest,
        wqe::WqeSge, //
    },
    mem::{
        access_request::AccessRequest,
        key_table::{
            KeyReader,
            Mapped, //
        },
        mw::QpIdentity,
        page_fault::{
            AccessFailure,
            FaultRequest,
            FAULT_AROUND_BYTES, //
        },
        payload::{
            PayloadError,
            PayloadSink,
            PayloadSource, //
        },
        pd::Pd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::mm::{
    copy::CopyError,
    memory::Memory, //
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

/// Limit of the memory that a fault brings in ahead of need if the length of the message is unknown.
const SHORT_FAULT_AROUND_BYTES: u32 = 64 << 10;

/// The memory that one QP can access.
#[derive(Clone, Copy)]
pub(crate) struct QpMemory<'a, 'g> {
    /// Keys of the device.
    pub(crate) keys: &'a KeyReader<'g>,
    /// Protection domain of the QP.
    pub(crate) pd: &'a Arc<Pd>,
    /// Identity of the QP.
    pub(crate) identity: QpIdentity,
}

/// Contiguous part of a message, in one region.
struct SgPiece {
    lkey: u32,
    va: u64,
    len: u32,
    /// Bytes from `va` to the end of the list entry.
    rest: u32,
}

/// Which side of a copy between two memories could not be accessed.
pub(crate) enum SgCopyError<E> {
    /// The memory of the QP.
    Source(AccessFailure<E>),
    /// The other memory.
    Target(Error),
}

impl<E> From<E> for SgCopyError<E> {
    fn from(error: E) -> Self {
        Self::Source(error.into())
    }
}

impl<'g> QpMemory<'_, 'g> {
    /// Copies `payload` of `source` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_PROT_ERR` if a key, right or range is wrong; `IB_WC_LOC_LEN_ERR` if the list is too short.
    pub(crate) fn scatter(
        &self,
        sges: &[WqeSge],
        offset: u32,
        source: &impl PayloadSource,
        payload: RxPayload,
    ) -> Result<(), AccessFailure<WcStatus>> {
        let mut from = payload.offset;
        let mut left = payload.len;
        for piece in pieces(sges, offset, payload.len) {
            let found = self.lookup_local(&piece, Access::LOCAL_WRITE)?;
            source
                .copy_to(from, found.memory(), found.offset(), piece.len)
                .map_err(|error| match error {
                    PayloadError::Source => AccessFailure::SourceAbsent,
                    PayloadError::Memory(error) => self.local_failure(
                        &piece,
                        error,
                        Access::LOCAL_WRITE,
                        SHORT_FAULT_AROUND_BYTES,
                    ),
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
        let mut left = bytes;
        let len = u32::try_from(bytes.len()).map_err(|_| WcStatus::LocLenErr)?;
        for piece in pieces(sges, offset, len) {
            let found = self.lookup_local(&piece, Access::LOCAL_WRITE)?;
            let (now, later) = left
                .split_at_checked(piece.len as usize)
                .ok_or(WcStatus::LocLenErr)?;
            found.memory().write(found.offset(), now).map_err(|error| {
                self.local_failure(&piece, error, Access::LOCAL_WRITE, SHORT_FAULT_AROUND_BYTES)
            })?;
            left = later;
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// Appends `len` bytes to `to`, from byte `offset` of the message that `sges` describes. Returns false if
    /// the allocation of packet memory failed.
    ///
    /// # Errors
    ///
    /// As [`QpMemory::scatter`].
    pub(crate) fn gather(
        &self,
        sges: &[WqeSge],
        offset: u32,
        len: u32,
        to: &mut impl PayloadSink,
    ) -> Result<bool, AccessFailure<WcStatus>> {
        let mut left = len;
        for piece in pieces(sges, offset, len) {
            let found = self.lookup_local(&piece, Access::NONE)?;
            match to.append(found.memory(), found.offset(), piece.len) {
                Ok(()) => {}
                Err(EAGAIN) => {
                    return Err(self.local_failure(
                        &piece,
                        EAGAIN,
                        Access::NONE,
                        FAULT_AROUND_BYTES,
                    ))
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

    /// Checks that a peer has the rights `access` to `len` bytes at `remote`. With `fault_around`, also
    /// checks that the first [`FAULT_AROUND_BYTES`] of them are present.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`].
    pub(crate) fn check(
        &self,
        remote: Remote,
        len: u32,
        access: Access,
        fault_around: bool,
    ) -> Result<(), AccessFailure<AccessError>> {
        let found = self.lookup_remote(remote, len, access)?;
        if !fault_around || found.memory().is_pinned() {
            return Ok(());
        }
        let around_len = len.min(FAULT_AROUND_BYTES);
        match found
            .memory()
            .probe(found.offset(), around_len as usize, access.writes())
        {
            // Best effort: `len` is 0, and each access checks its own memory again.
            Err(EAGAIN) => Err(AccessFailure::Absent(FaultRequest {
                pd: self.pd.clone(),
                peer_of: Some(self.identity),
                key: remote.rkey.get(),
                va: remote.va,
                len: 0,
                around_len,
                access,
            })),
            _ => Ok(()),
        }
    }

    /// Copies `payload` of `source` to `remote`, an address that the peer chose. `left`: length of the message from
    /// there on.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`].
    pub(crate) fn write_remote(
        &self,
        remote: Remote,
        source: &impl PayloadSource,
        payload: RxPayload,
        left: u32,
    ) -> Result<(), AccessFailure<AccessError>> {
        let access = Access::REMOTE_WRITE;
        let found = self.lookup_remote(remote, payload.len, access)?;
        source
            .copy_to(payload.offset, found.memory(), found.offset(), payload.len)
            .map_err(|error| match error {
                PayloadError::Source => AccessFailure::SourceAbsent,
                PayloadError::Memory(error) => {
                    self.remote_failure(error, (remote, left), payload.len, access)
                }
            })
    }

    /// Appends `len` bytes at `remote` to `to`, for a READ response. Returns false if the allocation of
    /// packet memory failed.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`].
    pub(crate) fn read_remote(
        &self,
        remote: Remote,
        len: u32,
        to: &mut impl PayloadSink,
    ) -> Result<bool, AccessFailure<AccessError>> {
        let access = Access::REMOTE_READ;
        let found = self.lookup_remote(remote, len, access)?;
        match to.append(found.memory(), found.offset(), len) {
            Ok(()) => Ok(true),
            Err(EAGAIN) => {
                let around = (remote, SHORT_FAULT_AROUND_BYTES);
                Err(self.remote_failure(EAGAIN, around, len, access))
            }
            Err(_) => Ok(false),
        }
    }

    /// Executes `op` on the eight bytes at `remote`. Returns their original value.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`]; nothing has changed then.
    pub(crate) fn atomic(
        &self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, AccessFailure<AccessError>> {
        let access = Access::REMOTE_ATOMIC;
        let found = self.lookup_remote(remote, ATOMIC_BYTES, access)?;
        let (memory, at) = (found.memory(), found.offset());
        match op {
            AtomicOp::CompareSwap { compare, swap } => memory.compare_swap(at, compare, swap),
            AtomicOp::FetchAdd { add } => memory.fetch_add(at, add),
        }
        .map_err(|error| self.remote_failure(error, (remote, ATOMIC_BYTES), ATOMIC_BYTES, access))
    }

    /// Executes an ATOMIC WRITE: stores the eight bytes of `payload` at `remote` in one access, ordered after
    /// all earlier writes.
    ///
    /// # Errors
    ///
    /// As [`KeyReader::lookup_remote`]; nothing has changed then.
    pub(crate) fn write_atomic(
        &self,
        remote: Remote,
        source: &impl PayloadSource,
        payload: RxPayload,
    ) -> Result<(), AccessFailure<AccessError>> {
        let access = Access::REMOTE_WRITE;
        let mut value = [0; ATOMIC_BYTES as usize];
        source
            .read(payload.offset, &mut value)
            .map_err(|_| AccessError::Bounds)?;
        let found = self.lookup_remote(remote, ATOMIC_BYTES, access)?;
        found
            .memory()
            .store_release(found.offset(), u64::from_ne_bytes(value))
            .map_err(|error| {
                self.remote_failure(error, (remote, ATOMIC_BYTES), ATOMIC_BYTES, access)
            })
    }

    /// Copies `len` bytes, from byte `offset` of the message that `sges` describes, to another memory.
    ///
    /// # Errors
    ///
    /// The side that failed; for the message, as [`QpMemory::scatter`].
    #[inline]
    pub(crate) fn copy_out(
        &self,
        sges: &[WqeSge],
        offset: u32,
        len: u32,
        (to, at): (&Memory, u64),
    ) -> Result<(), SgCopyError<WcStatus>> {
        let mut done = 0u32;
        for piece in pieces(sges, offset, len) {
            let found = self.lookup_local(&piece, Access::NONE)?;
            let at = at.wrapping_add(done.into());
            // CAST: `u32` to `usize`, on 64 bits.
            to.copy_from(at, (found.memory(), found.offset()), piece.len as usize)
                .map_err(|error| match error {
                    CopyError::Target(error) => SgCopyError::Target(error),
                    CopyError::Source(error) => SgCopyError::Source(self.local_failure(
                        &piece,
                        error,
                        Access::NONE,
                        FAULT_AROUND_BYTES,
                    )),
                })?;
            done = done.wrapping_add(piece.len);
        }
        if done == len {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr.into())
        }
    }

    /// Copies `len` bytes at `remote` to another memory, for a READ response.
    ///
    /// # Errors
    ///
    /// The side that failed; for `remote`, as [`KeyReader::lookup_remote`].
    #[inline]
    pub(crate) fn copy_out_remote(
        &self,
        remote: Remote,
        len: u32,
        (to, at): (&Memory, u64),
    ) -> Result<(), SgCopyError<AccessError>> {
        let access = Access::REMOTE_READ;
        let found = self.lookup_remote(remote, len, access)?;
        // CAST: `u32` to `usize`, on 64 bits.
        to.copy_from(at, (found.memory(), found.offset()), len as usize)
            .map_err(|error| match error {
                CopyError::Target(error) => SgCopyError::Target(error),
                CopyError::Source(error) => {
                    let around = (remote, SHORT_FAULT_AROUND_BYTES);
                    SgCopyError::Source(self.remote_failure(error, around, len, access))
                }
            })
    }

    /// Executes an operation on memory keys.
    ///
    /// # Errors
    ///
    /// The status with which the request completes.
    pub(crate) fn perform(&self, local: &LocalRequest) -> Result<(), WcStatus> {
        match local {
            LocalRequest::Invalidate(rkey) => self
                .invalidate(*rkey, false)
                .map_err(|_| WcStatus::LocQpOpErr),
            LocalRequest::Bind(bind) => self.keys.table().bind(self.pd, self.identity, bind),
            LocalRequest::Register(reg) => self.keys.table().register(self.pd, reg),
        }
    }

    /// Invalidates a key; `remote`: on behalf of the peer.
    ///
    /// # Errors
    ///
    /// As [`KeyTable::invalidate`].
    pub(crate) fn invalidate(&self, rkey: Rkey, remote: bool) -> Result<(), AccessError> {
        self.keys
            .table()
            .invalidate(self.pd, self.identity, rkey.get(), remote)
    }

    /// Converts an access error of a scatter/gather list entry.
    fn local_failure(
        &self,
        piece: &SgPiece,
        error: Error,
        access: Access,
        around_limit: u32,
    ) -> AccessFailure<WcStatus> {
        if error != EAGAIN {
            return AccessFailure::Refused(WcStatus::LocProtErr);
        }
        AccessFailure::Absent(FaultRequest {
            pd: self.pd.clone(),
            peer_of: None,
            key: piece.lkey,
            va: piece.va,
            len: piece.len,
            around_len: piece.rest.min(around_limit),
            access,
        })
    }

    /// Converts an access error of memory that the peer named. `left`: bytes from there on that may be needed next.
    fn remote_failure(
        &self,
        error: Error,
        (remote, left): (Remote, u32),
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
            len,
            around_len: left.min(SHORT_FAULT_AROUND_BYTES),
            access,
        })
    }

    #[inline]
    fn lookup_local(&self, piece: &SgPiece, access: Access) -> Result<Mapped<'g>, WcStatus> {
        let request = AccessRequest {
            pd: self.pd,
            va: piece.va,
            len: piece.len,
            access,
        };
        self.keys
            .lookup_local(piece.lkey, &request)
            .map_err(|_| WcStatus::LocProtErr)
    }

    #[inline]
    fn lookup_remote(
        &self,
        remote: Remote,
        len: u32,
        access: Access,
    ) -> Result<Mapped<'g>, AccessError> {
        let request = AccessRequest {
            pd: self.pd,
            va: remote.va,
            len,
            access,
        };
        self.keys
            .lookup_remote(self.identity, remote.rkey.get(), &request)
    }
}

/// Splits bytes `offset..offset + len` of a message at the boundaries of its scatter/gather list entries.
fn pieces(sges: &[WqeSge], offset: u32, len: u32) -> impl Iterator<Item = SgPiece> + '_ {
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
