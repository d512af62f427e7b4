// SPDX-License-Identifier: GPL-2.0

//! What a driver provides: the safe face of `struct ib_device_ops`.
//!
//! Owns the [`Driver`] trait and the arguments of its functions. The core's rules (what may sleep,
//! who frees what, in which order objects go) are kept on this side of the trait, in `ops`.
//!
//! # Contexts
//!
//! Everything may sleep, except [`Driver::post_send`], [`Driver::post_send_kernel`],
//! [`Driver::post_recv_kernel`], [`Driver::post_srq_recv`], [`Driver::poll_cq`],
//! [`Driver::req_notify`], [`Driver::map_mr_sg`], [`Driver::query_port`], and [`Driver::create_ah`]
//! unless [`AhInit::may_sleep`] says so; consumers in the kernel may call those with interrupts off.
//! [`Driver::netdev`] is called with and without the RTNL lock.
//!
//! # Lifetimes
//!
//! The core destroys an object after everything that was made from it, and the user context last.
//! A driver's part may live longer than the object: it is an [`Arc`], and what is on its way may
//! hold one. After a destroy function the object's handle does nothing.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    bindings,
    ib::{
        attr::{
            DeviceAttr,
            DmaBufInit,
            MrChange,
            MrInit,
            MrKeys,
            MwType,
            PortAttr,
            SrqAttr, //
        },
        device::Device,
        event::{
            CqHandle,
            Notify,
            QpHandle,
            SrqHandle, //
        },
        qp_attr::{
            AhAttr,
            IbQpState,
            QpAttr,
            QpAttrMask,
            QpCaps,
            QpType, //
        },
        qp_counters::{
            QpCounters,
            QpCounts, //
        },
        registry::Registry,
        restrack::Details,
        udata::UserContext,
        wc::WcSink,
        wr::{
            RecvWrList,
            SendWrList,
            SgeList, //
        }, //
    },
    mm::{
        fast_reg::ScatterList,
        memory::Memory, //
    },
    net::netdev::NetDev, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Bytes of a management datagram (`IB_MGMT_MAD_SIZE`, IBA 13.4.2).
pub const MAD_LEN: usize = bindings::IB_MGMT_MAD_SIZE as usize;

/// The driver id of rdma_rxe, which names its ABI to user space.
pub const DRIVER_ID_RXE: u32 = bindings::rdma_driver_id_RDMA_DRIVER_RXE;

/// A provider driver. The type that implements it is the data of one device.
///
/// # Errors
///
/// Every function that can fail returns the errno that the caller of the verb sees.
pub trait Driver: Sized + Send + Sync + 'static {
    /// What all devices of the driver share.
    type Common: Send + Sync + 'static;
    /// Data of a user context.
    type Ucontext: Send + Sync + 'static;
    /// Data of a protection domain.
    type Pd: Send + Sync + 'static;
    /// Data of an address handle.
    type Ah: Send + Sync + 'static;
    /// Data of a completion queue.
    type Cq: Send + Sync + 'static;
    /// Data of a queue pair.
    type Qp: Send + Sync + 'static;
    /// Data of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// Data of a memory region.
    type Mr: Send + Sync + 'static;
    /// Data of a memory window.
    type Mw: Send + Sync + 'static;

    /// `enum rdma_driver_id`.
    const DRIVER_ID: u32;

    /// Version of the ABI between driver and user space.
    const ABI_VERSION: u32;

    /// The type in `rdma link add ... type TYPE`.
    const LINK_TYPE: &'static CStr;

    /// Names of the counters of the port.
    const HW_COUNTERS: &'static [&'static CStr] = &[];

    /// Places in [`Driver::HW_COUNTERS`] of what each queue pair counts for itself, too; at most
    /// [`MAX_QP_COUNTERS`](crate::ib::qp_counters::MAX_QP_COUNTERS).
    const QP_COUNTERS: &'static [usize] = &[];

    /// The devices of this driver, a static.
    fn registry() -> &'static Registry<Self, Self::Common>;

    /// `rdma link add NAME type ... netdev NETDEV`: makes a device.
    fn new_link(common: &Arc<Self::Common>, name: &CStr, netdev: NetDev) -> Result;

    /// What the device can do.
    fn query_device(dev: &Device<Self>) -> DeviceAttr;

    /// Learns of the port what [`Driver::query_port`] is about to tell and cannot ask for, as it must not sleep. Called
    /// only while the device is registered.
    fn refresh_port(dev: &Device<Self>);

    /// The state of the port. Must not sleep. Has to work before the device is registered.
    fn query_port(dev: &Device<Self>) -> Result<PortAttr>;

    /// The P_Key at `index` of the table, which is that of every device.
    fn query_pkey(index: u16) -> Result<u16>;

    /// Answers a management datagram that is for the port itself. `None`: it is for somebody else.
    fn process_mad(dev: &Device<Self>, request: &[u8; MAD_LEN]) -> Option<[u8; MAD_LEN]>;

    /// The interface below the port; `None` from the moment on that it is being unregistered.
    ///
    /// A device whose registration ends with `None` here is unregistered at once.
    fn netdev(&self) -> Option<NetDev>;

    /// Value of the counter with that place in [`Driver::HW_COUNTERS`].
    fn read_counter(dev: &Device<Self>, index: usize) -> u64;

    /// Values of the counters of a queue pair, in the order of [`Driver::QP_COUNTERS`].
    fn read_qp_counters(qp: &Self::Qp) -> QpCounts;

    /// The queue pairs of the device that are counted apart.
    fn counted_apart(&self) -> &QpCounters<Self::Qp>;

    /// A process opens the device.
    fn alloc_ucontext(dev: &Device<Self>) -> Result<Arc<Self::Ucontext>>;

    /// Makes a protection domain, for a process or (`None`) for the kernel.
    fn alloc_pd(
        dev: &Device<Self>,
        ucontext: Option<&Arc<Self::Ucontext>>,
    ) -> Result<Arc<Self::Pd>>;

    /// Makes an address handle.
    fn create_ah(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: AhInit<'_, Self>,
    ) -> Result<Arc<Self::Ah>>;

    /// The attributes of an address handle.
    fn query_ah(ah: &Self::Ah) -> AhAttr;

    /// Gives an address handle other attributes. May not sleep.
    fn modify_ah(ah: &Self::Ah, attr: AhAttr) -> Result;

    /// Ends an address handle. May not sleep.
    fn destroy_ah(ah: Arc<Self::Ah>) {
        drop(ah);
    }

    /// Makes a completion queue; says how many entries it holds.
    fn create_cq(dev: &Device<Self>, init: CqInit<'_, Self>) -> Result<(Arc<Self::Cq>, u32)>;

    /// Gives a process's completion queue room for `entries` at least; says for how many. Nothing that
    /// waits is lost. One resize of a queue at a time.
    fn resize_cq(
        dev: &Device<Self>,
        cq: &Self::Cq,
        entries: u32,
        user: &mut UserContext<Self::Ucontext>,
    ) -> Result<u32>;

    /// Lets one event stand for up to `count` completions that come within `period` microseconds.
    fn moderate_cq(cq: &Self::Cq, count: u16, period: u16);

    /// Ends a completion queue. Nothing uses it any more.
    fn destroy_cq(dev: &Device<Self>, cq: Arc<Self::Cq>);

    /// Moves completions of a queue of the kernel to `sink`, as many as there are and fit.
    fn poll_cq(cq: &Self::Cq, sink: &mut WcSink<'_>);

    /// Arms a completion queue; says whether completions are waiting already.
    fn req_notify(cq: &Self::Cq, what: Notify) -> bool;

    /// Makes a queue pair.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: QpInit<'_, Self>,
    ) -> Result<(Arc<Self::Qp>, QpCreated)>;

    /// The state of a queue pair. Only [`Driver::modify_qp`] changes it, but to an error state.
    fn qp_state(qp: &Self::Qp) -> IbQpState;

    /// Sets the attributes in `mask`. One call at a time for one queue pair.
    ///
    /// The transition from [`QpAttr::cur_qp_state`] is legal, and its mask right; by now the queue pair may have gone
    /// to an error state by itself. Values are unchecked.
    fn modify_qp(dev: &Device<Self>, qp: &Arc<Self::Qp>, attr: &QpAttr, mask: QpAttrMask)
        -> Result;

    /// The attributes of a queue pair.
    fn query_qp(qp: &Self::Qp) -> QpQuery;

    /// Tells of a queue pair what the core does not know.
    fn describe_qp(qp: &Self::Qp, details: &mut Details);

    /// As [`Driver::describe_qp`], of a completion queue.
    fn describe_cq(cq: &Self::Cq, details: &mut Details);

    /// As [`Driver::describe_qp`], of a shared receive queue.
    fn describe_srq(srq: &Self::Srq, details: &mut Details);

    /// As [`Driver::describe_qp`], of a memory region.
    fn describe_mr(dev: &Device<Self>, mr: &Self::Mr, details: &mut Details);

    /// Ends a queue pair. Nothing uses it any more but what is on its way.
    fn destroy_qp(dev: &Device<Self>, qp: Arc<Self::Qp>);

    /// Has a datagram queue pair get a copy of what is sent to a multicast group: an IPv6 group, or an
    /// IPv4 group mapped into IPv6.
    fn attach_mcast(dev: &Device<Self>, qp: &Arc<Self::Qp>, group: &[u8; 16]) -> Result;

    /// Takes [`Driver::attach_mcast`] back. When it returns, the queue pair gets no more copies.
    fn detach_mcast(dev: &Device<Self>, qp: &Arc<Self::Qp>, group: &[u8; 16]) -> Result;

    /// User space has put work into a send ring.
    fn post_send(qp: &Arc<Self::Qp>) -> Result;

    /// Takes work from the kernel. If it fails, the request yielded last is reported as bad, and
    /// those before it are taken.
    fn post_send_kernel(qp: &Arc<Self::Qp>, list: &mut SendWrList<'_, Self::Ah>) -> Result;

    /// Takes receives from the kernel. Fails as [`Driver::post_send_kernel`] does.
    fn post_recv_kernel(qp: &Arc<Self::Qp>, list: &mut RecvWrList<'_>) -> Result;

    /// Makes a shared receive queue; says what it holds.
    fn create_srq(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: SrqInit<'_, Self>,
    ) -> Result<(Arc<Self::Srq>, SrqAttr)>;

    /// Gives a shared receive queue room for `max_wr` receives; nothing that waits is lost. One
    /// modification at a time. The caller is a process, or (`None`) in the kernel.
    fn resize_srq(
        dev: &Device<Self>,
        srq: &Self::Srq,
        max_wr: u32,
        user: Option<&mut UserContext<Self::Ucontext>>,
    ) -> Result;

    /// Has the consumer told when fewer than `limit` receives wait; 0: not.
    fn set_srq_limit(srq: &Self::Srq, limit: u32) -> Result;

    /// What a shared receive queue holds.
    fn query_srq(srq: &Self::Srq) -> SrqAttr;

    /// Ends a shared receive queue. No queue pair uses it any more but those on their way out.
    fn destroy_srq(dev: &Device<Self>, srq: Arc<Self::Srq>) {
        let _ = dev;
        drop(srq);
    }

    /// Takes receives from the kernel. Fails as [`Driver::post_send_kernel`] does.
    fn post_srq_recv(srq: &Arc<Self::Srq>, list: &mut RecvWrList<'_>) -> Result;

    /// Registers memory of the calling process.
    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: MrInit,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Registers a part of a DMA buffer.
    fn reg_dmabuf_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: DmaBufInit,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Brings memory of regions that is soon needed, in the background unless `wait` is set.
    fn advise_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        advice: Advice,
        wait: bool,
        sges: &SgeList<'_>,
    ) -> Result;

    /// Makes a region for `memory`, which is all of the kernel's, `access` being
    /// `enum ib_access_flags`.
    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        access: u32,
        memory: Memory,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Makes a region for fast registration, of up to `pages` pages, for a consumer in the kernel.
    fn alloc_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        pages: u32,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Notes the pages that the next fast registration is for. Returns how many elements of `list`
    /// it took. May not sleep.
    fn map_mr_sg(mr: &Self::Mr, list: ScatterList<'_>) -> Result<u32>;

    /// Changes a region of a process, which keeps its keys.
    fn rereg_user_mr(
        dev: &Device<Self>,
        mr: &Arc<Self::Mr>,
        change: MrChange<'_, Arc<Self::Pd>>,
    ) -> Result;

    /// Ends a memory region. When it returns, nobody reaches the memory by its keys. If it fails,
    /// the region stays: a window is bound to it.
    fn dereg_mr(dev: &Device<Self>, mr: &Arc<Self::Mr>) -> Result;

    /// Makes a memory window, and says which key it has.
    fn alloc_mw(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        mw_type: MwType,
    ) -> Result<(Arc<Self::Mw>, u32)>;

    /// Ends a memory window. When it returns, nobody reaches memory through it.
    fn dealloc_mw(dev: &Device<Self>, mw: Arc<Self::Mw>);
}

/// What memory will be needed for (`enum ib_uverbs_advise_mr_advice`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advice {
    /// To be read.
    Prefetch,
    /// To be written.
    PrefetchWrite,
    /// To be read, as far as it is in memory anyway.
    PrefetchPresent,
}

/// What an address handle is made from.
pub struct AhInit<'a, T: Driver> {
    /// Where packets go.
    pub attr: AhAttr,
    /// The caller may sleep.
    pub may_sleep: bool,
    /// The caller, if it is a process.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
}

/// What a completion queue is made from.
pub struct CqInit<'a, T: Driver> {
    /// Completions that it has to hold at least; not 0.
    pub entries: u32,
    /// The vector that the caller would like.
    pub comp_vector: u32,
    /// The caller, if it is a process.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// The way to the consumer.
    pub handle: CqHandle,
}

/// What a queue pair is made from.
pub struct QpInit<'a, T: Driver> {
    /// The service.
    pub qp_type: QpType,
    /// What it has to hold at least.
    pub caps: QpCaps,
    /// Every send completes visibly, not only those that ask for it.
    pub sq_sig_all: bool,
    /// Where sends complete.
    pub send_cq: Arc<T::Cq>,
    /// Where receives complete.
    pub recv_cq: Arc<T::Cq>,
    /// Where receives come from, if not from a queue of its own.
    pub srq: Option<Arc<T::Srq>>,
    /// The port, for [`QpType::Gsi`].
    pub port_num: u32,
    /// The caller, if it is a process.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// The way to the consumer.
    pub handle: QpHandle,
}

/// What a shared receive queue is made from.
pub struct SrqInit<'a, T: Driver> {
    /// What it has to hold at least.
    pub attr: SrqAttr,
    /// The caller, if it is a process.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// The way to the consumer.
    pub handle: SrqHandle,
}

/// What a new queue pair is like.
#[derive(Clone, Copy, Debug)]
pub struct QpCreated {
    /// Its number.
    pub qp_num: u32,
    /// What it holds.
    pub caps: QpCaps,
}

/// What there is to know of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpQuery {
    /// Its attributes.
    pub attr: QpAttr,
    /// What it holds.
    pub caps: QpCaps,
    /// Every send completes visibly.
    pub sq_sig_all: bool,
}
