// SPDX-License-Identifier: GPL-2.0

//! The port of a device: netdev, namespace, key table, AHs, counters.
//!
//! All QPs of a device use it, in any context. It may outlive the registration of the device: a packet in flight holds
//! its QP, and the QP holds the port, which keeps only the memory of the `ib_device`.
//!
//! RCU protects the netdev. When its unregistration begins, [`Port::detach`] releases it, and from then on every packet
//! is lost.

use crate::{
    mem::key_table::KeyTable,
    port::{
        ah::Ah,
        congestion::CongestionSettings,
        counters::Counters,
        impair::PortImpairments,
        workqueues::Workqueues, //
    },
    queue::srq::Srq, //
};
use core::ops::Deref;
use kernel::{
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
    ib::gid::GidTable,
    ib_device::IbDevice,
    net::{
        netdev::{
            NetDev,
            NetDevBorrow,
            PortDev, //
        },
        netns::NetId,
        tx::page_pool::PagePool, //
    },
    sync::rcu_table::RcuTable, //
};
use roce::{
    congestion::Algorithm,
    id::Qpn,
    segmentation::mtu::Mtu,
    time::Duration,
    wire::{
        bth::BTH_LEN,
        icrc::ICRC_LEN,
        ip::{
            IPV6_LEN,
            UDP_LEN, //
        }, //
    }, //
};

/// Overhead of a packet for which the core and adapters leave room, in bytes (`iboe_get_mtu()`): the headers of an
/// atomic request of XRC over IPv6, with an XRCETH (4 bytes) and an AtomicETH (28 bytes) after the BTH. Ends that left
/// different room would choose different path MTUs.
const MAX_OVERHEAD: usize = IPV6_LEN + UDP_LEN + BTH_LEN + 4 + 28 + ICRC_LEN;

/// The rate of a port before it was first read.
pub(super) const UNKNOWN_RATE: u32 = 0;

/// Anti-spoofing filter for packets that go through the local route of the stack; a loopback pass checks the peer
/// itself. The source address of a packet does not identify the sending QP, because all QPs of a port share it.
pub(crate) trait SpoofFilter: Send + Sync {
    /// Returns whether packets may go between the QPs with the numbers `qpns` (from, to) within the namespace `net`.
    /// If not, counts them as dropped by the destination port. The receiver checks packets for other services than RC,
    /// UC and XRC.
    fn admits(&self, qpns: (Qpn, Qpn), net: NetId, packets: u16, guard: &rcu::Guard) -> bool;
}

/// Returns the largest path MTU whose packets fit into the MTU `mtu` of a netdev, or the smallest path MTU if none
/// fits.
pub(crate) fn largest_path_mtu(mtu: u32) -> Mtu {
    // CAST: `MAX_OVERHEAD` is far below 2^32.
    let max_payload = mtu.saturating_sub(MAX_OVERHEAD as u32);
    Mtu::ALL
        .into_iter()
        .rfind(|mtu| mtu.bytes() <= max_payload)
        .unwrap_or(Mtu::Mtu256)
}

/// Settings of a port: parameters of the module.
#[derive(Clone, Copy)]
pub(crate) struct PortSettings {
    /// RC packets to local peers use loopback, without the network.
    pub(crate) uses_loopback: bool,
    /// The ICRC of packets that never left this host is checked, too, and so must be sent.
    pub(crate) verifies_every_icrc: bool,
    /// Congestion control.
    pub(crate) congestion: CongestionSettings,
    /// How long an RC packet that arrives early waits for earlier ones. Zero: it does not, they count as lost.
    pub(crate) reorder_wait: Duration,
}

/// The port of a device, which its QPs share.
#[pin_data]
pub(crate) struct Port {
    netdev: PortDev,
    /// The namespace of the netdev. A netdev that moves to another namespace is detached first.
    net: NetId,
    #[pin]
    keys: KeyTable,
    /// AHs of processes, by the number in their datagram WQEs.
    #[pin]
    ahs: RcuTable<Ah>,
    /// SRQs of XRC, by number.
    #[pin]
    xrc_srqs: RcuTable<Srq>,
    counters: Counters,
    /// Number of multicast groups with an attached QP.
    mcast_groups: Atomic<u32>,
    /// Cached speed and width, packed by [`refresh_rate`](Port::refresh_rate). Reading them from the netdev takes
    /// locks, and logs a warning each time if the netdev does not report a speed.
    pub(super) rate: Atomic<u32>,
    settings: PortSettings,
    impairments: PortImpairments,
    pub(super) ib: ARef<IbDevice>,
    workqueues: Arc<Workqueues>,
    spoof_filter: Arc<dyn SpoofFilter>,
    page_pool: Arc<PagePool>,
}

impl Port {
    /// Creates the port of `netdev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        netdev: NetDev,
        ib: ARef<IbDevice>,
        (workqueues, spoof_filter, page_pool): (
            Arc<Workqueues>,
            Arc<dyn SpoofFilter>,
            Arc<PagePool>,
        ),
        settings: PortSettings,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            net: netdev.net_id(),
            netdev: PortDev::new(netdev),
            keys <- KeyTable::new(),
            ahs <- RcuTable::new(),
            xrc_srqs <- RcuTable::new(),
            counters: Counters::new()?,
            mcast_groups: Atomic::new(0),
            rate: Atomic::new(UNKNOWN_RATE),
            settings,
            impairments: PortImpairments::new(),
            ib,
            workqueues,
            spoof_filter,
            page_pool,
        })
    }

    /// Returns whether RC packets to local peers use loopback, without the network. Impairments need packets.
    #[inline]
    pub(crate) fn uses_loopback(&self) -> bool {
        self.settings.uses_loopback && !self.impairments.any()
    }

    /// Returns whether the ICRC of packets that never left this host is checked, too, and so must be sent.
    #[inline]
    pub(crate) fn verifies_every_icrc(&self) -> bool {
        self.settings.verifies_every_icrc
    }

    /// Returns whether super-packets may be sent unsplit, without an ICRC for each packet.
    #[inline]
    pub(crate) fn sends_super_packets(&self) -> bool {
        !self.settings.verifies_every_icrc && !self.impairments.any()
    }

    /// Returns the impairments of packets that the port sends.
    #[inline]
    pub(crate) fn impairments(&self) -> &PortImpairments {
        &self.impairments
    }

    /// Returns the settings of congestion control.
    #[inline]
    pub(crate) fn congestion(&self) -> &CongestionSettings {
        &self.settings.congestion
    }

    /// Returns how long an RC packet that arrives early waits for earlier ones; zero: it does not.
    pub(crate) fn reorder_wait(&self) -> Duration {
        self.settings.reorder_wait
    }

    /// Returns the congestion control of a QP that starts to send.
    pub(crate) fn congestion_algorithm(&self) -> Algorithm {
        self.congestion().algorithm(self.rate_mbit_s())
    }

    /// Returns the pages of the module for super-packets.
    #[inline]
    pub(crate) fn page_pool(&self) -> &PagePool {
        &self.page_pool
    }

    /// Returns the key table of the device.
    pub(crate) fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// Returns the work queues of the module.
    pub(crate) fn workqueues(&self) -> &Workqueues {
        &self.workqueues
    }

    /// Returns the anti-spoofing filter.
    pub(crate) fn spoof_filter(&self) -> &dyn SpoofFilter {
        &*self.spoof_filter
    }

    /// Returns the AHs of processes.
    pub(crate) fn ahs(&self) -> &RcuTable<Ah> {
        &self.ahs
    }

    /// Returns the SRQs of XRC, by number.
    pub(crate) fn xrc_srqs(&self) -> &RcuTable<Srq> {
        &self.xrc_srqs
    }

    /// Returns the network namespace of the port.
    pub(crate) fn net(&self) -> NetId {
        self.net
    }

    /// Returns whether `gid` is an address of the device.
    pub(crate) fn has_gid(&self, gid: &[u8; 16]) -> bool {
        GidTable::find(&self.ib, gid).is_some()
    }

    /// Returns whether packets received on `via` belong to this port: `via` is its netdev, or an upper device of it
    /// such as a VLAN.
    pub(crate) fn receives_from(&self, via: &NetDevBorrow, guard: &rcu::Guard) -> bool {
        self.netdev(guard)
            .is_some_and(|own| own.is(via) || own.has_upper(via, guard))
    }

    /// Returns the number of multicast groups with an attached QP.
    pub(crate) fn mcast_groups(&self) -> u32 {
        self.mcast_groups.load(Relaxed)
    }

    /// Sets [`Port::mcast_groups`]. The caller serialises the updates.
    pub(crate) fn set_mcast_groups(&self, groups: u32) {
        self.mcast_groups.store(groups, Relaxed);
    }

    /// Returns the path MTU of the port: the largest that fits into the MTU of the netdev.
    pub(crate) fn active_mtu(&self) -> Mtu {
        let guard = rcu::read_lock();
        let mtu = self.netdev(&guard).map_or(0, |netdev| netdev.mtu());
        largest_path_mtu(mtu)
    }

    /// Returns the counters of the device.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the netdev, unless it is being unregistered.
    pub(crate) fn netdev<'g>(&'g self, guard: &'g rcu::Guard) -> Option<&'g NetDev> {
        self.netdev.get(guard)
    }

    /// Returns whether the port has a netdev in the namespace `net`. Without a netdev, the identifier may already be
    /// that of another namespace.
    pub(crate) fn is_in(&self, net: NetId, guard: &rcu::Guard) -> bool {
        self.net() == net && self.netdev(guard).is_some()
    }

    /// Returns a reference to the netdev, unless it is being unregistered.
    pub(crate) fn hold_netdev(&self) -> Option<NetDev> {
        let guard = rcu::read_lock();
        self.netdev(&guard).map(NetDev::hold)
    }

    /// Releases the netdev. On return, no packet is being sent to it. Sleeps.
    pub(crate) fn detach(&self) {
        drop(self.netdev.take());
    }
}

/// The port of an existing device, which is detached from its netdev on drop. A pending page fault may keep the port
/// for longer, but a port without a device gets no netdev events.
pub(crate) struct AttachedPort(Arc<Port>);

impl AttachedPort {
    /// Wraps a port that has a netdev.
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self(port)
    }

    /// Returns the reference that QPs clone.
    pub(crate) fn as_arc(&self) -> &Arc<Port> {
        &self.0
    }
}

impl Deref for AttachedPort {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.0
    }
}

impl Drop for AttachedPort {
    /// Sleeps.
    fn drop(&mut self) {
        self.0.detach();
    }
}
