// SPDX-License-Identifier: GPL-2.0

//! The UDP sockets on port 4791: one pair for each network namespace with a device in it.
//!
//! Owns which namespaces have sockets and how many devices use them. Does not know devices nor
//! packets. Sockets go when the last device of their namespace goes, or with the namespace.

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
    list: Mutex<List>,
}

struct List {
    entries: KVec<NetnsEntry>,
    /// Tells a namespace from one that has its address later.
    next_serial: u64,
}

struct NetnsEntry {
    serial: u64,
    net: NetId,
    users: usize,
    sockets: UdpPort<NetnsRx>,
}

impl Namespaces {
    /// None yet; what arrives goes to `demux`.
    pub(crate) fn new(demux: Arc<Demux>) -> Result<Arc<Self>> {
        let list = List {
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

    /// Opens the sockets of namespace `net`, or joins those who use them.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when somebody else has the port; `ENOMEM`.
    pub(crate) fn open(self: &Arc<Self>, net: &Net) -> Result<Sockets> {
        let mut list = self.list.lock();
        if let Some(entry) = list.entries.iter_mut().find(|entry| entry.net == net.id()) {
            entry.users = entry.users.saturating_add(1);
            return Ok(Sockets {
                namespaces: self.clone(),
                serial: entry.serial,
                inlet: entry.sockets.receiver().clone(),
            });
        }
        let inlet = NetnsRx::new(self.demux.clone())?;
        let sockets = UdpPort::open(net, inlet.clone())?;
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
            inlet,
        })
    }

    /// Closes the sockets of a namespace that is going away, whoever uses them.
    pub(crate) fn gone(&self, net: NetId) {
        self.remove(|entry| entry.net == net);
    }

    fn close(&self, serial: u64) {
        self.remove(|entry| {
            if entry.serial != serial {
                return false;
            }
            entry.users = entry.users.saturating_sub(1);
            entry.users == 0
        });
    }

    /// Takes out the one entry that `which` wants out, and closes its sockets. Under the lock, so
    /// that nobody tries to open others before the port is free.
    fn remove(&self, which: impl FnMut(&mut NetnsEntry) -> bool) {
        let mut list = self.list.lock();
        if let Some(at) = list.entries.iter_mut().position(which) {
            drop(list.entries.remove(at));
        }
    }
}

/// The use of a namespace's sockets by one device.
pub(crate) struct Sockets {
    namespaces: Arc<Namespaces>,
    serial: u64,
    inlet: Arc<NetnsRx>,
}

impl Sockets {
    /// What was counted of packets that came in here and were for no queue pair.
    pub(crate) fn unmatched(&self) -> &Counters {
        self.inlet.unmatched()
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.namespaces.close(self.serial);
    }
}
