// SPDX-License-Identifier: GPL-2.0

//! ferroce: an RDMA provider that speaks RoCEv2 over any netdev.
//!
//! Module load and unload. A consumer's calls enter in `verbs`, packets in `net::demux`, and netdev events in `device`.
//!
//! Folders, bottom up; each uses only those before it (checked by `scripts/checks/check-layers.py`):
//!
//! - `limits`: every limit of a device;
//! - `abi`: the entries of the queues that user space maps;
//! - `mem`: memory regions, memory windows, keys, and access to the bytes behind them;
//! - `queue`: SQ, RQ, SRQ, CQ;
//! - `port`: what the queue pairs of a device share: counters, address handles, work queues;
//! - `packet`: one packet, received or sent;
//! - `qp`: the queue pair and its services RC, UC and UD;
//! - `net`: from a socket to a queue pair;
//! - `device`: one `ib_device`, and the state of the module;
//! - `verbs`: the operations that the core calls.

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

use crate::{
    device::{
        ferroce::Ferroce,
        module_state::ModuleState, //
    },
    packet::roce_splitter::RoceSplitter,
    port::{
        congestion::CongestionSettings,
        state::PortSettings, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    ib::link::{
        Registration,
        TakenType, //
    },
    net::{
        hook::split_offload::SplitOffload,
        netns::NamespaceHook,
        notifier::Notifier, //
    },
    param::Value,
    util::exclusion::ModuleExclusion, //
};
use roce::time::Duration;

module! {
    type: FerroceModule,
    name: "ferroce",
    authors: ["ferroce developers"],
    description: "RoCEv2 provider in software",
    license: "GPL",
    alias: ["rdma-link-ferroce", "rdma-link-ferroce_direct"],
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
        as_rxe: u8 {
            default: 0,
            description: "Take the place of rdma_rxe, with its link type rxe; it cannot be loaded then (1: yes, 0: no)",
        },
        dcqcn: u8 {
            default: 1,
            description: "DCQCN: send ECN-capable packets, answer marks with CNPs, slow down on CNPs (1: yes, 0: no)",
        },
        dcqcn_min_rate: u32 {
            default: 10,
            description: "DCQCN: the lowest rate of a queue pair, in Mbit/s",
        },
        dcqcn_ai_rate: u32 {
            default: 5,
            description: "DCQCN: growth of the rate in a step of additive increase, in Mbit/s",
        },
        dcqcn_hai_rate: u32 {
            default: 50,
            description: "DCQCN: growth of the rate in a step of hyper increase, in Mbit/s",
        },
        dcqcn_step_us: u32 {
            default: 300,
            description: "DCQCN: time between two steps, in microseconds",
        },
        dcqcn_step_bytes: u32 {
            default: 32768,
            description: "DCQCN: bytes between two steps",
        },
        cnp_interval_us: u32 {
            default: 50,
            description: "DCQCN: shortest time between two CNPs of a queue pair, in microseconds",
        },
        cnp_dscp: u8 {
            default: 48,
            description: "DCQCN: DSCP of CNPs, 0 to 63",
        },
        reorder_us: u32 {
            default: 0,
            description: "Microseconds that RC packets wait for earlier ones, which then count as lost (0: none)",
        },
    },
}

/// The loaded module. Fields drop in this order: `_moves` waits for devices that are created anew; `_link` refuses new
/// devices and unregisters those that exist; then the notifiers of netdevs and namespaces go (`_namespaces` also waits
/// for sysfs readers of a namespace that ends); `_rest` waits for what is still in flight. `_splitter` goes last, as
/// the stack may still have super-packets to split.
struct FerroceModule {
    _moves: MovesUntilUnload,
    _link: Registration<Ferroce>,
    _events: Notifier<ModuleState>,
    _namespaces: NamespaceHook<ModuleState>,
    _rest: Rest,
    _splitter: SplitOffload<RoceSplitter>,
}

impl kernel::Module for FerroceModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let taken = if module_parameters::as_rxe.value().into_bool() {
            Some(take_rxe(module)?)
        } else {
            None
        };
        let shared = ModuleState::new(PortSettings {
            uses_loopback: module_parameters::local_path.value().into_bool(),
            verifies_every_icrc: module_parameters::verify_icrc.value().into_bool(),
            congestion: congestion_settings(),
            reorder_wait: Duration::from_micros(module_parameters::reorder_us.value().get().into()),
        })?;
        Ok(Self {
            _splitter: SplitOffload::register()?,
            _rest: Rest(shared.clone()),
            _namespaces: NamespaceHook::new(shared.clone())?,
            _events: Notifier::new(shared.clone())?,
            _moves: MovesUntilUnload(shared.clone()),
            _link: Registration::new(module, shared, taken)?,
        })
    }
}

/// Returns the parameters of congestion control.
fn congestion_settings() -> CongestionSettings {
    use module_parameters as given;
    CongestionSettings {
        dcqcn: given::dcqcn.value().into_bool(),
        rates_mbit_s: [
            given::dcqcn_min_rate.value().get(),
            given::dcqcn_ai_rate.value().get(),
            given::dcqcn_hai_rate.value().get(),
        ],
        step_us: given::dcqcn_step_us.value().get(),
        step_bytes: given::dcqcn_step_bytes.value().get(),
        cnp_interval_us: given::cnp_interval_us.value().get(),
        cnp_dscp: given::cnp_dscp.value().get(),
    }
}

/// Takes the link type of rdma_rxe. A second driver of that type would share neither it nor the devices: scripts would
/// get those of the driver that came first.
///
/// # Errors
///
/// `EBUSY` if rdma_rxe is loaded or part of the kernel; `ENOMEM`.
fn take_rxe(module: &'static ThisModule) -> Result<TakenType> {
    if cfg!(CONFIG_RDMA_RXE = "y") {
        pr_err!("as_rxe=1 is refused: rdma_rxe is part of this kernel\n");
        return Err(EBUSY);
    }
    let refusal = "rdma_rxe is refused: ferroce has its link type (as_rxe=1); unload ferroce first";
    let owner = ModuleExclusion::new(module, c"rdma_rxe", refusal).inspect_err(|error| {
        if *error == EBUSY {
            pr_err!("as_rxe=1 is refused: rdma_rxe is loaded; unload it first\n");
        }
    })?;
    Ok(TakenType::new(c"rxe", owner))
}

/// Stops the moves of devices when dropped.
struct MovesUntilUnload(Arc<ModuleState>);

impl Drop for MovesUntilUnload {
    fn drop(&mut self) {
        self.0.moves().stop();
    }
}

/// Waits, when dropped, until the last queue pair is freed.
struct Rest(Arc<ModuleState>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.qps().wait();
    }
}
