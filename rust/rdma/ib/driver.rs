// SPDX-License-Identifier: GPL-2.0

//! The interface between the RDMA core and a provider driver: the [`Driver`] trait and the arguments of its
//! functions.
//!
//! `ops` implements `struct ib_device_ops` on top of this trait. It handles the core's rules on udata, on
//! unsupported attributes and on freeing objects, so a driver need not know them.
//!
//! # Contexts
//!
//! Every function may sleep, except these:
//!
//! - [`Driver::post_send_kernel`], [`Driver::post_recv_kernel`], [`Driver::post_srq_recv`],
//!   [`Driver::poll_cq`], [`Driver::req_notify`] and [`Driver::map_mr_sg`]. A ULP may call them in any context,
//!   also with interrupts off.
//! - [`Driver::create_ah`] unless [`AhInit::may_sleep`] is set, [`Driver::modify_ah`], and [`Driver::destroy_ah`]
//!   for the AH of a ULP.
//! - [`Driver::query_port`], which runs under the RCU read lock.
//!
//! [`Driver::netdev`] is called with and without the RTNL lock, and under the RCU read lock: it must not sleep
//! either.
//!
//! # Lifetimes
//!
//! The core destroys an object after all objects that depend on it, and the user context last. The driver's part of
//! an object is an [`Arc`]: it may outlive the object, because packets in flight may hold references. After a
//! destroy function returned, the object's handle does nothing.
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
        comp_cntr::{
            CompCntrCaps,
            CompCntrChange,
            CompCntrEntry,
            CompCntrOps,
            CompCntrUnit, //
        },
        device::Device,
        event::{
            CqHandle,
            Notify,
            QpHandle,
            SrqHandle, //
        },
        kind::DeviceKind,
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
        restrack::RestrackEntry,
        udata::{
            OpenRequest,
            UserContext, //
        },
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
    net::netdev::{
        NetDev,
        NetDevBorrow, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Length of a management datagram in bytes (`IB_MGMT_MAD_SIZE`, IBA 13.4.2).
pub const MAD_LEN: usize = bindings::IB_MGMT_MAD_SIZE as usize;

/// A provider driver. The implementing type holds the driver's data of one device.
///
/// # Errors
///
/// The errno that a function returns is the result of the verb.
pub trait Driver: Sized + Send + Sync + 'static {
    /// Data that all devices of the driver share.
    type Common: Send + Sync + 'static;
    /// Which ABI the user contexts of a kind of devices have by default.
    type Abi: Sync + 'static;
    /// Driver's part of a user context.
    type Ucontext: Send + Sync + 'static;
    /// Driver's part of a PD.
    type Pd: Send + Sync + 'static;
    /// Driver's part of an AH.
    type Ah: Send + Sync + 'static;
    /// Driver's part of a CQ.
    type Cq: Send + Sync + 'static;
    /// Driver's part of a QP.
    type Qp: Send + Sync + 'static;
    /// Driver's part of an SRQ.
    type Srq: Send + Sync + 'static;
    /// Driver's part of an XRC domain.
    type Xrcd: Send + Sync + 'static;
    /// Driver's part of a completion counter.
    type CompCntr: Send + Sync + 'static;
    /// Driver's part of an MR.
    type Mr: Send + Sync + 'static;
    /// Driver's part of an MW.
    type Mw: Send + Sync + 'static;

    /// The kinds of devices, at least one. A link type that is taken from another driver
    /// ([`TakenType`](crate::ib::link::TakenType)) makes devices of the first kind.
    const KINDS: &'static [DeviceKind<Self::Abi>];

    /// What a device says of its completion counters.
    const COMP_CNTR_CAPS: CompCntrCaps;

    /// Names of the hardware counters of the port.
    const HW_COUNTERS: &'static [&'static CStr] = &[];

    /// Indices in [`Driver::HW_COUNTERS`] of the counters that each QP maintains too; at most
    /// [`MAX_QP_COUNTERS`](crate::ib::qp_counters::MAX_QP_COUNTERS).
    const QP_COUNTERS: &'static [usize] = &[];

    /// Returns the registry of this driver's devices, a static.
    fn registry() -> &'static Registry<Self, Self::Common>;

    /// Creates and registers a device of the kind over `netdev`: `rdma link add NAME type ... netdev NETDEV`.
    ///
    /// The core holds its lock of link types. `netdev` may be unregistered or move to another namespace at any
    /// time.
    ///
    /// # Errors
    ///
    /// User space sees only the errno, so a driver should log the reason.
    fn new_link(
        common: &Arc<Self::Common>,
        kind: &'static DeviceKind<Self::Abi>,
        name: &CStr,
        netdev: NetDev,
    ) -> Result;

    /// Returns the kind of this device. It does not change.
    fn kind(&self) -> &'static DeviceKind<Self::Abi>;

    /// Returns the limits and capabilities of the device.
    fn query_device(dev: &Device<Self>) -> DeviceAttr;

    /// Updates the port attributes that cannot be read without sleeping. Called before [`Driver::query_port`], and
    /// only while the device is registered.
    fn refresh_port(dev: &Device<Self>);

    /// Returns the state of the port.
    ///
    /// Must not sleep: the RCU read lock is held. The core calls it also before the device is registered.
    fn query_port(dev: &Device<Self>) -> Result<PortAttr>;

    /// Returns the P_Key at `index` of the table, which is the same for all devices.
    fn query_pkey(index: u16) -> Result<u16>;

    /// Returns the response to a management datagram, or `None` if the driver has no agent for it.
    fn process_mad(dev: &Device<Self>, request: &[u8; MAD_LEN]) -> Option<[u8; MAD_LEN]>;

    /// Returns the netdev below the port, or `None` from the start of its unregistration. Must not sleep.
    ///
    /// If this returns `None` when the registration of the device completes, the device is unregistered at once.
    fn netdev(&self) -> Option<NetDev>;

    /// Returns whether addresses of `netdev`, which is the netdev below the port or stacked on it, can be GIDs of the
    /// device. If not, the core logs an error for each of them. Must not sleep.
    fn serves(&self, netdev: &NetDevBorrow) -> bool;

    /// Returns the value of the counter at `index` in [`Driver::HW_COUNTERS`]. The core holds the lock of the
    /// port's statistics.
    fn read_counter(dev: &Device<Self>, index: usize) -> u64;

    /// Returns the values of a QP's own counters, in the order of [`Driver::QP_COUNTERS`]. The mutex of
    /// [`QpCounters`] may be held.
    fn read_qp_counters(qp: &Self::Qp) -> QpCounts;

    /// Returns the list of the device's QPs that are bound to an `rdma_counter`.
    fn qp_counters(&self) -> &QpCounters<Self::Qp>;

    /// Creates a user context: a process opens the device, and its provider asks for an ABI. The driver responds.
    fn alloc_ucontext(dev: &Device<Self>, request: &mut OpenRequest)
        -> Result<Arc<Self::Ucontext>>;

    /// Another library, perhaps in another process, is about to use the context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if its ABI has no library that does so.
    fn query_ucontext(ucontext: &Self::Ucontext) -> Result;

    /// Creates a PD for a process, or for a ULP if `ucontext` is `None`.
    fn alloc_pd(
        dev: &Device<Self>,
        ucontext: Option<&Arc<Self::Ucontext>>,
    ) -> Result<Arc<Self::Pd>>;

    /// Creates an XRC domain.
    fn alloc_xrcd(dev: &Device<Self>) -> Result<Arc<Self::Xrcd>>;

    /// Frees an XRC domain. Its SRQs and QPs are destroyed.
    fn dealloc_xrcd(xrcd: Arc<Self::Xrcd>);

    /// Creates a completion counter, whose values are 0. When it is destroyed, no QP uses it.
    fn create_comp_cntr(dev: &Device<Self>, unit: CompCntrUnit) -> Result<Arc<Self::CompCntr>>;

    /// Returns a value of a completion counter.
    fn read_comp_cntr(counter: &Self::CompCntr, entry: CompCntrEntry) -> u64;

    /// Changes a value of a completion counter.
    fn change_comp_cntr(counter: &Self::CompCntr, entry: CompCntrEntry, change: CompCntrChange);

    /// Counts operations of a QP from now on, until it is destroyed: those in `ops`, which can be counted, and are not
    /// yet. The QP is in RESET or INIT, and is not modified meanwhile.
    fn attach_comp_cntr(
        qp: &Arc<Self::Qp>,
        counter: &Arc<Self::CompCntr>,
        ops: CompCntrOps,
    ) -> Result;

    /// Creates an AH.
    ///
    /// Must not sleep unless [`AhInit::may_sleep`] is set: ULPs create AHs in atomic context.
    fn create_ah(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: AhInit<'_, Self>,
    ) -> Result<Arc<Self::Ah>>;

    /// Returns the attributes of an AH.
    fn query_ah(ah: &Self::Ah) -> AhAttr;

    /// Replaces the attributes of an AH. Must not sleep.
    fn modify_ah(ah: &Self::Ah, attr: AhAttr) -> Result;

    /// Destroys an AH.
    ///
    /// May sleep for the AH of a process: uverbs always passes `RDMA_DESTROY_AH_SLEEPABLE`. Must not sleep for the
    /// AH of a ULP, which may destroy it in atomic context; so a driver notes at creation which of the two it is.
    fn destroy_ah(ah: Arc<Self::Ah>) {
        drop(ah);
    }

    /// Creates a CQ. Returns it and the number of entries that it holds.
    fn create_cq(dev: &Device<Self>, init: CqInit<'_, Self>) -> Result<(Arc<Self::Cq>, u32)>;

    /// Resizes the CQ of a process to at least `entries` entries, and returns the new number. Keeps the completions
    /// that have not been polled. Calls for one CQ are serialized.
    fn resize_cq(
        dev: &Device<Self>,
        cq: &Self::Cq,
        entries: u32,
        user: &mut UserContext<Self::Ucontext>,
    ) -> Result<u32>;

    /// Sets CQ moderation: one event may report up to `count` completions that arrive within `period` microseconds.
    fn moderate_cq(cq: &Self::Cq, count: u16, period: u16);

    /// Destroys a CQ. All QPs that used it are destroyed, and its completion handler is no longer called.
    fn destroy_cq(dev: &Device<Self>, cq: Arc<Self::Cq>);

    /// Polls the CQ of a ULP: moves completions to `sink` until the CQ is empty or `sink` is full. Any context.
    fn poll_cq(cq: &Self::Cq, sink: &mut WcSink<'_>);

    /// Arms a CQ. Returns whether completions are waiting already. Any context.
    fn req_notify(cq: &Self::Cq, notify: Notify) -> bool;

    /// Creates a QP in RESET.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: QpInit<'_, Self>,
    ) -> Result<(Arc<Self::Qp>, QpCreated)>;

    /// Creates the target QP of an XRC domain in RESET. It has neither PD nor CQ nor queue of its own.
    fn create_xrc_target(
        dev: &Device<Self>,
        init: XrcTargetInit<Self>,
    ) -> Result<(Arc<Self::Qp>, QpCreated)>;

    /// Returns the state of a QP. Only [`Driver::modify_qp`] changes it, except that a QP goes to an error state by
    /// itself.
    fn qp_state(qp: &Self::Qp) -> IbQpState;

    /// Sets the attributes in `mask`. Calls for one QP are serialized.
    ///
    /// `ops` has checked that the transition from [`QpAttr::cur_qp_state`] is legal and that it permits `mask`. The
    /// QP may have gone to an error state by itself since. The values of the attributes are not checked.
    fn modify_qp(dev: &Device<Self>, qp: &Arc<Self::Qp>, attr: &QpAttr, mask: QpAttrMask)
        -> Result;

    /// Returns the attributes of a QP.
    fn query_qp(qp: &Self::Qp) -> QpQuery;

    /// Reports driver-specific details of a QP, for `rdma resource show qp -dd`.
    fn describe_qp(qp: &Self::Qp, entry: &mut RestrackEntry);

    /// As [`Driver::describe_qp`], for a CQ.
    fn describe_cq(cq: &Self::Cq, entry: &mut RestrackEntry);

    /// As [`Driver::describe_qp`], for an SRQ.
    fn describe_srq(srq: &Self::Srq, entry: &mut RestrackEntry);

    /// As [`Driver::describe_qp`], for an MR.
    fn describe_mr(dev: &Device<Self>, mr: &Self::Mr, entry: &mut RestrackEntry);

    /// Destroys a QP. The core uses it no longer; packets in flight and timers of the driver may.
    ///
    /// The QP's event handler may still run and may query the QP. After this returns, [`QpHandle::event`] does
    /// nothing.
    fn destroy_qp(dev: &Device<Self>, qp: Arc<Self::Qp>);

    /// Attaches a UD QP to a multicast group: it receives a copy of each message to the group. `group` is an IPv6
    /// group, or an IPv4 group mapped into IPv6.
    fn attach_mcast(dev: &Device<Self>, qp: &Arc<Self::Qp>, group: &[u8; 16]) -> Result;

    /// Detaches a QP from a multicast group. After this returns, the QP receives no more copies.
    fn detach_mcast(dev: &Device<Self>, qp: &Arc<Self::Qp>, group: &[u8; 16]) -> Result;

    /// Handles the doorbell of a process: user space has added WQEs to the send ring. The doorbell is the verb
    /// `post_send` with a null WR list; the WQEs are in the ring.
    fn post_send(qp: &Arc<Self::Qp>) -> Result;

    /// Posts the send WRs of a ULP. Any context.
    ///
    /// # Errors
    ///
    /// The WR that `list` yielded last is reported to the ULP as the bad one; the WRs before it are posted.
    fn post_send_kernel(qp: &Arc<Self::Qp>, list: &mut SendWrList<'_, Self::Ah>) -> Result;

    /// Posts the receive WRs of a ULP. Any context. Errors as for [`Driver::post_send_kernel`].
    fn post_recv_kernel(qp: &Arc<Self::Qp>, list: &mut RecvWrList<'_>) -> Result;

    /// Creates an SRQ. Returns it, its capacity, and its number if it is one of XRC.
    fn create_srq(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: SrqInit<'_, Self>,
    ) -> Result<(Arc<Self::Srq>, SrqAttr, Option<u32>)>;

    /// Resizes an SRQ to `max_wr` receives. Keeps the receives that are posted. Modifications of one SRQ are
    /// serialized. `user` is `None` for the SRQ of a ULP.
    fn resize_srq(
        dev: &Device<Self>,
        srq: &Self::Srq,
        max_wr: u32,
        user: Option<&mut UserContext<Self::Ucontext>>,
    ) -> Result;

    /// Arms the limit event of an SRQ: it fires when fewer than `limit` receives are posted. 0 disarms it.
    fn set_srq_limit(srq: &Self::Srq, limit: u32) -> Result;

    /// Returns the capacity and the limit of an SRQ.
    fn query_srq(srq: &Self::Srq) -> SrqAttr;

    /// Destroys an SRQ. All QPs that used it are destroyed; references from packets in flight may remain.
    fn destroy_srq(dev: &Device<Self>, srq: Arc<Self::Srq>) {
        let _ = dev;
        drop(srq);
    }

    /// Posts the receive WRs of a ULP to an SRQ. Any context. Errors as for [`Driver::post_send_kernel`].
    fn post_srq_recv(srq: &Arc<Self::Srq>, list: &mut RecvWrList<'_>) -> Result;

    /// Registers memory of the calling process as an MR.
    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: MrInit,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Registers a range of a DMA buffer as an MR.
    fn reg_dmabuf_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        init: DmaBufInit,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Prefetches pages of on-demand MRs: in the background, or before it returns if `wait` is set.
    fn advise_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        advice: Advice,
        wait: bool,
        sges: &SgeList<'_>,
    ) -> Result;

    /// Creates an MR over `memory`, which represents all kernel memory. `access` is `enum ib_access_flags`.
    ///
    /// Called for ULPs only. An offset in `memory` is a kernel address: a driver must take offsets only from WRs
    /// and packets that name the keys of this MR.
    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        access: u32,
        memory: Memory,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Creates an MR for fast registration of up to `pages` pages, for a ULP.
    fn alloc_mr(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        pages: u32,
    ) -> Result<(Arc<Self::Mr>, MrKeys)>;

    /// Records the pages for the next fast registration. Returns the number of elements of `list` that it used.
    /// Must not sleep.
    fn map_mr_sg(mr: &Self::Mr, list: ScatterList<'_>) -> Result<u32>;

    /// Changes the PD, the access rights or the memory of a process's MR, which keeps its keys.
    fn rereg_user_mr(
        dev: &Device<Self>,
        mr: &Arc<Self::Mr>,
        change: MrChange<'_, Arc<Self::Pd>>,
    ) -> Result;

    /// Deregisters an MR. After this succeeded, its keys give no access to the memory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if an MW is bound to it; the MR stays registered.
    fn dereg_mr(dev: &Device<Self>, mr: &Arc<Self::Mr>) -> Result;

    /// Creates an MW. Returns it and its rkey.
    fn alloc_mw(
        dev: &Device<Self>,
        pd: &Arc<Self::Pd>,
        mw_type: MwType,
    ) -> Result<(Arc<Self::Mw>, u32)>;

    /// Destroys an MW. After this returns, its rkey gives no access to memory.
    fn dealloc_mw(dev: &Device<Self>, mw: Arc<Self::Mw>);
}

/// Kind of prefetch (`enum ib_uverbs_advise_mr_advice`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Advice {
    /// For reads.
    Prefetch,
    /// For writes.
    PrefetchWrite,
    /// For reads, without faulting in pages that are absent.
    PrefetchPresent,
}

/// Arguments of [`Driver::create_ah`].
pub struct AhInit<'a, T: Driver> {
    /// Address of the peer.
    pub attr: AhAttr,
    /// Whether the caller may sleep.
    pub may_sleep: bool,
    /// The calling process; `None` for a ULP.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
}

/// Arguments of [`Driver::create_cq`].
pub struct CqInit<'a, T: Driver> {
    /// Minimum number of completions that the CQ must hold; not 0.
    pub entries: u32,
    /// Completion vector that the caller requested.
    pub comp_vector: u32,
    /// What else a process requested.
    pub flags: CqFlags,
    /// The calling process; `None` for a ULP.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// Delivers completion and error events to the consumer.
    pub handle: CqHandle,
}

/// Flags of a CQ (`enum ib_uverbs_ex_create_cq_flags`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CqFlags {
    /// A completion has the time at which it was pushed.
    pub timestamps: bool,
    /// The CQ may be full: what is lost then raises no error.
    pub ignore_overrun: bool,
}

/// Arguments of [`Driver::create_qp`].
pub struct QpInit<'a, T: Driver> {
    /// Type of service.
    pub qp_type: QpType,
    /// Minimum capacity.
    pub caps: QpCaps,
    /// Whether every send is signaled, not only those with `IB_SEND_SIGNALED`.
    pub sq_sig_all: bool,
    /// CQ of the sends.
    pub send_cq: Arc<T::Cq>,
    /// CQ of the receives. A QP of XRC has none, and this is that of the sends.
    pub recv_cq: Arc<T::Cq>,
    /// SRQ, if the QP has no receive queue of its own.
    pub srq: Option<Arc<T::Srq>>,
    /// Port number, for [`QpType::Gsi`].
    pub port_num: u32,
    /// The calling process; `None` for a ULP.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// Delivers asynchronous events to the consumer.
    pub handle: QpHandle,
}

/// Arguments of [`Driver::create_xrc_target`].
pub struct XrcTargetInit<T: Driver> {
    /// The domain.
    pub xrcd: Arc<T::Xrcd>,
    /// Delivers asynchronous events to the consumer.
    pub handle: QpHandle,
}

/// The domain and the CQ of an SRQ of XRC.
pub type XrcEnds<T> = (Arc<<T as Driver>::Xrcd>, Arc<<T as Driver>::Cq>);

/// Arguments of [`Driver::create_srq`].
pub struct SrqInit<'a, T: Driver> {
    /// Minimum capacity.
    pub attr: SrqAttr,
    /// The domain and the CQ of an SRQ of XRC. `None`: it is a basic one.
    pub xrc: Option<XrcEnds<T>>,
    /// The calling process; `None` for a ULP.
    pub user: Option<&'a mut UserContext<T::Ucontext>>,
    /// Delivers asynchronous events to the consumer.
    pub handle: SrqHandle,
}

/// Properties of a new QP.
#[derive(Clone, Copy, Debug)]
pub struct QpCreated {
    /// QP number.
    pub qp_num: u32,
    /// Actual capacity.
    pub caps: QpCaps,
}

/// Result of [`Driver::query_qp`].
#[derive(Clone, Copy, Debug)]
pub struct QpQuery {
    /// Attributes.
    pub attr: QpAttr,
    /// Capacity.
    pub caps: QpCaps,
    /// Whether every send is signaled.
    pub sq_sig_all: bool,
}
