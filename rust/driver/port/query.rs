// SPDX-License-Identifier: GPL-2.0

//! What a port reports about itself.
//!
//! Owns the answer to `query_port`, and when the netdev is asked for its speed. The rest is as it is at the time.

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

/// Connections can be managed over the port (`IB_PORT_CM_SUP`).
const PORT_CM: u32 = 1 << 16;

impl Port {
    /// What `query_port` reports.
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
            port_cap_flags: PORT_CM,
            max_msg_sz: MAX_MESSAGE_BYTES,
            bad_pkey_cntr: self.violations(DropReason::BadPkey),
            qkey_viol_cntr: self.violations(DropReason::BadQkey),
            active_width,
            active_speed: u16::from_be_bytes(speed),
        }
    }

    /// Asks for speed and width, at most once without a link and once with one. Takes the RTNL lock.
    pub(crate) fn refresh_rate(&self) {
        let up = self
            .netdev(&rcu::read_lock())
            .is_some_and(|netdev| is_up(netdev));
        let rate = self.rate.load(Relaxed);
        if rate == UNKNOWN_RATE || (up && !was_up(rate)) {
            let rate = packed(self.ib.ethernet_speed().unwrap_or_default(), up);
            self.rate.store(rate, Relaxed);
        }
    }

    /// How many packets were dropped for that reason, as far as a port's counter goes (IBA 14.2.5.6: 16
    /// bits).
    fn violations(&self, reason: DropReason) -> u32 {
        let dropped = self.counters().dropped_for(reason);
        u16::try_from(dropped).unwrap_or(u16::MAX).into()
    }
}

/// A rate in one word that is not [`UNKNOWN_RATE`], and whether there was a link when it was asked for: what has none
/// has no speed.
fn packed((speed, width): (u16, u8), up: bool) -> u32 {
    let [high, low] = speed.to_be_bytes();
    u32::from_be_bytes([1 + u8::from(up), width, high, low])
}

/// Whether there was a link when this rate was asked for.
fn was_up(rate: u32) -> bool {
    rate.to_be_bytes().first() == Some(&2)
}

/// Whether packets can be sent and received.
pub(crate) fn is_up(netdev: &NetDevBorrow) -> bool {
    netdev.is_running() && netdev.has_carrier()
}
