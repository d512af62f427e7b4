// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use crate::{
    abi::direct::{
        CreateSrqResp,
        Mapping, //
    },
    errno::Errno,
    ffi::{
        c::SrqInitAttr,
        cmd::{
            self,
            SrqAttr, //
        },
        lock::{
            Locking,
            SpinLock, //
        },
        memory::Owned,
        object::{
            Context,
            Pd,
            Srq, //
        },
        wr::{
            Chain,
            RecvWr, //
        },
    },
    post::{
        BadWr,
        RecvQueue, //
    },
};

/// `IBV_SRQT_BASIC`.
const BASIC: u32 = 0;

/// `IBV_SRQT_XRC`.
const XRC: u32 = 1;

/// What a shared receive queue has behind its head.
pub(crate) struct SrqBody {
    fd: i32,
    max_sge: u32,
    /// `None` if the ring could not be mapped after a resize.
    queue: SpinLock<Option<RecvQueue>>,
}

fn allocate(context: Context<'_>, locking: Locking) -> Result<Owned<Srq>, Errno> {
    Srq::allocate(SrqBody {
        fd: context.file().fd,
        max_sge: 0,
        queue: SpinLock::with_locking(None, locking),
    })
}

/// Maps the ring of a queue that the kernel has created, or destroys it.
fn connect(mut srq: Owned<Srq>, resp: CreateSrqResp, max_sge: u32) -> Result<Owned<Srq>, Errno> {
    srq.set_number(resp.srq_num);
    let body = srq.body_mut();
    body.max_sge = max_sge;
    match RecvQueue::map(body.fd, resp.ring, max_sge) {
        Ok(queue) => {
            *body.queue.get_mut() = Some(queue);
            Ok(srq)
        }
        Err(error) => {
            // The program gets no queue: there is nothing to be done about a failure.
            let _ = cmd::destroy_srq(&srq);
            Err(error)
        }
    }
}

/// Creates a shared receive queue.
///
/// # Errors
///
/// `ENOMEM`, those of `mmap`, or the kernel's.
pub(crate) fn create(pd: &Pd, attr: &mut SrqInitAttr) -> Result<Owned<Srq>, Errno> {
    let mut srq = allocate(pd.context(), pd.locking())?;
    let resp = cmd::create_srq(pd, attr, &mut srq)?;
    connect(srq, resp, attr.max_sge)
}

/// Creates a shared receive queue with extended attributes.
///
/// # Errors
///
/// As [`create`], and `EOPNOTSUPP` for other types than the basic one and XRC.
pub(crate) fn create_ex(
    context: Context<'_>,
    attr: crate::ffi::attr::SrqAttrEx<'_>,
) -> Result<Owned<Srq>, Errno> {
    if !matches!(attr.kind(), BASIC | XRC) {
        return Err(Errno::OPNOTSUPP);
    }
    let mut srq = allocate(context, Locking::NEEDED)?;
    let resp = cmd::create_srq_ex(context, attr.raw(), &mut srq)?;
    connect(srq, resp, attr.max_sge())
}

/// Changes a queue. If it is resized, its elements move to the new ring.
///
/// # Errors
///
/// The kernel's. If the new ring cannot be mapped, those of `mmap`, and nothing can be posted any more.
pub(crate) fn modify(srq: &Srq, attr: SrqAttr, mask: i32) -> Result<(), Errno> {
    let body = srq.body();
    // No thread may post to the old ring while the kernel moves its elements.
    body.queue.with(|queue| {
        let Some(mapping) = cmd::modify_srq(srq, attr, mask)? else {
            return Ok(());
        };
        *queue = None;
        *queue = Some(remap(body, mapping)?);
        Ok(())
    })
}

fn remap(body: &SrqBody, mapping: Mapping) -> Result<RecvQueue, Errno> {
    RecvQueue::map(body.fd, mapping, body.max_sge)
}

/// Posts receives.
///
/// # Errors
///
/// See [`RecvQueue::post_all`].
#[inline]
pub(crate) fn post<'a>(srq: &Srq, list: Chain<'a, RecvWr>) -> Result<(), BadWr<'a, RecvWr>> {
    srq.body()
        .queue
        .with(|queue| RecvQueue::post_all(queue, list))
}
