// SPDX-License-Identifier: GPL-2.0

//! The port of a device: what its queue pairs share.
//!
//! Owns the keys, the counters and the hold on the netdev. Does not know the `ib_device` in front
//! of it, so it may outlive it: a packet in flight holds the queue pair, and that holds the port.
//!
//! Nothing holds the netdev once its unregistration has begun: [`Port::detach`] takes it away, and
//! from then on every packet is lost.

use crate::{
    counters::Counters,
    mr::Keys, //
};
use kernel::{
    prelude::*,
    sync::rcu, //
};
use rdma::net::netdev::{
    NetDev,
    PortDev, //
};

/// What the queue pairs of one device share.
#[pin_data]
pub(crate) struct Port {
    netdev: PortDev,
    #[pin]
    keys: Keys,
    counters: Counters,
}

impl Port {
    /// The port over `netdev`.
    pub(crate) fn new(netdev: NetDev) -> impl PinInit<Self> {
        pin_init!(Self {
            netdev: PortDev::new(netdev),
            keys <- Keys::new(),
            counters: Counters::new(),
        })
    }

    /// Keys of the device.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Counters of the device.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The netdev, unless it is going away.
    pub(crate) fn netdev<'g>(&'g self, guard: &'g rcu::Guard) -> Option<&'g NetDev> {
        self.netdev.get(guard)
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
