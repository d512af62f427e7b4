// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that an interface takes packets of.
//!
//! Owns joining and leaving. An interface counts how often it was joined to a group; it tells the
//! routers, has the packets pass its filter of Ethernet addresses, and hands them up to IP. Does not
//! know who gets them there.
//!
//! C headers: [`include/linux/igmp.h`](srctree/include/linux/igmp.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use crate::{
    bindings,
    net::{
        netdev::NetDevBorrow,
        route::v4_of,
        rtnl::Rtnl, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Joins `dev` to the group that `gid` stands for, an IPv6 group or an IPv4 group mapped into IPv6.
/// [`leave`] has to follow, unless the interface goes first. Takes the RTNL lock.
///
/// # Errors
///
/// `EADDRNOTAVAIL` if the interface does not speak that version of IP, or no longer; `ENOMEM`.
pub fn join(dev: &NetDevBorrow, gid: &[u8; 16]) -> Result {
    let _rtnl = Rtnl::lock();
    if !dev.is_registered() {
        return Err(EADDRNOTAVAIL);
    }
    if let Some(group) = v4_of(gid) {
        // SAFETY: The interface is valid, and RTNL is locked.
        let ip = unsafe { bindings::ferroce_helper___in_dev_get_rtnl(dev.as_raw()) };
        if ip.is_null() {
            return Err(EADDRNOTAVAIL);
        }
        // SAFETY: RTNL keeps what was just found.
        unsafe { bindings::ip_mc_inc_group(ip, u32::from_ne_bytes(group)) };
        return Ok(());
    }
    let group = v6(gid);
    // SAFETY: The interface is valid, and the address outlives the call.
    match to_result(unsafe { bindings::ipv6_dev_mc_inc(dev.as_raw(), &group) }) {
        Err(error) if error == ENOMEM => Err(ENOMEM),
        joined => joined.map_err(|_| EADDRNOTAVAIL),
    }
}

/// Takes one [`join`] back. An interface that has lost its groups on its way out is left alone. Takes
/// the RTNL lock.
pub fn leave(dev: &NetDevBorrow, gid: &[u8; 16]) {
    let _rtnl = Rtnl::lock();
    if let Some(group) = v4_of(gid) {
        // SAFETY: The interface is valid, and RTNL is locked, and keeps what is found.
        unsafe {
            let ip = bindings::ferroce_helper___in_dev_get_rtnl(dev.as_raw());
            if !ip.is_null() {
                bindings::__ip_mc_dec_group(ip, u32::from_ne_bytes(group), bindings::GFP_KERNEL);
            }
        }
        return;
    }
    let group = v6(gid);
    // SAFETY: The interface is valid, and the address outlives the call. Fails if it is not joined.
    let _ = unsafe { bindings::ipv6_dev_mc_dec(dev.as_raw(), &group) };
}

fn v6(gid: &[u8; 16]) -> bindings::in6_addr {
    let mut address: bindings::in6_addr = pin_init::zeroed();
    address.in6_u.u6_addr8 = *gid;
    address
}
