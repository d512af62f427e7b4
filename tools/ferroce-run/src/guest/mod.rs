// SPDX-License-Identifier: GPL-2.0

//! The first process of a machine, and what else runs there.

pub mod exec;
pub mod init;
pub mod on;

mod agent;
mod capture;
mod command;
mod console;
mod files;
mod netlink;
mod network;
mod reaper;
mod traffic;
