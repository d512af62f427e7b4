// SPDX-License-Identifier: GPL-2.0

//! The port of a device: what its queue pairs share.
//!
//! Owns the keys, the counters and the hold on the netdev. Keeps the memory of the `ib_device` in front
//! of it, not its registration, so it may outlive that: a packet in flight holds the queue pair, and
//! that holds the port.
//!
//! Nothing holds the netdev once its unregistration has begun: [`Port::detach`] takes it away, and
//! from then on every packet is lost.

use crate::{
    mem::key_table::KeyTable,
    port::{
        ah::Ah,
        counters::Counters,
        workqueues::Workqueues, //
    }, //
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
        netns::NetId, //
    },
    sync::rcu_table::RcuTable, //
};
use roce::{
    id::Qpn,
    segmentation::mtu::Mtu,
    wire::{
        bth::BTH_LEN,
        icrc::ICRC_LEN,
        ip::{
            IPV6_LEN,
            UDP_LEN, //
        }, //
    }, //
};

/// Bytes of a packet that are not payload, at most: an RDMA WRITE with immediate data over IPv6
/// has a RETH (16 bytes) and an ImmDt (4 bytes) behind its BTH.
const OVERHEAD: usize = IPV6_LEN + UDP_LEN + BTH_LEN + 16 + 4 + ICRC_LEN;

/// The rate of a port that nobody has asked for.
pub(super) const UNKNOWN_RATE: u32 = 0;

/// Who knows which queue pairs of this machine are connected to whom. Packets do not tell who sent them, but for an
/// address, and that other queue pairs have as well.
pub(crate) trait LoopbackFilter: Send + Sync {
    /// Whether packets that do not leave the namespace `net` may go from one queue pair to another. If not, so many are
    /// counted as dropped where they were going. What goes to no connected service is judged on arrival.
    fn admits(&self, ends: (Qpn, Qpn), net: NetId, packets: u16, guard: &rcu::Guard) -> bool;
}

/// What the queue pairs of one device share.
#[pin_data]
pub(crate) struct Port {
    netdev: PortDev,
    /// The namespace of the netdev. An interface that moves to another is taken away first.
    net: NetId,
    #[pin]
    keys: KeyTable,
    /// Address handles of processes, by the numbers they know them by.
    #[pin]
    ahs: RcuTable<Ah>,
    counters: Counters,
    /// Multicast groups that somebody is attached to.
    groups: Atomic<u32>,
    /// Speed and width, as the netdev had them when the port was first asked for while it was up: asking the netdev
    /// takes locks, and warns each time that there is no answer. See [`attributes`].
    pub(super) rate: Atomic<u32>,
    /// Whether packets to peers on this machine are handed over, and need no network.
    uses_loopback: bool,
    pub(super) ib: ARef<IbDevice>,
    workqueues: Arc<Workqueues>,
    loopback_filter: Arc<dyn LoopbackFilter>,
}

impl Port {
    /// The port over `netdev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        netdev: NetDev,
        ib: ARef<IbDevice>,
        (workqueues, loopback_filter): (Arc<Workqueues>, Arc<dyn LoopbackFilter>),
        uses_loopback: bool,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            net: netdev.net_id(),
            netdev: PortDev::new(netdev),
            keys <- KeyTable::new(),
            ahs <- RcuTable::new(),
            counters: Counters::new()?,
            groups: Atomic::new(0),
            rate: Atomic::new(UNKNOWN_RATE),
            uses_loopback,
            ib,
            workqueues,
            loopback_filter,
        })
    }

    /// Whether packets to peers on this machine are handed over, and need no network.
    #[inline]
    pub(crate) fn uses_loopback(&self) -> bool {
        self.uses_loopback
    }

    /// Keys of the device.
    pub(crate) fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// Where what is not for a softirq is done.
    pub(crate) fn workqueues(&self) -> &Workqueues {
        &self.workqueues
    }

    /// Who knows which queue pairs are connected to whom.
    pub(crate) fn loopback_filter(&self) -> &dyn LoopbackFilter {
        &*self.loopback_filter
    }

    /// Address handles of processes.
    pub(crate) fn ahs(&self) -> &RcuTable<Ah> {
        &self.ahs
    }

    /// The network namespace that the port is in.
    pub(crate) fn net(&self) -> NetId {
        self.net
    }

    /// Whether packets to this address are for the device.
    pub(crate) fn owns(&self, gid: &[u8; 16]) -> bool {
        GidTable::find(&self.ib, gid).is_some()
    }

    /// Whether packets that come in by the interface `via` come in by this port: it is the one below, or
    /// on top of that, such as a VLAN.
    pub(crate) fn takes_from(&self, via: &NetDevBorrow, guard: &rcu::Guard) -> bool {
        self.netdev(guard)
            .is_some_and(|own| own.is(via) || own.has_upper(via, guard))
    }

    /// How many multicast groups somebody is attached to.
    pub(crate) fn groups(&self) -> u32 {
        self.groups.load(Relaxed)
    }

    /// Sets [`Port::groups`]. One caller at a time.
    pub(crate) fn set_groups(&self, groups: u32) {
        self.groups.store(groups, Relaxed);
    }

    /// The largest path MTU whose packets fit through the netdev; the smallest there is if none does.
    pub(crate) fn active_mtu(&self) -> Mtu {
        let guard = rcu::read_lock();
        let mtu = self.netdev(&guard).map_or(0, |netdev| netdev.mtu());
        // CAST: Far below 2^32.
        let room = mtu.saturating_sub(OVERHEAD as u32);
        Mtu::ALL
            .into_iter()
            .rfind(|mtu| mtu.bytes() <= room)
            .unwrap_or(Mtu::Mtu256)
    }

    /// Counters of the device.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The netdev, unless it is going away.
    pub(crate) fn netdev<'g>(&'g self, guard: &'g rcu::Guard) -> Option<&'g NetDev> {
        self.netdev.get(guard)
    }

    /// Whether it is a port of this namespace, and will be: another may get the same identifier when the port has no
    /// netdev any more.
    pub(crate) fn is_in(&self, net: NetId, guard: &rcu::Guard) -> bool {
        self.net() == net && self.netdev(guard).is_some()
    }

    /// A hold on the netdev, unless it is going away.
    pub(crate) fn hold_netdev(&self) -> Option<NetDev> {
        let guard = rcu::read_lock();
        self.netdev(&guard).map(NetDev::hold)
    }

    /// Lets go of the netdev. When it returns, no packet is on its way to it from here.
    pub(crate) fn detach(&self) {
        drop(self.netdev.take());
    }
}

/// The port of a device that is there: when that goes, the port loses its netdev. Who waits for memory on demand may
/// keep the port for long, and nobody tells it any more that the netdev is going away.
pub(crate) struct Attached(Arc<Port>);

impl Attached {
    /// Of a port with a netdev.
    pub(crate) fn new(port: Arc<Port>) -> Self {
        Self(port)
    }

    /// The port as its queue pairs have it.
    pub(crate) fn shared(&self) -> &Arc<Port> {
        &self.0
    }
}

impl Deref for Attached {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.0
    }
}

impl Drop for Attached {
    /// Sleeps.
    fn drop(&mut self) {
        self.0.detach();
    }
}
