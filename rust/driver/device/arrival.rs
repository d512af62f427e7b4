// SPDX-License-Identifier: GPL-2.0

//! Netdev events, and the arrival of devices that follow their interface to another network namespace.
//!
//! A work item registers the device anew, because that takes RTNL and waits for the core. A namespace that ends takes
//! its devices with it, even if an adapter's interface returns to the first namespace.

use crate::device::{
    ferroce::{
        Ferroce,
        Identity, //
    },
    module_state::ModuleState,
    moves::Moved, //
};
use kernel::{
    impl_has_work,
    new_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use rdma::{
    ib::driver::Driver,
    net::{
        may_log,
        netdev::{
            NetDev,
            NetDevBorrow, //
        },
        notifier::{
            NetdevEvent,
            NetdevEvents, //
        },
        rtnl::Rtnl, //
    },
    sync::workqueue::cond_resched, //
};

/// Attempts to register a device in the namespace where its interface is: it may move again meanwhile.
const MAX_ATTEMPTS: u32 = 100;

impl NetdevEvents for ModuleState {
    fn event(self: &Arc<Self>, event: NetdevEvent, netdev: &NetDevBorrow, rtnl: &Rtnl) {
        if event == NetdevEvent::Register {
            self.moves().arrives(netdev, |device, queue| {
                if let Ok(arrival) = Arrival::new(device, netdev.hold(), self.clone()) {
                    let _ = queue.enqueue(arrival);
                }
            });
        }
        Ferroce::registry().for_each(|device| {
            if device.has_netdev(netdev) {
                Ferroce::on_event(device, event, (netdev, rtnl));
            }
        });
    }
}

/// The work item that registers a device in the namespace where its interface has arrived.
#[pin_data]
struct Arrival {
    device: Moved,
    interface: NetDev,
    shared: Arc<ModuleState>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Arrival { self.work }
}

/// What became of a device.
enum Followed {
    /// It is with its interface now.
    Now,
    /// The interface has moved again, and a device has followed it there, or has been created there.
    Before,
}

impl Arrival {
    fn new(device: Moved, interface: NetDev, shared: Arc<ModuleState>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                device,
                interface,
                shared,
                work <- new_work!("Arrival::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Registers the device anew, where its interface is.
    fn follow(&self) -> Result<Followed> {
        let name = self.device.old.name_to_register()?;
        let identity = Identity {
            kind: self.device.kind,
            name: &name,
            guid: Some(self.device.guid),
        };
        for _ in 0..MAX_ATTEMPTS {
            if Ferroce::is_on(&self.interface) {
                return Ok(Followed::Before);
            }
            match Ferroce::add(self.shared.clone(), identity, self.interface.clone()) {
                Err(error) if error == ENODEV && self.interface.is_registered() => cond_resched(),
                result => return result.map(|()| Followed::Now),
            }
        }
        Err(ENODEV)
    }
}

impl WorkItem for Arrival {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // Before the turn: this may wait long for programs and ULPs, and other devices need not.
        Ferroce::registry().unregister(this.device.old.clone());
        let _turn = this.shared.moves().turn();
        let (name, interface) = (this.device.old.name(), this.interface.name());
        let result = this.follow();
        let (from, to) = (this.device.from, this.interface.net_inode());
        match result {
            Ok(Followed::Now) if may_log() => pr_info!(
                "{}: has followed {} from network namespace {} to {}\n",
                name,
                interface,
                from,
                to
            ),
            Err(error) if may_log() => pr_err!(
                "{}: removed, as it cannot follow {} from network namespace {} to {} ({:?})\n",
                name,
                interface,
                from,
                to,
                error
            ),
            _ => {}
        }
    }
}
