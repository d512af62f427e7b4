// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the send engine, the receive engine, and the code that runs them.
//!
//! - [`any_qp`]: the closed list of services. [`queue_pair`]: a QP of any service, and which context runs its engines.
//! - `engine`: what the services implement, and what all engines have. `poll`: one run. `run`: what a run works with.
//!   `rx`, `tx`: packets received and sent. `early`: packets that are kept. `actions`: side effects of a run. `wakes`:
//!   when engines run without an event. [`shared`]: state that both engines use.
//! - `recv_context`: callbacks of a message receiver. `gate`: whether an engine may send. `congestion`: CNPs.
//! - `modify`: `modify_qp`. `comp_cntr`: attaching completion counters. [`post`]: posting by ULPs.
//! - [`rc`], [`uc`], [`ud`], [`xrc`]: the services.
//!
//! May use `limits`, `abi`, `mem`, `queue`, `port` and `packet`.

mod actions;
pub(crate) mod any_qp;
mod comp_cntr;
mod congestion;
mod engine;
mod gate;
mod modify;
mod out_of_order;
mod poll;
pub(crate) mod post;
pub(crate) mod queue_pair;
pub(crate) mod rc;
mod recv_context;
mod run;
mod rx;
pub(crate) mod shared;
mod tx;
pub(crate) mod uc;
pub(crate) mod ud;
mod wakes;
pub(crate) mod xrc;
