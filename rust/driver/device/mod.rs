// SPDX-License-Identifier: GPL-2.0

//! One `ib_device`, and the state that all devices of the module share.
//!
//! - [`ferroce`]: a device: creation, capabilities, netdev events.
//! - `impair_file`: the impairments of a device, in debugfs.
//! - [`kind`]: what user space sees of a device: link type, driver id, ABI.
//! - [`module_state`]: demux, sockets, work queues and the live count of the module.
//! - [`moves`], [`arrival`]: devices that follow their interface to another network namespace.
//!
//! May use all folders but `verbs`.

mod arrival;
pub(crate) mod ferroce;
mod impair_file;
pub(crate) mod kind;
pub(crate) mod module_state;
pub(crate) mod moves;
