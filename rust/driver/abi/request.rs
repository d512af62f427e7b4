// SPDX-License-Identifier: GPL-2.0

//! What a send WQE of any ABI is decoded to, besides the work request.

use crate::{
    abi::uverbs::{
        opcode,
        send_flag,
        wc_opcode, //
    },
    mem::sge::Sge, //
};
use roce::{
    access::{
        Access,
        Region, //
    },
    bind::{
        Bind,
        FastReg,
        LocalRequest, //
    },
    id::{
        Lkey,
        Rkey,
        Srqn, //
    },
    status::WcStatus,
    wr::{
        SendOp,
        SendWr,
        WcOpcode,
        ATOMIC_BYTES, //
    }, //
};

/// Kind and size of the private copy of the body of a send queue entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyLayout {
    /// Inline data of this many bytes, in the entry itself.
    Inline(u32),
    /// A scatter/gather list of this many entries.
    Scatter(u32),
    /// No message, but an operation on memory keys, see [`store_local`].
    LocalRequest,
}

/// A work request that is not executed, but completes with an error when its predecessors have completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectedWqe {
    /// Identifier given by the consumer.
    pub(crate) wr_id: u64,
    /// Completion status.
    pub(crate) status: WcStatus,
    /// `enum ib_uverbs_wr_opcode`. Converted when it is needed: most requests are prepared to be rejected, and are not.
    opcode: u32,
}

impl RejectedWqe {
    /// Returns a SEND that is not executed.
    pub(crate) fn of_send(wr_id: u64, status: WcStatus) -> Self {
        Self {
            wr_id,
            status,
            opcode: opcode::SEND,
        }
    }

    /// Returns the opcode of the completion; that of a SEND if the operation is unknown.
    pub(crate) fn opcode(&self) -> WcOpcode {
        wc_opcode(self.opcode)
    }
}

/// What a send WQE of any ABI has besides its operation and its message.
#[derive(Clone, Copy)]
pub(super) struct WqeCommon {
    pub(super) wr_id: u64,
    /// `enum ib_uverbs_wr_opcode`.
    pub(super) opcode: u32,
    /// `enum ibv_send_flags`.
    pub(super) flags: u32,
    /// XRC: the SRQ of the peer.
    pub(super) srqn: Srqn,
}

impl WqeCommon {
    /// Returns the error completion of this entry, with `status`.
    #[inline]
    pub(super) fn rejected(self, status: WcStatus) -> RejectedWqe {
        RejectedWqe {
            wr_id: self.wr_id,
            status,
            opcode: self.opcode,
        }
    }

    /// Returns the work request. `op` is `None` if it is not available to the consumer; `length` is that of the
    /// scatter/gather list or inline data, in bytes.
    ///
    /// # Errors
    ///
    /// `IB_WC_LOC_QP_OP_ERR` without an operation; `IB_WC_LOC_LEN_ERR` for an atomic whose scatter/gather list is too
    /// short for the result.
    #[inline]
    pub(super) fn work_request(
        self,
        op: Option<SendOp>,
        length: u32,
        rules: SendRules,
    ) -> Result<SendWr, RejectedWqe> {
        let op = op.ok_or(self.rejected(WcStatus::LocQpOpErr))?;
        let length = match op {
            SendOp::Atomic { .. } if length < ATOMIC_BYTES => {
                return Err(self.rejected(WcStatus::LocLenErr));
            }
            SendOp::Atomic { .. } | SendOp::AtomicWrite { .. } => ATOMIC_BYTES,
            SendOp::Flush { .. } | SendOp::Local(_) => 0,
            _ => length,
        };
        Ok(SendWr {
            wr_id: self.wr_id,
            op,
            length,
            srqn: self.srqn,
            signaled: self.is_signaled(rules),
            solicited: self.has(send_flag::SOLICITED),
            fence: self.has(send_flag::FENCE),
        })
    }

    /// Returns whether success generates a completion.
    #[inline]
    pub(super) fn is_signaled(self, rules: SendRules) -> bool {
        rules.signal_all || self.has(send_flag::SIGNALED)
    }

    /// Returns whether this flag is set.
    #[inline]
    pub(super) fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// Returns the size of a WQE with `head` bytes before its list of up to `max_sge` SGEs.
pub(super) fn bytes_with_list(head: usize, max_sge: u32) -> usize {
    // CAST: At most `MAX_SGE`.
    let list = (max_sge as usize).saturating_mul(size_of::<Sge>());
    head.saturating_add(list)
}

/// How the entries of one send queue are read: what the QP was created with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRules {
    /// Scatter/gather entries of one work request.
    pub(crate) max_sge: u32,
    /// Bytes of inline data of one work request.
    pub(crate) max_inline: u32,
    /// Every request is signaled.
    pub(crate) signal_all: bool,
    /// A kernel consumer posts. Only it may register pages.
    pub(crate) is_kernel: bool,
}

/// Number of SGEs in whose place an operation on memory keys is stored.
pub(crate) const LOCAL_REQUEST_SGES: u32 = 2;

/// What an operation on memory keys is, in the first `length` of its storage.
mod local {
    pub(super) const INVALIDATE: u32 = 0;
    pub(super) const REGISTER: u32 = 1;
    /// The next byte is the new key.
    pub(super) const BIND: u32 = 2;
}

/// Stores `request` in the place of a scatter/gather list: few requests have it, and each would take much more memory
/// beside. `None` if there are fewer than [`LOCAL_REQUEST_SGES`].
pub(crate) fn store_local(request: &LocalRequest, storage: &mut [Sge]) -> Option<()> {
    let stored = match *request {
        LocalRequest::Invalidate(rkey) => [(0, local::INVALIDATE, rkey.get()), (0, 0, 0)],
        LocalRequest::Register(FastReg { key, access, iova }) => {
            [(iova, local::REGISTER, key), (0, access.bits(), 0)]
        }
        LocalRequest::Bind(bind) => [
            (
                bind.range.iova,
                local::BIND | (u32::from(bind.key) << 8),
                bind.window.get(),
            ),
            (bind.range.length, bind.access.bits(), bind.region.get()),
        ],
    };
    let storage = storage.get_mut(..stored.len())?;
    for (to, (addr, length, lkey)) in storage.iter_mut().zip(stored) {
        *to = Sge { addr, length, lkey };
    }
    Some(())
}

/// Returns the operation on memory keys that [`store_local`] stored.
pub(crate) fn load_local(storage: &[Sge]) -> Option<LocalRequest> {
    let [first, second, ..] = storage else {
        return None;
    };
    let access = Access::from_bits(second.length);
    let [kind, key, ..] = first.length.to_le_bytes();
    Some(match u32::from(kind) {
        local::INVALIDATE => LocalRequest::Invalidate(Rkey::new(first.lkey)),
        local::REGISTER => LocalRequest::Register(FastReg {
            key: first.lkey,
            access,
            iova: first.addr,
        }),
        local::BIND => LocalRequest::Bind(Bind {
            window: Rkey::new(first.lkey),
            key,
            region: Lkey::new(second.lkey),
            access,
            range: Region {
                iova: first.addr,
                length: second.addr,
            },
        }),
        _ => return None,
    })
}
