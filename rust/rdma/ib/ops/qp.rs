// SPDX-License-Identifier: GPL-2.0

//! Operations on QPs. `post_send` and `post_recv` of a ULP run in any context, all others in process context.

use super::OpsVTable;
use crate::{
    bindings,
    compat::attr::QP_BUFFER,
    errno::EOPNOTSUPP,
    ib::{
        device::Device,
        driver::{
            Driver,
            QpCreated,
            QpInit, //
        },
        event::QpHandle,
        object::{
            self,
            QpData, //
        },
        qp_attr::{
            IbQpState,
            QpAttr,
            QpAttrMask,
            QpCaps,
            QpType, //
        },
        udata::{
            self,
            UserContext, //
        },
        wr::{
            RecvWrList,
            SendWrList, //
        }, //
    }, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        new_mutex,
        Arc, //
    }, //
};

impl<T: Driver> OpsVTable<T> {
    pub(super) unsafe extern "C" fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the contract in `ops`, `udata` is null or of this call, with a user context of this
            // driver. `attr` is valid and not shared.
            let (attr, mut user) = unsafe {
                let user = UserContext::<T::Ucontext>::for_queue(udata, QP_BUFFER)?;
                (&mut *attr, user)
            };
            if attr.create_flags != 0 || !attr.rwq_ind_tbl.is_null() {
                return Err(EOPNOTSUPP);
            }
            let handle = QpHandle::new(qp)?;
            let modify = KBox::pin_init(new_mutex!((), "rdma::Qp::modify"), GFP_KERNEL_ACCOUNT)?;
            let (data, created) = match attr.qp_type {
                // SAFETY: By the contract of this function.
                bindings::ib_qp_type_IB_QPT_XRC_TGT => unsafe {
                    Self::create_xrc_target((qp, attr.xrcd), handle.clone())?
                },
                // SAFETY: By the contract of this function.
                _ => unsafe { Self::create_with_pd(qp, attr, user.as_mut(), handle.clone())? },
            };
            created.caps.write_to(&mut attr.cap);
            let data = QpData {
                qp: data,
                handle,
                modify,
                _mappings: user
                    .as_mut()
                    .map(UserContext::take_mappings)
                    .unwrap_or_default(),
            };
            // SAFETY: By the contract in `ops`, `qp` has no Rust part, and is not shared until this returns.
            unsafe {
                (*qp).qp_num = created.qp_num;
                object::Qp::<T::Qp>::init(qp, data);
            }
            Ok(0)
        })
    }

    /// Creates a QP that has a PD and a CQ of its own, which all have but targets of XRC.
    ///
    /// # Safety
    ///
    /// As [`create_qp`](Self::create_qp).
    unsafe fn create_with_pd(
        qp: *mut bindings::ib_qp,
        attr: &bindings::ib_qp_init_attr,
        user: Option<&mut UserContext<T::Ucontext>>,
        handle: QpHandle,
    ) -> Result<(Arc<T::Qp>, QpCreated)> {
        let qp_type = QpType::from_raw(attr.qp_type)?;
        let recv_cq = match qp_type {
            QpType::XrcIni => attr.send_cq,
            _ => attr.recv_cq,
        };
        if attr.send_cq.is_null() || recv_cq.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the contract in `ops`, `qp.device` has its data, and the PD, the CQs and the SRQ of a new QP are
        // objects of the same device that have their Rust parts. The CQs are not null, as checked.
        let (dev, pd, send_cq, recv_cq, srq) = unsafe {
            (
                Device::<T>::from_raw((*qp).device),
                object::Pd::<T::Pd>::data((*qp).pd),
                object::Cq::<T::Cq>::data(attr.send_cq),
                object::Cq::<T::Cq>::data(recv_cq),
                (!attr.srq.is_null()).then(|| object::Srq::<T::Srq>::data(attr.srq)),
            )
        };
        let init = QpInit {
            qp_type,
            caps: QpCaps::from_raw(&attr.cap),
            sq_sig_all: attr.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            send_cq: send_cq.cq.clone(),
            recv_cq: recv_cq.cq.clone(),
            srq: srq.map(|data| data.srq.clone()),
            port_num: attr.port_num,
            user,
            handle,
        };
        T::create_qp(dev, pd, init)
    }

    pub(super) unsafe extern "C" fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            let mask = QpAttrMask::from_raw(mask);
            // SAFETY: By the contract in `ops`, `udata` is null or of this call. `qp.device` has its data and `qp`
            // its Rust part. `attr` is valid, and the core holds the GID entry of its address.
            let (dev, data, mut attr, qp_type) = unsafe {
                udata::expect_none(udata)?;
                (
                    Device::<T>::from_raw((*qp).device),
                    object::Qp::<T::Qp>::data(qp),
                    QpAttr::from_raw(&*attr, mask)?,
                    (*qp).qp_type,
                )
            };
            let _guard = data.modify.lock();
            let current = T::qp_state(&data.qp);
            if mask.contains(QpAttrMask::CUR_STATE) && attr.cur_qp_state != current {
                return Err(EINVAL);
            }
            // The driver gets the state for which the transition is checked below: it may be illegal in a later
            // state.
            attr.cur_qp_state = current;
            let next = match mask.contains(QpAttrMask::STATE) {
                true => attr.qp_state,
                false => current,
            };
            // uverbs adds the port to an address vector that is set alone in SQD. The core's table permits that for
            // RC only.
            let checked_mask = match qp_type {
                bindings::ib_qp_type_IB_QPT_UC
                    if current == IbQpState::Sqd && mask.contains(QpAttrMask::AV) =>
                {
                    mask.without(QpAttrMask::PORT)
                }
                _ => mask,
            };
            // The driver refuses a rate limit; the table of an older core refuses it with another error.
            let checked_mask = checked_mask.without(QpAttrMask::RATE_LIMIT);
            // SAFETY: The function has no preconditions: it looks its arguments up in a table, with bounds checks
            // for the states, which are valid.
            let legal = unsafe {
                bindings::ib_modify_qp_is_ok(
                    current as u32,
                    next as u32,
                    qp_type,
                    checked_mask.as_raw(),
                )
            };
            if !legal {
                return Err(EINVAL);
            }
            T::modify_qp(dev, &data.qp, &attr, mask)?;
            Ok(0)
        })
    }

    pub(super) unsafe extern "C" fn query_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `qp` has its Rust part.
        let data = unsafe { object::Qp::<T::Qp>::data(qp) };
        // SAFETY: By the contract in `ops`, both are valid for writes and not shared. They may be uninitialised,
        // and are copied to user space, so they are zeroed first.
        let (attr, init) = unsafe {
            attr.write(pin_init::zeroed());
            init.write(pin_init::zeroed());
            (&mut *attr, &mut *init)
        };
        let query = T::query_qp(&data.qp);
        query.attr.write_to(attr);
        query.caps.write_to(&mut attr.cap);
        query.caps.write_to(&mut init.cap);
        init.sq_sig_type = match query.sq_sig_all {
            true => bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            false => bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
        };
        // SAFETY: By the contract in `ops`, `qp` is valid, and the core does not change these fields after create.
        unsafe {
            init.event_handler = (*qp).event_handler;
            init.qp_context = (*qp).qp_context;
            init.send_cq = (*qp).send_cq;
            init.recv_cq = (*qp).recv_cq;
            init.srq = (*qp).srq;
            init.qp_type = (*qp).qp_type;
        }
        0
    }

    /// Stops the events first. The event handler may still run until `wait` returns, and may query the QP.
    pub(super) unsafe extern "C" fn destroy_qp(
        qp: *mut bindings::ib_qp,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `qp.device` has its data and `qp` its Rust part.
        let (dev, data) = unsafe {
            (
                Device::<T>::from_raw((*qp).device),
                object::Qp::<T::Qp>::data(qp),
            )
        };
        let revoked = data.handle.revoke();
        T::destroy_qp(dev, data.qp.clone());
        revoked.wait();
        data.handle.cancel_events();
        // SAFETY: By the contract in `ops`, `qp` has its Rust part. No other operation uses it now or later, and
        // the event handler, which might, has ended.
        drop(unsafe { object::Qp::<T::Qp>::take(qp) });
        0
    }

    /// A null list is the doorbell of a process, and nothing to a ULP. A list for the QP of a process is rejected:
    /// uverbs builds it from user data, with arbitrary addresses.
    pub(super) unsafe extern "C" fn post_send(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_send_wr,
        bad: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `qp` has its Rust part, and both fields do not change. A target of XRC has
        // no `uobject`, as processes share it, yet they may post to it.
        let (data, is_user_qp) = unsafe {
            let is_target = (*qp).qp_type == bindings::ib_qp_type_IB_QPT_XRC_TGT;
            let is_user_qp = is_target || !(*qp).uobject.is_null();
            (object::Qp::<T::Qp>::data(qp), is_user_qp)
        };
        let (posted, last) = match (wr.is_null(), is_user_qp) {
            (true, true) => (T::post_send(&data.qp), wr),
            (true, false) => (Ok(()), wr),
            (false, true) => (Err(EINVAL), wr),
            (false, false) => {
                // SAFETY: By the contract in `ops`, a QP without `uobject` is a ULP's, so `wr` is a well-formed
                // list for a QP of this type, which does not change during the call.
                let mut list = unsafe { SendWrList::<T::Ah>::from_raw(wr, (*qp).qp_type) };
                (T::post_send_kernel(&data.qp, &mut list), list.current())
            }
        };
        if posted.is_err() && !bad.is_null() {
            // SAFETY: By the contract in `ops`, `bad` is valid for writes, as it is not null.
            unsafe { bad.write(last) };
        }
        from_result(|| posted.map(|()| 0))
    }

    pub(super) unsafe extern "C" fn post_recv(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_recv_wr,
        bad: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the contract in `ops`, `qp` has its Rust part, and `wr` is a well-formed list that does not
        // change during the call.
        let (data, mut list) = unsafe { (object::Qp::<T::Qp>::data(qp), RecvWrList::from_raw(wr)) };
        let posted = T::post_recv_kernel(&data.qp, &mut list);
        if posted.is_err() && !bad.is_null() {
            // SAFETY: By the contract in `ops`, `bad` is valid for writes, as it is not null.
            unsafe { bad.write(list.current()) };
        }
        from_result(|| posted.map(|()| 0))
    }
}
