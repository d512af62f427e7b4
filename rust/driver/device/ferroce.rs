// SPDX-License-Identifier: GPL-2.0

//! A device: created by `rdma link add` for one netdev.
//!
//! Creation, capabilities, and handling of netdev events. Netdev events come in process context, under RTNL. The verbs
//! are in `verbs`.

use crate::{
    abi::Abi,
    device::{
        impair_file::ImpairFile,
        kind::Kind,
        module_state::ModuleState,
        moves::Moved, //
    },
    limits::{
        MAX_CQE,
        MAX_FAST_REG_PAGES,
        MAX_MCAST_ATTACHED,
        MAX_MCAST_GROUPS,
        MAX_MR,
        MAX_MW,
        MAX_OBJECTS,
        MAX_REPORTED_RD_ATOMIC,
        MAX_SGE,
        MAX_WR,
        TIMESTAMP_KHZ, //
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
    debugfs,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc, //
    }, //
};
use rdma::{
    errno::{
        EADDRINUSE,
        EOPNOTSUPP, //
    },
    ib::{
        adapter::Adapter,
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
        may_log,
        netdev::{
            NetDev,
            NetDevBorrow, //
        },
        netns::{
            NamespaceExit,
            NetId, //
        },
        notifier::NetdevEvent,
        rtnl::Rtnl, //
    }, //
};

/// ODP capabilities (`enum ib_odp_general_cap_bits`, `enum ib_odp_transport_cap_bits`).
mod odp {
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

    /// All of them.
    pub(super) const RC: u32 =
        SEND | RECV | WRITE | READ | ATOMIC | SRQ_RECV | FLUSH | ATOMIC_WRITE;
}

/// Device capabilities (`enum ib_device_cap_flags`). Each one is implemented.
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

    /// Capability of devices whose every provider has verbs for it.
    pub(super) const XRC: u64 = 1 << 20;

    /// Capabilities of all devices.
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

/// Atomic operations are atomic between all QPs, and against atomic instructions of the CPU in any program
/// (`IB_ATOMIC_GLOB`).
const ATOMIC_GLOB: u32 = 2;

/// What a device is that will be created.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) kind: &'static Kind,
    pub(crate) name: &'a CStr,
    /// The node GUID. `None`: that of the netdev's address.
    pub(crate) guid: Option<[u8; 8]>,
}

/// Driver data of one device.
#[pin_data]
pub(crate) struct Ferroce {
    kind: &'static Kind,
    shared: Arc<ModuleState>,
    port: AttachedPort,
    #[pin]
    qp_counters: QpCounters<AnyQp>,
    /// Keeps the sockets open while the device exists.
    sockets: Sockets,
    guid: [u8; 8],
    /// The netdev was up at the last netdev event.
    up: Atomic<bool>,
    /// `impair` in the directory of the device in debugfs.
    #[pin]
    impair: debugfs::File<ImpairFile>,
}

impl Ferroce {
    /// Creates a device for `netdev`, and registers it.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the netdev is a VLAN; `EADDRINUSE` if another socket in the namespace has port 4791; `EEXIST` if
    /// the netdev has a device; those of [`UnregisteredDevice::register`].
    pub(crate) fn add(shared: Arc<ModuleState>, id: Identity<'_>, netdev: NetDev) -> Result {
        // An administrator asks for a new device; an interface can be moved by the owner of a namespace.
        let says_why = id.guid.is_none() || may_log();
        let interface = netdev.clone();
        let result = Self::create(shared, id, netdev);
        match result {
            _ if !says_why => {}
            Ok(()) => warn_of_adapter(&interface),
            Err(error) if error == EADDRINUSE => pr_err!(
                "{}: UDP port 4791 is in use in this namespace\n",
                interface.name()
            ),
            Err(error) if error == EEXIST => pr_err!(
                "{}: this interface has a device already\n",
                interface.name()
            ),
            Err(_) => {}
        }
        result
    }

    /// As [`Ferroce::add`], without words.
    fn create(shared: Arc<ModuleState>, id: Identity<'_>, netdev: NetDev) -> Result {
        let Identity { kind, name, guid } = id;
        refuse_vlan(&netdev)?;
        let net = netdev.net().ok_or(ENODEV)?;
        let sockets = shared.namespaces().open(&net)?;
        let netdev_ref = netdev.clone();
        // Another device may have got the GUID of one that follows its interface.
        let guid = guid
            .filter(|guid| !has_guid(*guid))
            .unwrap_or_else(|| guid_for(&netdev_ref, has_guid));
        let device = UnregisteredDevice::<Self>::alloc(&net, guid, |ib| {
            let demux = shared.demux().clone();
            let port = Arc::pin_init(
                Port::new(
                    netdev,
                    ib,
                    (
                        shared.workqueues().clone(),
                        demux,
                        shared.page_pool().clone(),
                    ),
                    shared.port_settings(),
                ),
                GFP_KERNEL,
            )?;
            let dir = shared.debugfs().subdir(name);
            let impair_file = ImpairFile::new(port.clone());
            Ok(try_pin_init!(Self {
                impair <- dir.read_write_file(c"impair", impair_file),
                kind,
                shared,
                port: AttachedPort::new(port),
                qp_counters <- QpCounters::new(),
                sockets,
                guid,
                up: Atomic::new(false),
            }? Error))
        })?;
        device.register(
            name,
            |other| other.has_netdev(&netdev_ref),
            |this| this.up.store(is_up(&netdev_ref), Relaxed),
        )?;
        Ok(())
    }

    /// Returns the kind of this device.
    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns the state that all devices share.
    pub(crate) fn shared(&self) -> &ModuleState {
        &self.shared
    }

    /// Returns the port, which the QPs of the device share.
    pub(crate) fn port(&self) -> &Arc<Port> {
        self.port.as_arc()
    }

    /// Returns the counters of unmatched packets in the namespace of the device.
    pub(crate) fn unmatched(&self) -> &Counters {
        self.sockets.unmatched()
    }

    /// Returns the QPs that are bound to an `rdma_counter`.
    pub(crate) fn qp_counters(&self) -> &QpCounters<AnyQp> {
        &self.qp_counters
    }

    /// Returns whether a device is on `netdev`.
    pub(super) fn is_on(netdev: &NetDevBorrow) -> bool {
        let mut found = false;
        Self::registry().for_each(|device| found |= device.has_netdev(netdev));
        found
    }

    /// Returns whether `netdev` is the netdev of this device.
    pub(super) fn has_netdev(&self, netdev: &NetDevBorrow) -> bool {
        let guard = rcu::read_lock();
        self.port.netdev(&guard).is_some_and(|own| own.is(netdev))
    }

    /// Returns the attributes that `query_device` reports.
    pub(crate) fn attributes(&self) -> DeviceAttr {
        // The ABI of rdma_rxe has neither XRC nor a place for the time of a completion.
        let is_own = self.kind().default_abi != Some(Abi::Rxe);
        DeviceAttr {
            sys_image_guid: self.guid,
            max_mr_size: u64::MAX,
            page_size_cap: 0xffff_f000,
            vendor_id: 0xff_ffff,
            max_qp: MAX_OBJECTS,
            max_qp_wr: MAX_WR,
            device_cap_flags: if is_own {
                cap::ALL | cap::XRC
            } else {
                cap::ALL
            },
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
            max_qp_rd_atom: u32::from(MAX_REPORTED_RD_ATOMIC),
            max_res_rd_atom: u32::from(MAX_REPORTED_RD_ATOMIC).saturating_mul(MAX_OBJECTS),
            max_qp_init_rd_atom: u32::from(MAX_REPORTED_RD_ATOMIC),
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
                general: odp::SUPPORT | odp::IMPLICIT,
                rc: odp::RC,
                xrc: odp::RC,
                uc: odp::SEND | odp::RECV | odp::WRITE | odp::SRQ_RECV,
                ud: odp::SEND | odp::RECV | odp::SRQ_RECV,
            },
            max_pkeys: 1,
            local_ca_ack_delay: 15,
            hca_core_clock: if is_own { TIMESTAMP_KHZ } else { 0 },
            ..DeviceAttr::default()
        }
    }

    /// Handles a netdev event of this device.
    pub(super) fn on_event(
        device: &Device<Self>,
        event: NetdevEvent,
        (netdev, rtnl): (&NetDevBorrow, &Rtnl),
    ) {
        let groups = device.shared.demux().groups();
        if event != NetdevEvent::Unregister {
            // The IP configuration of the netdev may have been replaced, for example after a change of the MTU.
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
                // A namespace that ends cannot be held.
                // A device that is not registered yet, or is being deleted, does not follow.
                let is_registered = device.try_get().is_some();
                if is_registered && netdev.is_registered() && netdev.net().is_some() {
                    let moved = Moved {
                        old: ARef::from(device.ib()),
                        kind: device.kind,
                        guid: device.guid,
                        from: netdev.net_inode(),
                    };
                    device.shared.moves().leaves(moved, netdev);
                } else {
                    log_removal(device, netdev);
                }
                groups.leave_all(&device.port, rtnl);
                device.port.detach();
                device.shared.demux().forget_routes(&device.port);
                device.unregister_queued();
            }
            // Other attributes are read from the netdev on each query.
            _ => {}
        }
    }
}

/// Logs that a device goes because its interface does. A process may remove its interfaces as often as it likes.
fn log_removal(device: &Device<Ferroce>, netdev: &NetDevBorrow) {
    if may_log() {
        pr_info!(
            "{}: removed, as {} is removed from network namespace {}\n",
            device.ib().name(),
            netdev.name(),
            netdev.net_inode()
        );
    }
}

/// Refuses a VLAN, for whose addresses the core adds GIDs to the device of the netdev below only.
fn refuse_vlan(netdev: &NetDev) -> Result {
    let Some(real_dev) = netdev.vlan_real_dev() else {
        return Ok(());
    };
    pr_err!(
        "{}: a VLAN has no device of its own; a device on {} has its addresses\n",
        netdev.name(),
        real_dev.name()
    );
    Err(EOPNOTSUPP)
}

/// Returns whether a device has the node GUID `guid`, for example because its netdev has the same Ethernet address.
fn has_guid(guid: [u8; 8]) -> bool {
    let mut found = false;
    Ferroce::registry().for_each(|device| found |= device.guid == guid);
    found
}

/// Warns if an adapter may take the packets for `netdev` because it speaks RoCEv2 itself: the device would send, but
/// receive nothing.
fn warn_of_adapter(netdev: &NetDev) {
    if let Some(adapter) = Adapter::below(netdev) {
        let handle = adapter.devlink_handle();
        pr_warn!(
            "{}: the adapter may keep UDP port 4791 for its own device {}. If nothing arrives: devlink dev param set \
             {} name enable_roce value false cmode driverinit; devlink dev reload {}\n",
            netdev.name(),
            adapter.name(),
            handle,
            handle
        );
    }
}

impl NamespaceExit for ModuleState {
    fn namespace_exit(&self, net: NetId) {
        Ferroce::registry().wait_unregistered();
        self.namespaces().close_netns(net);
    }
}
