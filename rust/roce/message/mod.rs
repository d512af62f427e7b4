// SPDX-License-Identifier: GPL-2.0

//! Messages of the connected services, whatever the service does about loss: `assembly` of received SENDs and RDMA
//! WRITEs, the packets of a `request`, and what is known of one that has [`retired`]. [`connection`] has what all
//! packets of a QP share.

pub(crate) mod assembly;
pub mod connection;
pub(crate) mod request;
pub mod retired;
