// SPDX-License-Identifier: GPL-2.0

//! Access of a QP to memory: copies between scatter/gather lists or remote addresses, and payload.
//!
//! Engines call this in process context or softirq, in a section: a region that is deregistered meanwhile remains valid
//! until their run ends, and no later run finds it. On-demand memory may be absent. Then the error is
//! [`Obstacle::Absent`], the [`FaultWait`] of the caller waits for the fault, and the caller repeats the whole access.

use crate::{
    mem::{
        access_request::AccessRequest,
        key_table::{
            KeyReader,
            Mapped, //
        },
        mw::QpIdentity,
        page_fault::{
            FaultRequest,
            FaultWait,
            FAULT_AROUND_BYTES, //
        },
        payload::{
            PayloadSink,
            PayloadSource,
            SourceFailure, //
        },
        pd::Pd,
        sge::Sge, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::mm::{
    copy::CopySource,
    memory::Memory, //
};
use roce::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    bind::LocalRequest,
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

impl<'g> QpMemory<'_, 'g> {
    /// Copies `payload` of `source` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_PROT_ERR` if a key, right or range is wrong; `IB_WC_LOC_LEN_ERR` if the list is too short.
    pub(crate) fn scatter(
        &self,
        sges: &[Sge],
        offset: u32,
        (source, payload): (&impl PayloadSource, RxPayload),
        wait: &mut FaultWait,
    ) -> Result<(), Obstacle<WcStatus>> {
        let mut from = payload.offset;
        let mut left = payload.len;
        for piece in pieces(sges, offset, payload.len) {
            let found = self.lookup_local(&piece, Access::LOCAL_WRITE)?;
            source
                .copy_to(from, found.memory(), found.offset(), piece.len)
                .map_err(|error| match source.has_failed() {
                    true => Obstacle::Absent,
                    false => self.receive_failure(&piece, error, wait),
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
        sges: &[Sge],
        offset: u32,
        bytes: &[u8],
        wait: &mut FaultWait,
    ) -> Result<(), Obstacle<WcStatus>> {
        let mut left = bytes;
        let len = u32::try_from(bytes.len()).map_err(|_| WcStatus::LocLenErr)?;
        for piece in pieces(sges, offset, len) {
            let found = self.lookup_local(&piece, Access::LOCAL_WRITE)?;
            let (now, later) = left
                .split_at_checked(piece.len as usize)
                .ok_or(WcStatus::LocLenErr)?;
            found
                .memory()
                .write(found.offset(), now)
                .map_err(|error| self.receive_failure(&piece, error, wait))?;
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
        sges: &[Sge],
        offset: u32,
        len: u32,
        to: &mut impl PayloadSink,
        wait: &mut FaultWait,
    ) -> Result<bool, Obstacle<WcStatus>> {
        let mut left = len;
        for piece in pieces(sges, offset, len) {
            let found = self.lookup_local(&piece, Access::NONE)?;
            match to.append(found.memory(), found.offset(), piece.len) {
                Ok(()) => {}
                Err(EAGAIN) => return Err(self.send_failure(&piece, EAGAIN, wait)),
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

    /// Checks that a peer has the rights `access` to `len` bytes at `remote`. With `fault_around`, returns what must be
    /// faulted in for the first [`FAULT_AROUND_BYTES`] of them to be present, if they are not.
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
    ) -> Result<Option<FaultRequest>, AccessError> {
        let found = self.lookup_remote(remote, len, access)?;
        if !fault_around || found.memory().is_pinned() {
            return Ok(None);
        }
        let around_len = len.min(FAULT_AROUND_BYTES);
        match found
            .memory()
            .probe(found.offset(), around_len as usize, access.writes())
        {
            // Best effort: `len` is 0, and each access checks its own memory again.
            Err(EAGAIN) => Ok(Some(FaultRequest {
                pd: self.pd.clone(),
                peer_of: Some(self.identity),
                key: remote.rkey.get(),
                va: remote.va,
                len: 0,
                around_len,
                access,
            })),
            _ => Ok(None),
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
        (remote, left): (Remote, u32),
        (source, payload): (&impl PayloadSource, RxPayload),
        wait: &mut FaultWait,
    ) -> Result<(), Obstacle<AccessError>> {
        let access = Access::REMOTE_WRITE;
        let found = self.lookup_remote(remote, payload.len, access)?;
        source
            .copy_to(payload.offset, found.memory(), found.offset(), payload.len)
            .map_err(|error| match source.has_failed() {
                true => Obstacle::Absent,
                false => {
                    let around = (remote, left);
                    self.remote_failure(error, around, (payload.len, access), wait)
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
        wait: &mut FaultWait,
    ) -> Result<bool, Obstacle<AccessError>> {
        let access = Access::REMOTE_READ;
        let found = self.lookup_remote(remote, len, access)?;
        match to.append(found.memory(), found.offset(), len) {
            Ok(()) => Ok(true),
            Err(EAGAIN) => {
                let around = (remote, SHORT_FAULT_AROUND_BYTES);
                Err(self.remote_failure(EAGAIN, around, (len, access), wait))
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
        wait: &mut FaultWait,
    ) -> Result<u64, Obstacle<AccessError>> {
        let access = Access::REMOTE_ATOMIC;
        let found = self.lookup_remote(remote, ATOMIC_BYTES, access)?;
        let (memory, at) = (found.memory(), found.offset());
        match op {
            AtomicOp::CompareSwap { compare, swap } => memory.compare_swap(at, compare, swap),
            AtomicOp::FetchAdd { add } => memory.fetch_add(at, add),
        }
        .map_err(|error| {
            self.remote_failure(error, (remote, ATOMIC_BYTES), (ATOMIC_BYTES, access), wait)
        })
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
        (source, payload): (&impl PayloadSource, RxPayload),
        wait: &mut FaultWait,
    ) -> Result<(), Obstacle<AccessError>> {
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
                self.remote_failure(error, (remote, ATOMIC_BYTES), (ATOMIC_BYTES, access), wait)
            })
    }

    /// Copies `len` bytes, from byte `offset` of the message that `sges` describes, to another memory.
    ///
    /// # Errors
    ///
    /// As [`PayloadSource::copy_to`]: `failure` has why the message cannot be read, as in [`QpMemory::scatter`].
    #[inline]
    pub(crate) fn copy_out(
        &self,
        sges: &[Sge],
        (offset, len): (u32, u32),
        (to, at): (&Memory, u64),
        failure: &SourceFailure<'_, WcStatus>,
    ) -> Result {
        let mut done = 0u32;
        for piece in pieces(sges, offset, len) {
            let found = self
                .lookup_local(&piece, Access::NONE)
                .map_err(|status| failure.refused(status))?;
            let at = at.wrapping_add(done.into());
            let source = CopySource::new(found.memory(), found.offset());
            // CAST: `u32` to `usize`, on 64 bits.
            let copied = to.copy_from(at, &source, piece.len as usize);
            copied.map_err(|error| match source.failure() {
                None => error,
                Some(error) => failure.record(|wait| self.send_failure(&piece, error, wait)),
            })?;
            done = done.wrapping_add(piece.len);
        }
        match done == len {
            true => Ok(()),
            false => Err(failure.refused(WcStatus::LocLenErr)),
        }
    }

    /// Copies `len` bytes at `remote` to another memory, for a READ response.
    ///
    /// # Errors
    ///
    /// As [`PayloadSource::copy_to`]: `failure` has why `remote` cannot be read, as in [`KeyReader::lookup_remote`].
    #[inline]
    pub(crate) fn copy_out_remote(
        &self,
        remote: Remote,
        len: u32,
        (to, at): (&Memory, u64),
        failure: &SourceFailure<'_, AccessError>,
    ) -> Result {
        let access = Access::REMOTE_READ;
        let found = self
            .lookup_remote(remote, len, access)
            .map_err(|error| failure.refused(error))?;
        let source = CopySource::new(found.memory(), found.offset());
        // CAST: `u32` to `usize`, on 64 bits.
        let copied = to.copy_from(at, &source, len as usize);
        copied.map_err(|error| match source.failure() {
            None => error,
            Some(error) => {
                let around = (remote, SHORT_FAULT_AROUND_BYTES);
                failure.record(|wait| self.remote_failure(error, around, (len, access), wait))
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

    /// Converts an access error of a scatter/gather list entry that is read.
    #[cold]
    fn send_failure(
        &self,
        piece: &SgPiece,
        error: Error,
        wait: &mut FaultWait,
    ) -> Obstacle<WcStatus> {
        self.local_failure(piece, error, (Access::NONE, FAULT_AROUND_BYTES), wait)
    }

    /// Converts an access error of a scatter/gather list entry that is written.
    #[cold]
    fn receive_failure(
        &self,
        piece: &SgPiece,
        error: Error,
        wait: &mut FaultWait,
    ) -> Obstacle<WcStatus> {
        let around = (Access::LOCAL_WRITE, SHORT_FAULT_AROUND_BYTES);
        self.local_failure(piece, error, around, wait)
    }

    fn local_failure(
        &self,
        piece: &SgPiece,
        error: Error,
        (access, around_limit): (Access, u32),
        wait: &mut FaultWait,
    ) -> Obstacle<WcStatus> {
        if error != EAGAIN {
            return Obstacle::Refused(WcStatus::LocProtErr);
        }
        let request = FaultRequest {
            pd: self.pd.clone(),
            peer_of: None,
            key: piece.lkey,
            va: piece.va,
            len: piece.len,
            around_len: piece.rest.min(around_limit),
            access,
        };
        wait.absent(request, WcStatus::LocProtErr)
    }

    /// Converts an access error of `len` bytes of memory that the peer named. `left`: bytes from there on that may be
    /// needed next.
    #[cold]
    fn remote_failure(
        &self,
        error: Error,
        (remote, left): (Remote, u32),
        (len, access): (u32, Access),
        wait: &mut FaultWait,
    ) -> Obstacle<AccessError> {
        if error != EAGAIN {
            return Obstacle::Refused(AccessError::Bounds);
        }
        let request = FaultRequest {
            pd: self.pd.clone(),
            peer_of: Some(self.identity),
            key: remote.rkey.get(),
            va: remote.va,
            len,
            around_len: left.min(SHORT_FAULT_AROUND_BYTES),
            access,
        };
        wait.absent(request, AccessError::Fault)
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
fn pieces(sges: &[Sge], offset: u32, len: u32) -> impl Iterator<Item = SgPiece> + '_ {
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
