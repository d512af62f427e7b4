// SPDX-License-Identifier: GPL-2.0

//! The parts of the network stack that a provider needs.

pub mod netdev;
