// SPDX-License-Identifier: GPL-2.0

//! A device: one for each netdev that `rdma link add` names.
//!
//! Owns the making of a device, what it reports about itself, and its reaction to events of the
//! netdev. Does not implement verbs; those are in `verbs`.

use crate::{
    device::module_state::ModuleState,
    limits::{
        MAX_CQE,
        MAX_FAST_REG_PAGES,
        MAX_MCAST_ATTACHED,
        MAX_MCAST_GROUPS,
        MAX_MR,
        MAX_MW,
        MAX_OBJECTS,
        MAX_RD_ATOMIC,
        MAX_SGE,
        MAX_WR, //
    },
    net::sockets::Sockets,
    port::{
        counters::{
            Counter,
            Counters, //
        },
        query::is_up,
        state::{
            AttachedPort,
            Port, //
        }, //
    },
    qp::any_qp::AnyQp, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};
use rdma::{
    ib::{
        attr::{
            DeviceAttr,
            OdpCaps, //
        },
        device::Device,
        driver::Driver,
        qp_counters::QpCounters,
        unregistered::{
            guid_for,
            UnregisteredDevice, //
        }, //
    },
    net::{
        netdev::{
            NetDev,
            NetDevBorrow, //
        },
        netns::{
            NamespaceExit,
            NetId, //
        },
        notifier::{
            NetdevEvent,
            NetdevEvents, //
        },
        rtnl::Rtnl, //
    }, //
};

/// What works with memory on demand (`enum ib_odp_general_cap_bits`,
/// `enum ib_odp_transport_cap_bits`).
mod on_demand {
    pub(super) const SUPPORT: u64 = 1;
    pub(super) const IMPLICIT: u64 = 1 << 1;
    pub(super) const SEND: u32 = 1;
    pub(super) const RECV: u32 = 1 << 1;
    pub(super) const WRITE: u32 = 1 << 2;
    pub(super) const READ: u32 = 1 << 3;
    pub(super) const ATOMIC: u32 = 1 << 4;
    pub(super) const SRQ_RECV: u32 = 1 << 5;
    pub(super) const FLUSH: u32 = 1 << 6;
    pub(super) const ATOMIC_WRITE: u32 = 1 << 7;
}

/// What a device can do (`enum ib_device_cap_flags`); nothing is only claimed.
mod cap {
    const BAD_PKEY_CNTR: u64 = 1 << 1;
    const BAD_QKEY_CNTR: u64 = 1 << 2;
    const CHANGE_PHY_PORT: u64 = 1 << 5;
    const UD_AV_PORT_ENFORCE: u64 = 1 << 6;
    const PORT_ACTIVE_EVENT: u64 = 1 << 10;
    const SYS_IMAGE_GUID: u64 = 1 << 11;
    const RC_RNR_NAK_GEN: u64 = 1 << 12;
    const SRQ_RESIZE: u64 = 1 << 13;
    const MEM_WINDOW: u64 = 1 << 17;
    const MEM_MGT_EXTENSIONS: u64 = 1 << 21;
    const MEM_WINDOW_TYPE_2B: u64 = 1 << 24;
    const FLUSH_GLOBAL: u64 = 1 << 38;
    const FLUSH_PERSISTENT: u64 = 1 << 39;
    const ATOMIC_WRITE: u64 = 1 << 40;

    /// All of it.
    pub(super) const ALL: u64 = BAD_PKEY_CNTR
        | BAD_QKEY_CNTR
        | CHANGE_PHY_PORT
        | UD_AV_PORT_ENFORCE
        | PORT_ACTIVE_EVENT
        | SYS_IMAGE_GUID
        | RC_RNR_NAK_GEN
        | SRQ_RESIZE
        | MEM_WINDOW
        | MEM_MGT_EXTENSIONS
        | MEM_WINDOW_TYPE_2B
        | FLUSH_GLOBAL
        | FLUSH_PERSISTENT
        | ATOMIC_WRITE;
}

/// Atomic operations are atomic among all queue pairs, and against whatever else uses the processor's own
/// atomic instructions, programs among them (`IB_ATOMIC_GLOB`).
const ATOMIC_GLOB: u32 = 2;

/// The data of one device.
#[pin_data]
pub(crate) struct Ferroce {
    shared: Arc<ModuleState>,
    port: AttachedPort,
    #[pin]
    qp_counters: QpCounters<AnyQp>,
    /// Kept for as long as packets may arrive for this device.
    sockets: Sockets,
    guid: [u8; 8],
    /// Whether the interface was up when we were last told.
    up: Atomic<bool>,
}

impl Ferroce {
    /// Makes a device over `netdev`, and registers it under `name`.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else has port 4791 of the namespace; `EEXIST` if the netdev has a
    /// device; those of the registration.
    pub(crate) fn add(shared: Arc<ModuleState>, name: &CStr, netdev: NetDev) -> Result {
        let net = netdev.net().ok_or(ENODEV)?;
        let sockets = shared.namespaces().open(&net).inspect_err(|error| {
            if *error == EADDRINUSE {
                pr_err!(
                    "{}: UDP port 4791 is in use in this namespace\n",
                    netdev.name()
                );
            }
        })?;
        let over = netdev.clone();
        let guid = guid_for(&over);
        let device = UnregisteredDevice::<Self>::alloc(&net, guid, |ib| {
            let demux = shared.demux().clone();
            let port = Arc::pin_init(
                Port::new(
                    netdev,
                    ib,
                    (shared.workqueues().clone(), demux),
                    shared.uses_loopback(),
                ),
                GFP_KERNEL,
            )?;
            Ok(try_pin_init!(Self {
                shared,
                port: AttachedPort::new(port),
                qp_counters <- QpCounters::new(),
                sockets,
                guid,
                up: Atomic::new(false),
            }? Error))
        })?;
        device
            .register(
                name,
                |other| other.is_over(&over),
                |this| this.up.store(is_up(&over), Relaxed),
            )
            .inspect_err(|error| {
                if *error == EEXIST {
                    pr_err!("{}: there is a device over this interface\n", over.name());
                }
            })
    }

    /// What all devices share.
    pub(crate) fn shared(&self) -> &ModuleState {
        &self.shared
    }

    /// What the queue pairs of this device share.
    pub(crate) fn port(&self) -> &Arc<Port> {
        self.port.as_arc()
    }

    /// What was counted of packets for no queue pair, in the namespace of this device.
    pub(crate) fn unmatched(&self) -> &Counters {
        self.sockets.unmatched()
    }

    /// The queue pairs that are counted apart.
    pub(crate) fn qp_counters(&self) -> &QpCounters<AnyQp> {
        &self.qp_counters
    }

    fn is_over(&self, netdev: &NetDevBorrow) -> bool {
        let guard = rcu::read_lock();
        self.port.netdev(&guard).is_some_and(|own| own.is(netdev))
    }

    /// What `query_device` reports.
    pub(crate) fn attributes(&self) -> DeviceAttr {
        DeviceAttr {
            sys_image_guid: self.guid,
            max_mr_size: u64::MAX,
            page_size_cap: 0xffff_f000,
            vendor_id: 0xff_ffff,
            max_qp: MAX_OBJECTS,
            max_qp_wr: MAX_WR,
            device_cap_flags: cap::ALL,
            atomic_cap: ATOMIC_GLOB,
            max_send_sge: MAX_SGE,
            max_recv_sge: MAX_SGE,
            max_sge_rd: MAX_SGE,
            max_cq: MAX_OBJECTS,
            max_cqe: MAX_CQE,
            max_mr: MAX_MR,
            max_mw: MAX_MW,
            max_fast_reg_page_list_len: MAX_FAST_REG_PAGES,
            max_pd: MAX_OBJECTS,
            max_qp_rd_atom: u32::from(MAX_RD_ATOMIC),
            max_res_rd_atom: u32::from(MAX_RD_ATOMIC).saturating_mul(MAX_OBJECTS),
            max_qp_init_rd_atom: u32::from(MAX_RD_ATOMIC),
            max_mcast_grp: MAX_MCAST_GROUPS,
            max_mcast_qp_attach: MAX_MCAST_ATTACHED,
            max_total_mcast_qp_attach: MAX_MCAST_GROUPS.saturating_mul(MAX_MCAST_ATTACHED),
            max_ah: MAX_OBJECTS,
            max_srq: MAX_OBJECTS,
            max_srq_wr: MAX_WR,
            max_srq_sge: MAX_SGE,
            max_cq_moderation_count: u16::MAX,
            max_cq_moderation_period: u16::MAX,
            odp: OdpCaps {
                general: on_demand::SUPPORT | on_demand::IMPLICIT,
                rc: on_demand::SEND
                    | on_demand::RECV
                    | on_demand::WRITE
                    | on_demand::READ
                    | on_demand::ATOMIC
                    | on_demand::SRQ_RECV
                    | on_demand::FLUSH
                    | on_demand::ATOMIC_WRITE,
                uc: on_demand::SEND | on_demand::RECV | on_demand::WRITE | on_demand::SRQ_RECV,
                ud: on_demand::SEND | on_demand::RECV | on_demand::SRQ_RECV,
            },
            max_pkeys: 1,
            local_ca_ack_delay: 15,
            ..DeviceAttr::default()
        }
    }

    /// The netdev went up or down, or away, or is another in some way.
    fn on_event(device: &Device<Self>, event: NetdevEvent, (netdev, rtnl): (&NetDevBorrow, &Rtnl)) {
        let groups = device.shared.demux().groups();
        if event != NetdevEvent::Unregister {
            // What it has of IP may be another by now, such as after a change of the MTU.
            groups.rejoin(&device.port, netdev, rtnl);
        }
        match event {
            NetdevEvent::Up | NetdevEvent::Down | NetdevEvent::Change => {
                let up = is_up(netdev);
                if device.up.xchg(up, Relaxed) != up {
                    if !up {
                        device.port.counters().count(Counter::LinkDowned);
                    }
                    device.dispatch_port_state(netdev);
                }
            }
            NetdevEvent::Unregister => {
                groups.leave_all(&device.port, rtnl);
                device.port.detach();
                device.shared.demux().forget_routes(&device.port);
                device.unregister_queued();
            }
            // Read when it is asked for; nothing to do.
            _ => {}
        }
    }
}

impl NetdevEvents for ModuleState {
    fn event(&self, event: NetdevEvent, netdev: &NetDevBorrow, rtnl: &Rtnl) {
        Ferroce::registry().for_each(|device| {
            if device.is_over(netdev) {
                Ferroce::on_event(device, event, (netdev, rtnl));
            }
        });
    }
}

impl NamespaceExit for ModuleState {
    fn namespace_exit(&self, net: NetId) {
        Ferroce::registry().settle();
        self.namespaces().close_netns(net);
    }
}
