// SPDX-License-Identifier: GPL-2.0

//! UDP sockets on port 4791: one pair (IPv4, IPv6) for each network namespace with a device.
//!
//! The devices of a namespace share its sockets. They are closed with the last device, or when the namespace exits. A
//! mutex protects the list of namespaces; all functions are for process context and sleep.

use crate::{
    net::demux::{
        Demux,
        NetnsRx, //
    },
    port::counters::Counters, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use rdma::net::{
    hook::udp_tunnel::UdpPort,
    netns::{
        Net,
        NetId, //
    }, //
};

/// The namespaces that have sockets.
#[pin_data]
pub(crate) struct Namespaces {
    demux: Arc<Demux>,
    #[pin]
    list: Mutex<NetnsList>,
}

struct NetnsList {
    entries: KVec<NetnsEntry>,
    /// Serial of the next entry. Distinguishes a namespace from a later one with the same identifier.
    next_serial: u64,
}

/// A namespace with sockets, and the number of devices that use them.
struct NetnsEntry {
    serial: u64,
    net: NetId,
    users: usize,
    sockets: UdpPort<NetnsRx>,
}

impl Namespaces {
    /// Creates an empty list. `demux` receives the packets of all sockets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(demux: Arc<Demux>) -> Result<Arc<Self>> {
        let list = NetnsList {
            entries: KVec::new(),
            next_serial: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                demux,
                list <- new_mutex!(list, "ferroce::Namespaces"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns a reference to the sockets of the namespace `net`. Opens them if they are not open.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if another socket has the port; `ENOMEM`.
    pub(crate) fn open(self: &Arc<Self>, net: &Net) -> Result<Sockets> {
        let mut list = self.list.lock();
        if let Some(entry) = list.entries.iter_mut().find(|entry| entry.net == net.id()) {
            entry.users = entry.users.saturating_add(1);
            return Ok(Sockets {
                namespaces: self.clone(),
                serial: entry.serial,
                netns_rx: entry.sockets.receiver().clone(),
            });
        }
        let netns_rx = NetnsRx::new(self.demux.clone())?;
        let sockets = UdpPort::open(net, netns_rx.clone())?;
        let serial = list.next_serial;
        list.next_serial = serial.wrapping_add(1);
        list.entries.push(
            NetnsEntry {
                serial,
                net: net.id(),
                users: 1,
                sockets,
            },
            GFP_KERNEL,
        )?;
        Ok(Sockets {
            namespaces: self.clone(),
            serial,
            netns_rx,
        })
    }

    /// Closes the sockets of a namespace that exits, even if devices use them.
    pub(crate) fn close_netns(&self, net: NetId) {
        self.remove(|entry| entry.net == net);
    }

    /// Releases a device's reference to the sockets of the entry `serial`.
    fn close(&self, serial: u64) {
        self.remove(|entry| {
            if entry.serial != serial {
                return false;
            }
            entry.users = entry.users.saturating_sub(1);
            entry.users == 0
        });
    }

    /// Removes the entry for which `predicate` returns true, and closes its sockets. Keeps the lock until the port is
    /// free: otherwise, `open` in the same namespace could fail.
    fn remove(&self, predicate: impl FnMut(&mut NetnsEntry) -> bool) {
        let mut list = self.list.lock();
        if let Some(index) = list.entries.iter_mut().position(predicate) {
            drop(list.entries.remove(index));
        }
    }
}

/// A device's reference to the sockets of its namespace.
pub(crate) struct Sockets {
    namespaces: Arc<Namespaces>,
    serial: u64,
    netns_rx: Arc<NetnsRx>,
}

impl Sockets {
    /// Returns the counters of unmatched packets of the namespace.
    pub(crate) fn unmatched(&self) -> &Counters {
        self.netns_rx.unmatched()
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.namespaces.close(self.serial);
    }
}
