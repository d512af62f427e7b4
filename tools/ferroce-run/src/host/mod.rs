// SPDX-License-Identifier: GPL-2.0

//! `ferroce-run`: starts machines and stands between them and its caller.

pub mod engine;
pub mod machine;
pub mod options;
pub mod session;

pub mod doctor;
mod files;
mod hub;
mod job;
mod limits;
mod output;
mod report;
mod stdin;
mod traffic;
