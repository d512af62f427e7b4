// SPDX-License-Identifier: GPL-2.0

//! What is known of devices whose interface moves to another network namespace.
//!
//! The core cannot move a registered device there with its sockets and connections: the programs that use it must let
//! go. So the device is unregistered when its interface leaves, and one of the same name and GUID is registered when
//! the interface has arrived ([`arrival`](super::arrival)). Both events come under one RTNL lock.

use crate::device::kind::Kind;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc,
        Mutex, //
    },
    workqueue::Queue, //
};
use rdma::{
    ib_device::IbDevice,
    net::netdev::{
        NetDevBorrow,
        NetDevId, //
    },
    sync::workqueue::Workqueue, //
};

/// Devices that follow their interfaces.
#[pin_data]
pub(crate) struct Moves {
    #[pin]
    state: Mutex<MoveState>,
    /// Held while a device is registered anew, so that two moves of one interface do not compete for the name.
    #[pin]
    turn: Mutex<()>,
}

struct MoveState {
    /// The device whose interface is under way, and the interface.
    leaving: Option<(Moved, NetDevId)>,
    /// Runs the work items. `None`: the module is being unloaded.
    queue: Option<Workqueue>,
}

/// What a device takes along.
pub(super) struct Moved {
    /// The device that is being unregistered, for its name.
    pub(super) old: ARef<IbDevice>,
    pub(super) kind: &'static Kind,
    pub(super) guid: [u8; 8],
    /// The number of the namespace that it leaves.
    pub(super) from: u32,
}

impl Moves {
    /// Creates the state without devices that move.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let state = MoveState {
            leaving: None,
            queue: Some(Workqueue::new(c"ferroce_moves")?),
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(state, "ferroce::Moves::state"),
                turn <- new_mutex!((), "ferroce::Moves::turn"),
            }),
            GFP_KERNEL,
        )
    }

    /// Notes that a device leaves its namespace with `interface`. Under RTNL.
    pub(super) fn leaves(&self, device: Moved, interface: &NetDevBorrow) {
        self.state.lock().leaving = Some((device, interface.id()));
    }

    /// Calls `f` with the device that has left with `interface`, if there is one, and with the queue for work items.
    /// Under RTNL.
    pub(super) fn arrives(&self, interface: &NetDevBorrow, f: impl FnOnce(Moved, &Queue)) {
        let mut state = self.state.lock();
        let leaving = state.leaving.take_if(|(_, id)| *id == interface.id());
        if let (Some((device, _)), Some(queue)) = (leaving, &state.queue) {
            f(device, queue);
        }
    }

    /// Waits until no other device is registered anew.
    pub(super) fn turn(&self) -> Guard<'_, (), MutexBackend> {
        self.turn.lock()
    }

    /// Stops all moves, and waits for those in progress. Sleeps.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        let (leaving, queue) = (state.leaving.take(), state.queue.take());
        drop(state);
        drop((leaving, queue));
    }
}
