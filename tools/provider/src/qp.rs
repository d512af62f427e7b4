// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use crate::{
    abi::direct::{
        CreateQpResp,
        FEATURE_NO_DOORBELL, //
    },
    doorbell::{
        self,
        CommandFile, //
    },
    errno::Errno,
    ffi::{
        attr::{
            QpAttr,
            QpAttrEx, //
        },
        cmd::{
            self,
            OpenQp,
            QpState, //
        },
        lock::{
            Locking,
            SpinLock, //
        },
        memory::Owned,
        object::{
            Context,
            CqRef,
            Mw,
            Pd,
            Qp, //
        },
        wr::{
            Bind,
            Chain,
            RecvWr,
            SendWr, //
        },
    },
    mr::next_rkey,
    post::{
        BadWr,
        Limits,
        RecvQueue,
        SendQueue, //
    },
    wqe::{
        flag,
        opcode,
        Head, //
    },
};

/// `enum ibv_qp_type`.
mod kind {
    pub(super) const RC: u32 = 2;
    pub(super) const UC: u32 = 3;
    pub(super) const UD: u32 = 4;
    pub(super) const XRC_SEND: u32 = 9;
    pub(super) const XRC_RECV: u32 = 10;
}

/// `enum ibv_qp_state`.
mod state {
    pub(super) const RESET: u32 = 0;
    pub(super) const RTS: u32 = 3;
}

/// What a QP has behind its head.
pub(crate) struct QpBody {
    file: CommandFile,
    /// The kernel may promise to look at the send queue.
    may_hold: bool,
    send_cq: Option<CqRef>,
    recv_cq: Option<CqRef>,
    pub(crate) send: SpinLock<Option<SendQueue>>,
    recv: SpinLock<Option<RecvQueue>>,
}

/// The operations that can be built, in bits of `enum ibv_qp_create_send_ops_flags`.
fn operations(kind: u32) -> u64 {
    const SEND: u64 = 0b1100;
    const WRITE: u64 = 0b11;
    const READ: u64 = 1 << 4;
    const ATOMIC: u64 = 0b110_0000;
    const KEYS: u64 = 0b11_1000_0000;
    const PERSISTENT: u64 = 0b1_1000 << 8;
    match kind {
        kind::RC | kind::XRC_SEND => SEND | WRITE | READ | ATOMIC | KEYS | PERSISTENT,
        kind::UC => SEND | WRITE | KEYS,
        kind::UD => SEND,
        _ => 0,
    }
}

fn allocate(
    attr: QpAttr<'_>,
    (context, locking): (Context<'_>, Locking),
) -> Result<Owned<Qp>, Errno> {
    // Programs leave anything in the fields that a QP of XRC does not use.
    let (has_send, has_recv) = match attr.kind() {
        kind::XRC_SEND => (true, false),
        kind::XRC_RECV => (false, false),
        _ => (true, true),
    };
    Qp::allocate(QpBody {
        send_cq: attr.send_cq().filter(|_| has_send),
        recv_cq: attr.recv_cq().filter(|_| has_recv),
        ..QpBody::without_queues(context, locking)
    })
}

impl QpBody {
    fn without_queues(context: Context<'_>, locking: Locking) -> Self {
        Self {
            file: context.file(),
            may_hold: context.features() & FEATURE_NO_DOORBELL != 0,
            send_cq: None,
            recv_cq: None,
            send: SpinLock::with_locking(None, locking),
            recv: SpinLock::with_locking(None, locking),
        }
    }

    fn map(&mut self, attr: QpAttr<'_>, resp: CreateQpResp) -> Result<(), Errno> {
        let cap = attr.cap();
        if attr.kind() == kind::XRC_RECV {
            return Ok(());
        }
        let limits = Limits {
            max_sge: cap.max_send_sge,
            max_inline: cap.max_inline_data,
            datagrams: attr.kind() == kind::UD,
            xrc: attr.kind() == kind::XRC_SEND,
        };
        *self.send.get_mut() = Some(SendQueue::map(self.file.fd, resp.send, limits)?);
        if !attr.has_srq() && attr.kind() != kind::XRC_SEND {
            let queue = RecvQueue::map(self.file.fd, resp.receive, cap.max_recv_sge)?;
            *self.recv.get_mut() = Some(queue);
        }
        Ok(())
    }

    /// Returns the completion queue of receives, if it is not that of sends.
    #[inline]
    fn other_cq(&self) -> Option<CqRef> {
        self.recv_cq
            .filter(|recv_cq| !self.send_cq.is_some_and(|cq| recv_cq.is(cq)))
    }

    /// Returns the completion queues, each once.
    fn cqs(&self) -> impl Iterator<Item = CqRef> {
        self.send_cq.into_iter().chain(self.other_cq())
    }

    /// Removes the completions of the QP, which has this number.
    fn forget_completions(&self, number: u32) {
        for cq in self.cqs() {
            cq.body().polling.with(|polling| polling.forget(number));
        }
    }

    /// Flushes all that is held back where the QP's sends complete.
    fn flush(&self) {
        if let Some(cq) = self.send_cq {
            cq.body().dirty.flush(self.file);
        }
    }
}

/// Maps the rings of a QP that the kernel has created, or destroys it.
fn connect(mut qp: Owned<Qp>, attr: QpAttr<'_>, resp: CreateQpResp) -> Result<Owned<Qp>, Errno> {
    if let Err(error) = qp.body_mut().map(attr, resp) {
        // The program gets no QP: there is nothing to be done about a failure.
        let _ = cmd::destroy_qp(&qp);
        return Err(error);
    }
    Ok(qp)
}

/// Creates a QP.
///
/// # Errors
///
/// `ENOMEM`, those of `mmap`, or the kernel's.
pub(crate) fn create(pd: &Pd, attr: QpAttr<'_>) -> Result<Owned<Qp>, Errno> {
    let mut qp = allocate(attr, (pd.context(), pd.locking()))?;
    let resp = cmd::create_qp(pd, attr, &mut qp)?;
    connect(qp, attr, resp)
}

/// Creates a QP with extended attributes.
///
/// # Errors
///
/// As [`create`], and `EOPNOTSUPP` for attributes or operations that there are not.
pub(crate) fn create_ex(context: Context<'_>, attr: QpAttrEx<'_>) -> Result<Owned<Qp>, Errno> {
    const KNOWN: u32 =
        QpAttrEx::PD | QpAttrEx::XRCD | QpAttrEx::CREATE_FLAGS | QpAttrEx::SEND_OPS_FLAGS;
    if attr.comp_mask() & !KNOWN != 0 || attr.create_flags() != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let wanted = attr.send_ops();
    if wanted.unwrap_or(0) & !operations(attr.base().kind()) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let locking = match attr.pd() {
        Some(pd) => pd.locking(),
        None if attr.base().kind() == kind::XRC_RECV => Locking::NEEDED,
        None => return Err(Errno::INVAL),
    };
    let mut qp = allocate(attr.base(), (context, locking))?;
    let (resp, comp_mask) = cmd::create_qp_ex(context, attr, &mut qp)?;
    if let Some(wanted) = wanted {
        let is_xrc = attr.base().kind() == kind::XRC_SEND;
        qp.set_builder(wanted, comp_mask, is_xrc);
    }
    connect(qp, attr.base(), resp)
}

/// Opens a target of an XRC domain, which another process may have created.
///
/// # Errors
///
/// `ENOMEM`, or the kernel's.
pub(crate) fn open(context: Context<'_>, target: OpenQp) -> Result<Owned<Qp>, Errno> {
    let mut qp = Qp::allocate(QpBody::without_queues(context, Locking::NEEDED))?;
    cmd::open_qp(context, target, &mut qp)?;
    Ok(qp)
}

/// Changes a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn modify(qp: &Qp, state: QpState) -> Result<(), Errno> {
    // What was posted before is to be seen in the state in which it was posted.
    qp.body().flush();
    cmd::modify_qp(qp, state)?;
    if state.is_reset() {
        // A QP that begins anew has no completions of its former life.
        qp.body().forget_completions(qp.number());
    }
    Ok(())
}

/// Destroys a QP.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn destroy(qp: &Qp) -> Result<(), Errno> {
    for cq in qp.body().cqs() {
        cq.body().dirty.forget(qp.handle());
    }
    cmd::destroy_qp(qp)?;
    qp.body().forget_completions(qp.number());
    Ok(())
}

/// Returns whether requests may be posted.
#[inline]
pub(crate) fn may_send(qp: &Qp) -> bool {
    qp.state() >= state::RTS
}

/// Whether a doorbell is due after requests were published; else they are held back.
#[inline]
pub(crate) fn needs_doorbell(qp: &Qp, queue: &mut SendQueue, published: (u32, u64)) -> bool {
    let (posts, _) = published;
    if posts == 0 {
        return false;
    }
    if qp.body().may_hold && queue.no_doorbell() && hold_back(qp, queue, published) {
        return false;
    }
    queue.held.clear();
    true
}

/// Holds back requests that were published. Returns whether all completion queues of the QP agree.
#[inline]
fn hold_back(qp: &Qp, queue: &mut SendQueue, published: (u32, u64)) -> bool {
    let (body, handle, entries) = (qp.body(), qp.handle(), queue.entries());
    let held = &mut queue.held;
    let at_sends = |cq: CqRef| cq.body().dirty.hold(handle, held, published, entries);
    if !body.send_cq.is_some_and(at_sends) {
        return false;
    }
    let at_receives = |cq: CqRef| cq.body().dirty.also_hold(handle, &mut queue.held);
    body.other_cq().is_none_or(at_receives)
}

/// Rings the doorbell of a QP.
///
/// # Errors
///
/// The kernel's.
#[inline]
pub(crate) fn ring_doorbell(qp: &Qp) -> Result<(), Errno> {
    doorbell::ring(qp.body().file, qp.handle())
}

/// Posts sends.
///
/// # Errors
///
/// `EINVAL` for a request that is not possible, or before the QP can send; `ENOMEM` if the queue is full; the kernel's.
#[inline]
pub(crate) fn post_send<'a>(qp: &Qp, mut list: Chain<'a, SendWr>) -> Result<(), BadWr<'a, SendWr>> {
    if !may_send(qp) {
        return Err((Errno::INVAL, list.next()));
    }
    let (call, result) = qp.body().send.with(|queue| match queue {
        Some(queue) => {
            let (published, result) = queue.post_all(list);
            (needs_doorbell(qp, queue, published), result)
        }
        None => (false, Err((Errno::INVAL, list.next()))),
    });
    if call {
        // The requests are in the queue, so there is no bad one.
        ring_doorbell(qp).map_err(|error| (error, None))?;
    }
    result
}

/// Posts receives.
///
/// # Errors
///
/// `EINVAL` for a request that is not possible, of a QP with an SRQ, or in RESET; `ENOMEM` if the queue is full.
#[inline]
pub(crate) fn post_recv<'a>(qp: &Qp, mut list: Chain<'a, RecvWr>) -> Result<(), BadWr<'a, RecvWr>> {
    if qp.state() == state::RESET {
        return Err((Errno::INVAL, list.next()));
    }
    qp.body()
        .recv
        .with(|queue| RecvQueue::post_all(queue, list))
}

/// Binds a window of type 1, which gets a new key.
///
/// # Errors
///
/// As [`post_send`], and `EINVAL` for rights that such a window cannot have.
pub(crate) fn bind_window(
    qp: &Qp,
    mw: &Mw,
    (wr_id, send_flags): (u64, u32),
    bind: Bind,
) -> Result<(), Errno> {
    const ZERO_BASED: u32 = 1 << 5;
    if bind.access & ZERO_BASED != 0 || !may_send(qp) {
        return Err(Errno::INVAL);
    }
    let bind = Bind {
        rkey: mw.rkey(),
        new_rkey: next_rkey(mw.rkey()),
        ..bind
    };
    let head = Head {
        wr_id,
        opcode: opcode::BIND_MW,
        // CAST: The mask has eight bits.
        flags: (send_flags & u32::from(flag::COMMON)) as u8,
        imm_or_key: 0,
    };
    let call = qp.body().send.with(|queue| {
        let queue = queue.as_mut().ok_or(Errno::INVAL)?;
        queue.start();
        queue.begin_bind(head, bind);
        let published = queue.finish()?;
        Ok(needs_doorbell(qp, queue, published))
    })?;
    if call {
        ring_doorbell(qp)?;
    }
    mw.set_rkey(bind.new_rkey);
    Ok(())
}
