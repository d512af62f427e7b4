// SPDX-License-Identifier: GPL-2.0

//! One `ib_device`, and the state that all devices of the module share.
//!
//! May use: everything but `verbs`.

pub(crate) mod ferroce;
pub(crate) mod module_state;
