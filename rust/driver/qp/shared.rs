// SPDX-License-Identifier: GPL-2.0

//! What the two halves of a queue pair share.
//!
//! Owns the number, the state that `query_qp` reports, and the ways to the port, to the memory and
//! to the consumer. Does not know the halves: each is handed this with its turn, and leaves an
//! [`Actions`].

use crate::{
    mem::{
        mw::QpIdentity,
        pd::Pd,
        sg_access::QpMemory, //
    },
    packet::path::Path,
    port::{
        counters::Traffic,
        state::Port, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use rdma::{
    ib::{
        event::QpHandle,
        qp_attr::{
            IbQpState, //
            QpAttr,
        },
        trace,
        wc::Wc, //
    },
    net::tx_inflight::TxInflight,
    sync::quiesce::LiveRef, //
};
use roce::{
    id::Qpn,
    wr::Completion, //
};

/// Every state a queue pair may be in.
const STATES: [IbQpState; 7] = [
    IbQpState::Reset,
    IbQpState::Init,
    IbQpState::Rtr,
    IbQpState::Rts,
    IbQpState::Sqd,
    IbQpState::Sqe,
    IbQpState::Err,
];

/// The state with that number.
fn state_of(code: u32) -> IbQpState {
    let mut states = STATES.into_iter();
    states
        .find(|&state| state as u32 == code)
        .unwrap_or(IbQpState::Err)
}

/// In place of a peer's number: there is none. Not a number of 24 bits.
const NOBODY: u32 = u32::MAX;

/// What the two halves of a queue pair share.
pub(crate) struct QpShared {
    number: Atomic<u32>,
    /// Number of the peer, or [`NOBODY`].
    peer: Atomic<u32>,
    state: Atomic<u32>,
    port: Arc<Port>,
    traffic: Traffic,
    pd: Arc<Pd>,
    /// What its windows know it by.
    identity: QpIdentity,
    handle: QpHandle,
    tx_inflight: Arc<TxInflight>,
}

impl QpShared {
    /// A queue pair in RESET, without a number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        port: Arc<Port>,
        pd: Arc<Pd>,
        handle: QpHandle,
        alive: LiveRef,
    ) -> Result<Self> {
        Ok(Self {
            number: Atomic::new(0),
            peer: Atomic::new(NOBODY),
            state: Atomic::new(IbQpState::Reset as u32),
            port,
            traffic: Traffic::new(),
            pd,
            identity: QpIdentity::new(),
            handle,
            tx_inflight: TxInflight::new(alive)?,
        })
    }

    /// Number of the queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Gives the queue pair its number, before anyone can connect to it.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }

    /// Connects the queue pair to the one with this number. To be called before packets are taken.
    pub(crate) fn set_peer(&self, peer: Qpn) {
        self.peer.store(peer.get(), Relaxed);
    }

    /// Whether it is connected to the queue pair with this number. For any context.
    #[inline]
    pub(crate) fn is_connected_to(&self, number: Qpn) -> bool {
        self.peer.load(Relaxed) == number.get()
    }

    /// Whether it is connected to any.
    pub(crate) fn is_connected(&self) -> bool {
        self.peer.load(Relaxed) != NOBODY
    }

    /// The way to the peer that `attr` names.
    ///
    /// # Errors
    ///
    /// As [`Path::new`].
    pub(crate) fn path_by(&self, attr: &QpAttr) -> Result<Path> {
        let ends = (self.number(), attr.dest_qp_num);
        Ok(Path::new(&attr.ah, &self.port, ends)?.between(ends))
    }

    /// State, as `query_qp` reports it.
    pub(crate) fn state(&self) -> IbQpState {
        state_of(self.state.load(Relaxed))
    }

    /// Whether everything that is posted completes with an error.
    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        self.state.load(Relaxed) == IbQpState::Err as u32
    }

    /// Whether sends are taken, be it to flush them.
    pub(crate) fn takes_sends(&self) -> bool {
        !matches!(
            self.state(),
            IbQpState::Reset | IbQpState::Init | IbQpState::Rtr
        )
    }

    /// Whether sends are carried out or flushed.
    pub(crate) fn sends(&self) -> bool {
        matches!(
            self.state(),
            IbQpState::Rts | IbQpState::Sqe | IbQpState::Err
        )
    }

    /// Whether sends complete with an error, and perhaps nothing else does.
    pub(crate) fn flushes_sends(&self) -> bool {
        matches!(self.state(), IbQpState::Sqe | IbQpState::Err)
    }

    /// Goes to the send queue error state: a send of an unreliable service has failed, and those behind
    /// it are flushed. Receiving goes on.
    pub(crate) fn fail_sends(&self) {
        // The consumer may go from one to the other meanwhile; or, once this is done, back to RTS.
        while let from @ (IbQpState::Rts | IbQpState::Sqd) = self.state() {
            if self.change_state(from, IbQpState::Sqe) {
                break;
            }
        }
    }

    /// Whether packets are taken.
    pub(crate) fn receives(&self) -> bool {
        matches!(
            self.state(),
            IbQpState::Rtr | IbQpState::Rts | IbQpState::Sqd | IbQpState::Sqe
        )
    }

    /// Whether nothing is sent yet but answers. Packets may be taken just before the state says RTR.
    pub(crate) fn only_receives(&self) -> bool {
        matches!(self.state(), IbQpState::Init | IbQpState::Rtr)
    }

    /// Goes from state `from` to state `to`; not if a half has failed meanwhile. Says whether it did.
    pub(crate) fn change_state(&self, from: IbQpState, to: IbQpState) -> bool {
        // For a consumer, a state that is another by now can only be one of the error states, which then stays.
        let changed = self.state.cmpxchg(from as u32, to as u32, Relaxed);
        if changed.is_ok() {
            trace::qp_state(self.number(), from, to);
        }
        changed.is_ok()
    }

    /// Goes to RESET, from any state, and forgets who the peer was.
    pub(crate) fn reset(&self) {
        trace::qp_state(self.number(), self.state(), IbQpState::Reset);
        self.peer.store(NOBODY, Relaxed);
        self.state.store(IbQpState::Reset as u32, Relaxed);
    }

    /// Goes to the error state, but from RESET, where nothing can fail. Says whether it was in another
    /// before.
    pub(crate) fn fail(&self) -> bool {
        let error = IbQpState::Err as u32;
        let mut state = self.state.load(Relaxed);
        while state != error && state != IbQpState::Reset as u32 {
            match self.state.cmpxchg(state, error, Relaxed) {
                Ok(_) => {
                    trace::qp_state(self.number(), state_of(state), IbQpState::Err);
                    return true;
                }
                Err(other) => state = other,
            }
        }
        false
    }

    /// What its packets go through, and are counted by.
    pub(crate) fn way(&self) -> (&Port, &Traffic) {
        (&self.port, &self.traffic)
    }

    /// What it has sent and received.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Counts packets that came for it, and bytes of UDP payload, for the port as well.
    pub(crate) fn received(&self, packets: u16, bytes: usize) {
        self.port.counters().received(packets, bytes);
        self.traffic.received(packets, bytes);
    }

    /// The port that the queue pair belongs to.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// What the queue pair can reach.
    pub(crate) fn qp_memory(&self) -> QpMemory<'_> {
        QpMemory {
            keys: self.port.keys(),
            pd: &self.pd,
            identity: self.identity,
        }
    }

    /// What receives can reach that belong to protection domain `pd`, or to the queue pair's own.
    pub(crate) fn qp_memory_of<'a>(&'a self, pd: Option<&'a Arc<Pd>>) -> QpMemory<'a> {
        QpMemory {
            pd: pd.unwrap_or(&self.pd),
            ..self.qp_memory()
        }
    }

    /// The consumer.
    pub(crate) fn handle(&self) -> &QpHandle {
        &self.handle
    }

    /// What it has on its way, if its service counts that.
    pub(crate) fn tx_inflight(&self) -> &Arc<TxInflight> {
        &self.tx_inflight
    }

    /// A completion, as a completion queue takes it.
    pub(crate) fn completion(&self, done: &Completion) -> Wc {
        Wc {
            wr_id: done.wr_id,
            status: done.status.code(),
            opcode: done.opcode.code(),
            byte_len: done.byte_len,
            imm: done.imm.map(|imm| imm.0),
            invalidated: done.invalidated.map(|rkey| rkey.get()),
            qp_num: self.number(),
            qp: self.handle.token(),
            ..Wc::default()
        }
    }
}
