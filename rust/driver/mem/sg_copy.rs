// SPDX-License-Identifier: GPL-2.0

//! Copies from what one queue pair can reach to any other memory.
//!
//! Owns the walk over the source. Does not know what the other memory is, nor who may write to it.

use crate::mem::sg_access::{
    pieces,
    QpMemory, //
};
use crate::{
    abi::wqe::WqeSge,
    mem::page_fault::{
        AccessFailure,
        MOST_AHEAD, //
    }, //
};
use kernel::{
    prelude::*,
    sync::rcu, //
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
    status::WcStatus,
    wr::Remote, //
};

/// Which end of a copy between two memories could not be accessed.
pub(crate) enum SgCopyError<E> {
    /// The one that was asked for.
    Source(AccessFailure<E>),
    /// The other.
    Target(Error),
}

impl<E> From<E> for SgCopyError<E> {
    fn from(error: E) -> Self {
        Self::Source(error.into())
    }
}

impl QpMemory<'_> {
    /// Copies `len` bytes from byte `offset` of the message that `sges` describes to a place in another
    /// memory.
    ///
    /// # Errors
    ///
    /// Which end is to blame; for the message, as [`QpMemory::scatter`].
    #[inline]
    pub(crate) fn copy_out(
        &self,
        sges: &[WqeSge],
        offset: u32,
        len: u32,
        (to, at): (&Memory, u64),
    ) -> Result<(), SgCopyError<WcStatus>> {
        let guard = rcu::read_lock();
        let mut done = 0u32;
        for piece in pieces(sges, offset, len) {
            let found = self.local(&piece, Access::NONE, &guard)?;
            let at = at.wrapping_add(done.into());
            // CAST: `u32` to `usize`, on 64 bits.
            to.copy_from(at, (found.memory(), found.at()), piece.len as usize)
                .map_err(|broken| match broken {
                    CopyError::Target(error) => SgCopyError::Target(error),
                    CopyError::Source(error) => SgCopyError::Source(self.failed_piece(
                        &piece,
                        error,
                        Access::NONE,
                        MOST_AHEAD,
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

    /// Copies `len` bytes at `remote`, to answer a read, to a place in another memory.
    ///
    /// # Errors
    ///
    /// Which end is to blame; for `remote`, what [`KeyTable::remote`] finds wrong.
    #[inline]
    pub(crate) fn fetch_remote(
        &self,
        remote: Remote,
        len: u32,
        (to, at): (&Memory, u64),
    ) -> Result<(), SgCopyError<AccessError>> {
        let access = Access::REMOTE_READ;
        let guard = rcu::read_lock();
        let found = self.remote(remote, len, access, &guard)?;
        // CAST: `u32` to `usize`, on 64 bits.
        to.copy_from(at, (found.memory(), found.at()), len as usize)
            .map_err(|broken| match broken {
                CopyError::Target(error) => SgCopyError::Target(error),
                CopyError::Source(error) => {
                    SgCopyError::Source(self.failed_remote(error, remote, len, access))
                }
            })
    }
}
