// SPDX-License-Identifier: GPL-2.0

//! What a queue pair can reach: the memory regions of its protection domain.
//!
//! Owns the walk over scatter lists, and the copies between memory, received packets and packets
//! to be sent. Does not know why bytes move. Every access goes through a key, under RCU: a region
//! that is deregistered stays whole until the copy ends, and nothing starts on it afterwards.

use crate::{
    abi::Sge,
    frame::Frame,
    mr::{
        Keys,
        Pd, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::net::rx::RxSkb;
use roce::{
    access::{
        Access,
        AccessError, //
    },
    segment::Payload,
    status::WcStatus,
    wr::Remote, //
};

/// The memory that one queue pair can reach.
#[derive(Clone, Copy)]
pub(crate) struct Space<'a> {
    /// Keys of the device.
    pub(crate) keys: &'a Keys,
    /// Protection domain of the queue pair.
    pub(crate) pd: &'a Arc<Pd>,
}

/// One run of bytes of a message that stands in one region.
struct Piece {
    lkey: u32,
    va: u64,
    len: u32,
}

impl Space<'_> {
    /// Copies `payload` of `skb` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_PROT_ERR`: a key, a right or a range is wrong; `IB_WC_LOC_LEN_ERR`: the list is
    /// too short.
    pub(crate) fn scatter(
        &self,
        sges: &[Sge],
        offset: u32,
        skb: &RxSkb,
        payload: Payload,
    ) -> Result<(), WcStatus> {
        let guard = rcu::read_lock();
        // CAST: A packet's length.
        let mut from = payload.offset as usize;
        let mut left = payload.len;
        for piece in pieces(sges, offset, payload.len) {
            let (mr, at) = self.local(&piece, Access::LOCAL_WRITE, &guard)?;
            mr.memory()
                .copy_from_skb(at, skb, from, piece.len as usize)
                .map_err(|_| WcStatus::LocProtErr)?;
            from = from.wrapping_add(piece.len as usize);
            left = left.wrapping_sub(piece.len);
        }
        if left == 0 {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr)
        }
    }

    /// Copies `bytes` to byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// As [`Space::scatter`].
    pub(crate) fn scatter_bytes(
        &self,
        sges: &[Sge],
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), WcStatus> {
        let guard = rcu::read_lock();
        let mut left = bytes;
        let len = u32::try_from(bytes.len()).map_err(|_| WcStatus::LocLenErr)?;
        for piece in pieces(sges, offset, len) {
            let (mr, at) = self.local(&piece, Access::LOCAL_WRITE, &guard)?;
            let (now, later) = left
                .split_at_checked(piece.len as usize)
                .ok_or(WcStatus::LocLenErr)?;
            mr.memory()
                .write(at, now)
                .map_err(|_| WcStatus::LocProtErr)?;
            left = later;
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(WcStatus::LocLenErr)
        }
    }

    /// Appends `len` bytes to `frame`, from byte `offset` of the message that `sges` describes.
    ///
    /// # Errors
    ///
    /// As [`Space::scatter`]; `Ok(false)` when memory for the packet ran out.
    pub(crate) fn gather(
        &self,
        sges: &[Sge],
        offset: u32,
        len: u32,
        frame: &mut Frame,
    ) -> Result<bool, WcStatus> {
        let guard = rcu::read_lock();
        let mut left = len;
        for piece in pieces(sges, offset, len) {
            let (mr, at) = self.local(&piece, Access::NONE, &guard)?;
            if !frame.append(mr.memory(), at, piece.len as usize) {
                return Ok(false);
            }
            left = left.wrapping_sub(piece.len);
        }
        if left == 0 {
            Ok(true)
        } else {
            Err(WcStatus::LocLenErr)
        }
    }

    /// Checks that a peer may do `access` to `len` bytes at `remote`.
    ///
    /// # Errors
    ///
    /// What [`Keys::locate`] finds wrong.
    pub(crate) fn check(
        &self,
        remote: Remote,
        len: u32,
        access: Access,
    ) -> Result<(), AccessError> {
        let guard = rcu::read_lock();
        self.remote(remote, len, access, &guard).map(|_| ())
    }

    /// Copies `payload` of `skb` to `remote`, an address that the peer chose.
    ///
    /// # Errors
    ///
    /// What [`Keys::locate`] finds wrong.
    pub(crate) fn write_remote(
        &self,
        remote: Remote,
        skb: &RxSkb,
        payload: Payload,
    ) -> Result<(), AccessError> {
        let guard = rcu::read_lock();
        let (mr, at) = self.remote(remote, payload.len, Access::REMOTE_WRITE, &guard)?;
        mr.memory()
            .copy_from_skb(at, skb, payload.offset as usize, payload.len as usize)
            .map_err(|_| AccessError::Bounds)
    }

    /// Appends `len` bytes at `remote` to `frame`, to answer a read.
    ///
    /// # Errors
    ///
    /// What [`Keys::locate`] finds wrong; `Ok(false)` when memory for the packet ran out.
    pub(crate) fn read_remote(
        &self,
        remote: Remote,
        len: u32,
        frame: &mut Frame,
    ) -> Result<bool, AccessError> {
        let guard = rcu::read_lock();
        let (mr, at) = self.remote(remote, len, Access::REMOTE_READ, &guard)?;
        Ok(frame.append(mr.memory(), at, len as usize))
    }

    fn local<'g>(
        &'g self,
        piece: &Piece,
        access: Access,
        guard: &'g rcu::Guard,
    ) -> Result<(&'g crate::mr::Mr, u64), WcStatus> {
        self.keys
            .locate(self.pd, piece.lkey, piece.va, piece.len, access, guard)
            .map_err(|_| WcStatus::LocProtErr)
    }

    fn remote<'g>(
        &'g self,
        remote: Remote,
        len: u32,
        access: Access,
        guard: &'g rcu::Guard,
    ) -> Result<(&'g crate::mr::Mr, u64), AccessError> {
        self.keys
            .locate(self.pd, remote.rkey.get(), remote.va, len, access, guard)
    }
}

/// Cuts bytes `offset..offset + len` of a message out of its scatter list.
fn pieces(sges: &[Sge], offset: u32, len: u32) -> impl Iterator<Item = Piece> + '_ {
    let mut skip = offset;
    let mut left = len;
    sges.iter().filter_map(move |sge| {
        let passed = skip.min(sge.length);
        skip = skip.wrapping_sub(passed);
        let taken = left.min(sge.length.wrapping_sub(passed));
        left = left.wrapping_sub(taken);
        (taken != 0).then_some(Piece {
            lkey: sge.lkey,
            va: sge.addr.wrapping_add(u64::from(passed)),
            len: taken,
        })
    })
}
