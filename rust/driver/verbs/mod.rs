// SPDX-License-Identifier: GPL-2.0

//! The verbs: `impl Driver for Ferroce`, the operations that the core calls.
//!
//! - [`qp`], [`srq`], [`ah`], [`mr`]: creation of objects, and the checks of their parameters.
//! - [`advise_mr`]: ODP prefetch.
//!
//! Verbs run in process context. Those for posting, polling, `map_mr_sg` and the AHs of ULPs must not sleep.
//!
//! May use all folders.

mod advise_mr;
mod ah;
mod mr;
mod qp;
mod srq;

use crate::{
    abi::Abi,
    device::{
        ferroce::{
            Ferroce,
            Identity, //
        },
        kind::{
            Kind,
            KINDS, //
        },
        module_state::ModuleState, //
    },
    limits::{
        MAX_CQE,
        MAX_OBJECTS, //
    },
    mem::pd::Pd,
    port::counters::{
        COUNTER_NAMES,
        PER_QP_COUNTERS, //
    },
    qp::{
        any_qp::AnyQp,
        post, //
    },
    queue::{
        comp_cntr::{
            AttachedCntrs,
            CompCntr, //
        },
        cq::Cq,
        cq_moderation::ModerationParams,
        srq::Srq,
        xrcd::Xrcd, //
    },
    verbs::{
        ah::AhHandle,
        mr::{
            MrHandle,
            MwHandle, //
        }, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    errno::EOPNOTSUPP,
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
        driver::{
            Advice,
            AhInit,
            CqInit,
            Driver,
            QpCreated,
            QpInit,
            QpQuery,
            SrqInit,
            XrcTargetInit,
            MAD_LEN, //
        },
        event::Notify,
        link::Registry,
        qp_attr::{
            AhAttr,
            IbQpState,
            QpAttr,
            QpAttrMask, //
        },
        qp_counters::{
            QpCounters,
            QpCounts, //
        },
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
use roce::{
    access::Access,
    id::{
        Pkey,
        Qpn, //
    },
    pma, //
};

/// The devices of this module.
static DEVICES: Registry<Ferroce> = Registry::new();

impl Driver for Ferroce {
    type Common = ModuleState;
    type Abi = Option<Abi>;
    type Ucontext = Abi;
    type Pd = Pd;
    type Ah = AhHandle;
    type Cq = Cq;
    type Qp = AnyQp;
    type Srq = Srq;
    type Xrcd = Xrcd;
    type CompCntr = CompCntr;
    type Mr = MrHandle;
    type Mw = MwHandle;

    const COMP_CNTR_CAPS: CompCntrCaps = CompCntrCaps {
        max_value: u64::MAX,
        max_counters: MAX_OBJECTS,
        ops: AttachedCntrs::OPS,
    };
    const KINDS: &'static [Kind] = KINDS;
    const HW_COUNTERS: &'static [&'static CStr] = &COUNTER_NAMES;
    const QP_COUNTERS: &'static [usize] = &PER_QP_COUNTERS;

    fn registry() -> &'static Registry<Self> {
        &DEVICES
    }

    fn new_link(
        shared: &Arc<ModuleState>,
        kind: &'static Kind,
        name: &CStr,
        netdev: NetDev,
    ) -> Result {
        let guid = None;
        Ferroce::add(shared.clone(), Identity { kind, name, guid }, netdev)
    }

    fn kind(&self) -> &'static Kind {
        self.kind()
    }

    fn query_device(dev: &Device<Self>) -> DeviceAttr {
        dev.attributes()
    }

    fn refresh_port(dev: &Device<Self>) {
        dev.port().refresh_rate();
    }

    fn query_port(dev: &Device<Self>) -> Result<PortAttr> {
        Ok(dev.port().attributes())
    }

    fn query_pkey(index: u16) -> Result<u16> {
        if index == 0 {
            Ok(Pkey::DEFAULT.get())
        } else {
            Err(EINVAL)
        }
    }

    fn process_mad(dev: &Device<Self>, request: &[u8; MAD_LEN]) -> Option<[u8; MAD_LEN]> {
        pma::response(request, &dev.port().counters().pma_counts())
    }

    fn netdev(&self) -> Option<NetDev> {
        self.port().hold_netdev()
    }

    fn serves(&self, netdev: &NetDevBorrow) -> bool {
        // Packets to addresses in other namespaces reach the devices of those, and none of this one.
        netdev.net_id() == self.port().net()
    }

    fn read_counter(dev: &Device<Self>, index: usize) -> u64 {
        // Unmatched packets belong to no device, so each device of their namespace includes them.
        let unmatched = dev.unmatched().value(index);
        dev.port().counters().value(index).wrapping_add(unmatched)
    }

    fn read_qp_counters(qp: &AnyQp) -> QpCounts {
        qp.shared().traffic().counts()
    }

    fn qp_counters(&self) -> &QpCounters<AnyQp> {
        self.qp_counters()
    }

    fn alloc_ucontext(dev: &Device<Self>, request: &mut OpenRequest) -> Result<Arc<Abi>> {
        // A provider that asks for no ABI does not know a device without a default.
        let abi = Abi::negotiate(request)?.or(dev.kind().default_abi);
        Ok(Arc::new(abi.ok_or(EOPNOTSUPP)?, GFP_KERNEL_ACCOUNT)?)
    }

    fn query_ucontext(abi: &Abi) -> Result {
        match abi.is_own() {
            true => Ok(()),
            false => Err(EOPNOTSUPP),
        }
    }

    fn alloc_pd(_dev: &Device<Self>, _ucontext: Option<&Arc<Abi>>) -> Result<Arc<Pd>> {
        Ok(Arc::new(Pd::new(), GFP_KERNEL_ACCOUNT)?)
    }

    fn alloc_xrcd(_dev: &Device<Self>) -> Result<Arc<Xrcd>> {
        Xrcd::new()
    }

    fn dealloc_xrcd(xrcd: Arc<Xrcd>) {
        drop(xrcd);
    }

    fn create_comp_cntr(_dev: &Device<Self>, unit: CompCntrUnit) -> Result<Arc<CompCntr>> {
        CompCntr::new(unit)
    }

    fn read_comp_cntr(counter: &CompCntr, entry: CompCntrEntry) -> u64 {
        counter.read(entry)
    }

    fn change_comp_cntr(counter: &CompCntr, entry: CompCntrEntry, change: CompCntrChange) {
        counter.change(entry, change);
    }

    fn attach_comp_cntr(qp: &Arc<AnyQp>, counter: &Arc<CompCntr>, ops: CompCntrOps) -> Result {
        qp.attach(counter, ops)
    }

    fn create_ah(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        init: AhInit<'_, Self>,
    ) -> Result<Arc<AhHandle>> {
        AhHandle::create(dev.port(), pd, init)
    }

    fn query_ah(handle: &AhHandle) -> AhAttr {
        handle.ah().attr()
    }

    fn modify_ah(handle: &AhHandle, attr: AhAttr) -> Result {
        handle.ah().set_attr(attr);
        Ok(())
    }

    fn create_cq(_dev: &Device<Self>, init: CqInit<'_, Self>) -> Result<(Arc<Cq>, u32)> {
        if init.entries > MAX_CQE {
            return Err(EINVAL);
        }
        let Some(user) = init.user else {
            return Ok((Cq::kernel(init.handle, init.entries)?, init.entries));
        };
        Cq::user(init.handle, init.entries, init.flags, user)
    }

    fn resize_cq(
        _dev: &Device<Self>,
        cq: &Cq,
        entries: u32,
        user: &mut UserContext<Abi>,
    ) -> Result<u32> {
        if entries > MAX_CQE {
            return Err(EINVAL);
        }
        cq.resize(entries, user)
    }

    fn moderate_cq(cq: &Cq, count: u16, period: u16) {
        cq.set_moderation(ModerationParams { count, period });
    }

    fn destroy_cq(_dev: &Device<Self>, cq: Arc<Cq>) {
        cq.stop();
    }

    fn poll_cq(cq: &Cq, sink: &mut WcSink<'_>) {
        while sink.free() != 0 {
            let Some(wc) = cq.pop() else { break };
            sink.push(&wc);
        }
    }

    fn req_notify(cq: &Cq, notify: Notify) -> bool {
        cq.arm(notify)
    }

    fn create_qp(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        init: QpInit<'_, Self>,
    ) -> Result<(Arc<AnyQp>, QpCreated)> {
        qp::create(dev, pd, init)
    }

    fn create_xrc_target(
        dev: &Device<Self>,
        init: XrcTargetInit<Self>,
    ) -> Result<(Arc<AnyQp>, QpCreated)> {
        qp::create_xrc_target(dev, init)
    }

    fn qp_state(qp: &AnyQp) -> IbQpState {
        qp.shared().state()
    }

    fn modify_qp(_dev: &Device<Self>, qp: &Arc<AnyQp>, attr: &QpAttr, mask: QpAttrMask) -> Result {
        qp.modify(attr, mask)
    }

    fn query_qp(qp: &AnyQp) -> QpQuery {
        qp.query()
    }

    fn describe_qp(qp: &AnyQp, details: &mut RestrackEntry) {
        qp.describe(details);
    }

    fn describe_cq(cq: &Cq, details: &mut RestrackEntry) {
        cq.describe(details);
    }

    fn describe_srq(srq: &Srq, details: &mut RestrackEntry) {
        srq.describe(details);
    }

    fn describe_mr(dev: &Device<Self>, mr: &MrHandle, details: &mut RestrackEntry) {
        mr::describe(dev, mr, details);
    }

    fn destroy_qp(dev: &Device<Self>, qp: Arc<AnyQp>) {
        let number = qp.shared().number();
        // Reset drops the cached routes. It must come first: when the netdev is unregistered, the routes of a QP that
        // was removed from the demux would not be dropped.
        qp.reset();
        if number == Qpn::GSI.get() {
            dev.shared().demux().remove_gsi(&qp);
        } else {
            dev.shared().demux().remove(number);
        }
        qp.retire();
    }

    fn attach_mcast(dev: &Device<Self>, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        dev.shared().demux().groups().attach(qp, group)
    }

    fn detach_mcast(dev: &Device<Self>, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        dev.shared().demux().groups().detach(qp, group)
    }

    fn post_send(qp: &Arc<AnyQp>) -> Result {
        qp.doorbell()
    }

    fn post_send_kernel(qp: &Arc<AnyQp>, list: &mut SendWrList<'_, AhHandle>) -> Result {
        post::post_sends(qp, list)
    }

    fn post_recv_kernel(qp: &Arc<AnyQp>, list: &mut RecvWrList<'_>) -> Result {
        post::post_receives(qp, list)
    }

    fn create_srq(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        init: SrqInit<'_, Self>,
    ) -> Result<(Arc<Srq>, SrqAttr, Option<u32>)> {
        srq::create(dev, pd, init)
    }

    fn destroy_srq(dev: &Device<Self>, srq: Arc<Srq>) {
        srq::destroy(dev, &srq);
    }

    fn resize_srq(
        _dev: &Device<Self>,
        srq: &Srq,
        max_wr: u32,
        user: Option<&mut UserContext<Abi>>,
    ) -> Result {
        srq::resize(srq, max_wr, user)
    }

    fn set_srq_limit(srq: &Srq, limit: u32) -> Result {
        srq.set_limit(limit)
    }

    fn query_srq(srq: &Srq) -> SrqAttr {
        srq.query()
    }

    fn post_srq_recv(srq: &Arc<Srq>, list: &mut RecvWrList<'_>) -> Result {
        list.try_for_each(|wr| srq.push(&wr))
    }

    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        init: MrInit,
    ) -> Result<(Arc<MrHandle>, MrKeys)> {
        mr::reg_user(dev, pd, &init)
    }

    fn reg_dmabuf_mr(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        init: DmaBufInit,
    ) -> Result<(Arc<MrHandle>, MrKeys)> {
        mr::reg_dma_buf(dev, pd, &init)
    }

    fn advise_mr(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        advice: Advice,
        wait: bool,
        sges: &SgeList<'_>,
    ) -> Result {
        advise_mr::advise(dev, pd, advice, wait, sges)
    }

    fn get_dma_mr(
        dev: &Device<Self>,
        pd: &Arc<Pd>,
        access: u32,
        memory: Memory,
    ) -> Result<(Arc<MrHandle>, MrKeys)> {
        mr::reg_kernel(dev, pd, Access::from_bits(access), memory)
    }

    fn alloc_mr(dev: &Device<Self>, pd: &Arc<Pd>, pages: u32) -> Result<(Arc<MrHandle>, MrKeys)> {
        mr::alloc_fast(dev, pd, pages)
    }

    fn map_mr_sg(mr: &MrHandle, list: ScatterList<'_>) -> Result<u32> {
        mr::stage(mr, list)
    }

    fn rereg_user_mr(
        dev: &Device<Self>,
        mr: &Arc<MrHandle>,
        change: MrChange<'_, Arc<Pd>>,
    ) -> Result {
        mr::change(dev, mr, change)
    }

    fn dereg_mr(dev: &Device<Self>, mr: &Arc<MrHandle>) -> Result {
        mr::dereg(dev, mr)
    }

    fn alloc_mw(dev: &Device<Self>, pd: &Arc<Pd>, mw_type: MwType) -> Result<(Arc<MwHandle>, u32)> {
        mr::alloc_mw(dev, pd, mw_type)
    }

    fn dealloc_mw(dev: &Device<Self>, mw: Arc<MwHandle>) {
        mr::dealloc_mw(dev, &mw);
    }
}
