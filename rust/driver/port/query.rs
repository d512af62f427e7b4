// SPDX-License-Identifier: GPL-2.0

//! `query_port`: the port attributes.
//!
//! [`Port::attributes`] reads them under RCU and does not sleep. Only the speed is cached: [`Port::refresh_rate`] reads
//! it, in process context under the RTNL lock.

use crate::{
    limits::{
        MAX_GIDS,
        MAX_MESSAGE_BYTES, //
    },
    port::state::{
        Port,
        UNKNOWN_RATE, //
    }, //
};
use kernel::sync::{
    atomic::Relaxed,
    rcu, //
};
use rdma::{
    ib::attr::{
        PhysState,
        PortAttr,
        PortState, //
    },
    net::netdev::NetDevBorrow, //
};
use roce::{
    segmentation::mtu::Mtu,
    status::DropReason, //
};

/// The port supports connection management (`IB_PORT_CM_SUP`).
const PORT_CM_SUP: u32 = 1 << 16;

/// Speed and width that a port without a link reports: 100 Gbit/s, four lanes of 25 (`IB_SPEED_EDR`, `IB_WIDTH_4X`).
/// Libraries select protocols by it; see decisions-memory.rst.
const VIRTUAL_RATE: (u16, u8) = (32, 2);

impl Port {
    /// Returns the attributes that `query_port` reports.
    pub(crate) fn attributes(&self) -> PortAttr {
        let guard = rcu::read_lock();
        let netdev = self.netdev(&guard);
        let (state, phys_state) = match netdev {
            Some(netdev) if is_up(netdev) => (PortState::Active, PhysState::LinkUp),
            Some(netdev) if netdev.is_running() => (PortState::Down, PhysState::Polling),
            _ => (PortState::Down, PhysState::Disabled),
        };
        let [_, active_width, speed @ ..] = self.rate.load(Relaxed).to_be_bytes();
        PortAttr {
            state,
            phys_state,
            max_mtu: Mtu::Mtu4096.code(),
            active_mtu: self.active_mtu().code(),
            gid_tbl_len: MAX_GIDS,
            pkey_tbl_len: 1,
            port_cap_flags: PORT_CM_SUP,
            max_msg_sz: MAX_MESSAGE_BYTES,
            bad_pkey_cntr: self.violations(DropReason::BadPkey),
            qkey_viol_cntr: self.violations(DropReason::BadQkey),
            active_width,
            active_speed: u16::from_be_bytes(speed),
        }
    }

    /// Reads speed and width from the netdev, at most once without a link and once with one. Takes the RTNL lock.
    pub(crate) fn refresh_rate(&self) {
        let (up, is_virtual) = self
            .netdev(&rcu::read_lock())
            .map_or((false, false), |netdev| {
                (is_up(netdev), netdev.is_virtual())
            });
        let rate = self.rate.load(Relaxed);
        if rate == UNKNOWN_RATE || (up && !had_link(rate)) {
            let speed_and_width = match is_virtual {
                true => VIRTUAL_RATE,
                false => self.ib.ethernet_speed().unwrap_or_default(),
            };
            self.rate.store(pack_rate(speed_and_width, up), Relaxed);
        }
    }

    /// Returns the rate in Mbit/s; that of a virtual port if it is not known.
    pub(crate) fn rate_mbit_s(&self) -> u32 {
        let [_, width, speed @ ..] = self.rate.load(Relaxed).to_be_bytes();
        let (speed, width) = match (u16::from_be_bytes(speed), width) {
            (0, _) | (_, 0) => VIRTUAL_RATE,
            known => known,
        };
        lane_mbit_s(speed).saturating_mul(lanes(width))
    }

    /// Returns the number of packets dropped for `reason`, limited to the 16 bits of a port counter (IBA 14.2.5.6).
    fn violations(&self, reason: DropReason) -> u32 {
        let dropped = self.counters().dropped_for(reason);
        u16::try_from(dropped).unwrap_or(u16::MAX).into()
    }
}

/// Returns the rate of one lane with this speed (`enum ib_port_speed`), in Mbit/s.
const fn lane_mbit_s(speed: u16) -> u32 {
    match speed {
        1 => 2_500,
        2 => 5_000,
        4 => 10_000,
        8 => 10_312,
        16 => 14_062,
        32 => 25_781,
        64 => 53_125,
        128 => 106_250,
        _ => 212_500,
    }
}

/// Returns the number of lanes of this width (`enum ib_port_width`).
const fn lanes(width: u8) -> u32 {
    match width {
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 1,
    }
}

/// Packs a rate and whether the netdev had a link into one word that differs from [`UNKNOWN_RATE`]. A netdev without
/// a link has no speed.
fn pack_rate((speed, width): (u16, u8), up: bool) -> u32 {
    let [high, low] = speed.to_be_bytes();
    u32::from_be_bytes([1 + u8::from(up), width, high, low])
}

/// Returns whether the netdev had a link when this rate was read.
fn had_link(rate: u32) -> bool {
    rate.to_be_bytes().first() == Some(&2)
}

/// Returns whether the netdev can send and receive packets.
pub(crate) fn is_up(netdev: &NetDevBorrow) -> bool {
    netdev.is_running() && netdev.has_carrier()
}
