// SPDX-License-Identifier: GPL-2.0

//! What RDMA devices have sent and received.

use serde::{Deserialize, Serialize};

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketCount {
    /// All, those to and from local peers included.
    pub packets: u64,
    /// Their bytes, where the driver counts them.
    pub bytes: Option<u64>,
    /// Messages of the connection manager among them. A program that has only these moves its data another way.
    pub connection: u64,
}

impl PacketCount {
    /// Both together.
    pub fn plus(self, other: PacketCount) -> PacketCount {
        PacketCount {
            packets: self.packets.saturating_add(other.packets),
            bytes: match (self.bytes, other.bytes) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (one, two) => one.or(two),
            },
            connection: self.connection.saturating_add(other.connection),
        }
    }

    /// Packets that are not the connection manager's.
    pub fn data(&self) -> u64 {
        self.packets.saturating_sub(self.connection)
    }
}

/// A device, and all that it has carried under this name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// Its name.
    pub device: String,
    /// What it has sent.
    pub sent: PacketCount,
    /// What it has received.
    pub received: PacketCount,
}
