// SPDX-License-Identifier: GPL-2.0

//! Messages of the connected services, whatever the service does about loss: [`assembly`] of received SENDs and RDMA
//! WRITEs, and the packets of a [`request`]. [`connection`] has what all packets of a QP share.

pub(crate) mod assembly;
pub mod connection;
pub(crate) mod request;
