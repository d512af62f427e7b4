// SPDX-License-Identifier: GPL-2.0

//! State that both engines of a QP and every other context may use: number, peer, state, port, PD, memory,
//! events.
//!
//! All methods are lock-free and work in any context, unless they say otherwise. An engine gets a reference
//! for each run, and leaves its side effects in [`Actions`](crate::qp::actions::Actions).

use crate::{
    mem::{
        mw::QpIdentity,
        pd::Pd, //
    },
    packet::path::Path,
    port::{
        counters::Traffic,
        state::Port, //
    },
    qp::wakes::Wakes, //
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
            IbQpState,
            QpAttr, //
        },
        trace,
        wc::Wc, //
    },
    net::tx_inflight::TxInflight,
    sync::quiesce::LiveRef, //
};
use roce::{
    congestion::notification::CnpInterval,
    id::Qpn,
    time::Instant,
    wr::Completion, //
};

/// All states of a QP.
const STATES: [IbQpState; 7] = [
    IbQpState::Reset,
    IbQpState::Init,
    IbQpState::Rtr,
    IbQpState::Rts,
    IbQpState::Sqd,
    IbQpState::Sqe,
    IbQpState::Err,
];

/// Returns the state with this code.
fn state_of(code: u32) -> IbQpState {
    let mut states = STATES.into_iter();
    states
        .find(|&state| state as u32 == code)
        .unwrap_or(IbQpState::Err)
}

/// Peer number of a QP without a peer. Not a number of 24 bits.
const NO_PEER: u32 = u32::MAX;

/// State that both engines of a QP share.
pub(crate) struct QpShared {
    number: Atomic<u32>,
    /// Number of the peer, or [`NO_PEER`].
    peer: Atomic<u32>,
    state: Atomic<u32>,
    port: Arc<Port>,
    traffic: Traffic,
    pd: Arc<Pd>,
    /// Identity that memory windows bound to this QP check.
    identity: QpIdentity,
    handle: QpHandle,
    tx_inflight: Arc<TxInflight>,
    wakes: Wakes,
    /// Packets have met congestion, and no CNP was sent since.
    congestion: Atomic<bool>,
    /// When the next CNP may be sent, in nanoseconds.
    next_cnp_ns: Atomic<u64>,
    /// CNPs received.
    cnps: Atomic<u32>,
    /// Requests of the peer received. The receive engine counts them.
    requests: Atomic<u32>,
}

impl QpShared {
    /// Creates a QP in RESET, without a number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        port: Arc<Port>,
        pd: Arc<Pd>,
        handle: QpHandle,
        live_ref: LiveRef,
    ) -> Result<Self> {
        Ok(Self {
            number: Atomic::new(0),
            peer: Atomic::new(NO_PEER),
            state: Atomic::new(IbQpState::Reset as u32),
            port,
            traffic: Traffic::new(),
            pd,
            identity: QpIdentity::new(),
            handle,
            tx_inflight: TxInflight::new(live_ref)?,
            wakes: Wakes::new(),
            congestion: Atomic::new(false),
            next_cnp_ns: Atomic::new(0),
            cnps: Atomic::new(0),
            requests: Atomic::new(0),
        })
    }

    /// Counts a request of the peer. Called by the owner of the receive engine only.
    #[inline]
    pub(crate) fn count_request(&self) {
        let requests = self.requests.load(Relaxed).wrapping_add(1);
        self.requests.store(requests, Relaxed);
    }

    /// Returns the number of requests of the peer received so far; it wraps around.
    #[inline]
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Relaxed)
    }

    /// Returns the number of the QP.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Sets the number of the QP, before a peer can connect to it.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }

    /// Sets the number of the peer. Must precede the first packet that is processed.
    pub(crate) fn set_peer(&self, peer: Qpn) {
        self.peer.store(peer.get(), Relaxed);
    }

    /// Returns whether the QP is connected to the one with this number. For any context.
    #[inline]
    pub(crate) fn is_connected_to(&self, number: Qpn) -> bool {
        self.peer.load(Relaxed) == number.get()
    }

    /// Returns whether the QP has a peer.
    pub(crate) fn is_connected(&self) -> bool {
        self.peer.load(Relaxed) != NO_PEER
    }

    /// Returns a path to the peer that `attr` names. Process context.
    ///
    /// # Errors
    ///
    /// As [`Path::new`]; `ENOMEM`.
    pub(crate) fn path_to(&self, attr: &QpAttr) -> Result<KBox<Path>> {
        let qpns = (self.number(), attr.dest_qp_num);
        let path = Path::new(&attr.ah, &self.port, qpns)?
            .with_qpns(qpns)
            .with_congestion_control(self.port.congestion());
        Ok(KBox::new(path, GFP_KERNEL_ACCOUNT)?)
    }

    /// As [`QpShared::path_to`], for a requester, which finds out if the route loses super-packets.
    pub(crate) fn request_path_to(&self, attr: &QpAttr) -> Result<KBox<Path>> {
        let mut path = self.path_to(attr)?;
        path.set_detects_gso_loss(true);
        Ok(path)
    }

    /// As [`QpShared::path_to`]. Packets are counted as in flight, which limits the engine that sends them.
    pub(crate) fn counted_path_to(&self, attr: &QpAttr) -> Result<KBox<Path>> {
        let mut path = self.path_to(attr)?;
        path.count_in(&self.tx_inflight);
        Ok(path)
    }

    /// Returns the state that `query_qp` reports.
    pub(crate) fn state(&self) -> IbQpState {
        state_of(self.state.load(Relaxed))
    }

    /// Returns whether the QP is in ERR, where everything posted is flushed.
    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        self.state.load(Relaxed) == IbQpState::Err as u32
    }

    /// Returns whether sends may be posted, if only to be flushed.
    pub(crate) fn accepts_sends(&self) -> bool {
        !matches!(
            self.state(),
            IbQpState::Reset | IbQpState::Init | IbQpState::Rtr
        )
    }

    /// Returns whether posted sends are sent or flushed.
    pub(crate) fn processes_sends(&self) -> bool {
        matches!(
            self.state(),
            IbQpState::Rts | IbQpState::Sqe | IbQpState::Err
        )
    }

    /// Returns whether posted sends are flushed; in SQE, receives are not.
    pub(crate) fn flushes_sends(&self) -> bool {
        matches!(self.state(), IbQpState::Sqe | IbQpState::Err)
    }

    /// Goes to SQE: a send of an unreliable service failed, and the sends behind it are flushed. Receives go
    /// on.
    pub(crate) fn fail_sends(&self) {
        // The consumer may move between RTS and SQD meanwhile; once the state is SQE, the consumer may move
        // it back to RTS.
        while let from @ (IbQpState::Rts | IbQpState::Sqd) = self.state() {
            if self.change_state(from, IbQpState::Sqe) {
                break;
            }
        }
    }

    /// Returns whether packets are accepted.
    pub(crate) fn accepts_packets(&self) -> bool {
        matches!(
            self.state(),
            IbQpState::Rtr | IbQpState::Rts | IbQpState::Sqd | IbQpState::Sqe
        )
    }

    /// Returns whether the QP sends no requests yet. Packets may be processed just before the state becomes
    /// RTR.
    pub(crate) fn is_before_rts(&self) -> bool {
        matches!(self.state(), IbQpState::Init | IbQpState::Rtr)
    }

    /// Changes the state from `from` to `to`, unless an engine has failed meanwhile. Returns whether it
    /// changed.
    pub(crate) fn change_state(&self, from: IbQpState, to: IbQpState) -> bool {
        // Modifications are serialised, so a state other than `from` is one of the error states, which then
        // stays.
        let changed = self.state.cmpxchg(from as u32, to as u32, Relaxed);
        if changed.is_ok() {
            trace::qp_state(self.number(), from, to);
        }
        changed.is_ok()
    }

    /// Goes to RESET, from any state, and clears the peer.
    pub(crate) fn reset(&self) {
        trace::qp_state(self.number(), self.state(), IbQpState::Reset);
        self.peer.store(NO_PEER, Relaxed);
        self.state.store(IbQpState::Reset as u32, Relaxed);
    }

    /// Goes to the error state, except from RESET. Returns whether this call changed the state.
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

    /// Returns the traffic counters of the QP.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    /// Returns the PD.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the identity that memory windows bound to the QP check.
    #[inline]
    pub(crate) fn identity(&self) -> QpIdentity {
        self.identity
    }

    /// Returns the handle for events to the consumer.
    pub(crate) fn handle(&self) -> &QpHandle {
        &self.handle
    }

    /// Returns the counter of bytes in flight in the local stack, if the service limits them.
    pub(crate) fn tx_inflight(&self) -> &Arc<TxInflight> {
        &self.tx_inflight
    }

    /// Returns when the engines run next.
    pub(crate) fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    /// Records that packets of the peer met congestion.
    pub(crate) fn note_congestion(&self) {
        self.congestion.store(true, Relaxed);
    }

    /// Returns whether packets have met congestion since [`QpShared::take_congestion`] was last called.
    #[inline]
    pub(crate) fn has_congestion(&self) -> bool {
        self.congestion.load(Relaxed)
    }

    /// Clears the record of congestion. Returns whether a CNP is to be sent at `now`. Both engines may call it.
    pub(crate) fn take_congestion(&self, interval: CnpInterval, now: Instant) -> bool {
        self.congestion.store(false, Relaxed);
        let next_ns = self.next_cnp_ns.load(Relaxed);
        let after = interval.on_congestion(Instant::from_nanos(next_ns), now);
        after.is_some_and(|after| {
            let taken = self.next_cnp_ns.cmpxchg(next_ns, after.as_nanos(), Relaxed);
            taken.is_ok()
        })
    }

    /// Counts a received CNP.
    pub(crate) fn count_cnp(&self) {
        self.cnps.add(1, Relaxed);
    }

    /// Returns the number of received CNPs; it wraps.
    #[inline]
    pub(crate) fn cnps(&self) -> u32 {
        self.cnps.load(Relaxed)
    }

    /// Converts a completion to a work completion of this QP.
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
