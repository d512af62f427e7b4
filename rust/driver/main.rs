// SPDX-License-Identifier: GPL-2.0

//! ferroce: an RDMA provider that speaks RoCEv2 over any netdev.
//!
//! The module's beginning and end. What happens in between starts in `verbs` for a consumer, in
//! `demux` for a packet, and in `device` for an event of the netdev.
//!
//! Modules are listed bottom up: each imports only those above it.

#![crate_name = "ferroce"]
#![deny(unsafe_code)]

mod abi;
mod device;
mod limits;
mod mem;
mod net;
mod packet;
mod port;
mod qp;
mod queue;
mod verbs;

use crate::device::{
    ferroce::Ferroce,
    module_state::ModuleState, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::link::Registration,
    net::{
        netns::NamespaceHook,
        notifier::Notifier, //
    }, //
};

module! {
    type: FerroceModule,
    name: "ferroce",
    authors: ["ferroce developers"],
    description: "RoCEv2 provider in software",
    license: "GPL",
    alias: ["rdma-link-ferroce"],
    imports_ns: ["DMA_BUF"],
    params: {
        local_path: u8 {
            default: 1,
            description: "Hand packets to peers on the same machine without a network (1: yes, 0: no)",
        },
        verify_icrc: u8 {
            default: 0,
            description: "Check the ICRC of packets that never left this machine, too (1: yes, 0: no)",
        },
    },
}

/// The loaded module. Fields drop in this order: first nobody can add a device, then the devices
/// go, then what they react to (`_namespaces` waits for whoever reads in sysfs of a namespace that ends, too); then
/// what is still on its way has to come to rest.
struct FerroceModule {
    _link: Registration<Ferroce>,
    _events: Notifier<ModuleState>,
    _namespaces: NamespaceHook<ModuleState>,
    _rest: Rest,
}

impl kernel::Module for FerroceModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        packet::rx_parse::verify_always(module_parameters::verify_icrc.value() != 0);
        let shared = ModuleState::new(module_parameters::local_path.value() != 0)?;
        Ok(Self {
            _rest: Rest(shared.clone()),
            _namespaces: NamespaceHook::new(shared.clone())?,
            _events: Notifier::new(shared.clone())?,
            _link: Registration::new(module, shared)?,
        })
    }
}

/// Dropped last: waits until the last queue pair is gone.
struct Rest(Arc<ModuleState>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.qps().wait();
    }
}
