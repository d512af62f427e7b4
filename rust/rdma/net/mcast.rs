// SPDX-License-Identifier: GPL-2.0

//! Multicast group membership of a netdev.
//!
//! C counts how often a netdev was joined to a group. While it is joined, it reports the group to routers,
//! accepts the group's Ethernet address, and delivers the packets to IP.
//!
//! The count belongs to the netdev's IPv4 or IPv6 device. C destroys that device, with its groups, when the
//! MTU becomes too small for the IP version, and later creates a new one without groups. It does not restore
//! them, and it attributes a leave of any caller to the new device's own joins. So a [`Membership`] remembers
//! which device it joined.
//!
//! C headers: [`include/linux/igmp.h`](srctree/include/linux/igmp.h),
//! [`include/net/addrconf.h`](srctree/include/net/addrconf.h)

use crate::{
    bindings,
    errno::EADDRNOTAVAIL,
    net::{
        netdev::NetDevBorrow,
        route::v4_of,
        rtnl::Rtnl, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// Membership in an IPv6 group, or in an IPv4 group as an IPv4-mapped IPv6 address.
///
/// Must be left before it is dropped, or the netdev stays in the group; and before the netdev is
/// unregistered, because it keeps a reference.
#[pin_data]
pub struct Membership {
    group: [u8; 16],
    /// The device that was joined. Changes under the RTNL lock.
    #[pin]
    joined: Mutex<Option<IpDev>>,
}

impl Membership {
    /// Creates a membership in `group` that is not joined yet.
    pub fn new(group: [u8; 16]) -> impl PinInit<Self> {
        pin_init!(Self {
            group,
            joined <- new_mutex!(None, "rdma::Membership"),
        })
    }

    /// Returns the group.
    pub fn group(&self) -> &[u8; 16] {
        &self.group
    }

    /// Joins `dev`, which must be the same netdev in all calls, to the group. Takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// - `EADDRNOTAVAIL`: the netdev does not have that IP version, or is being unregistered.
    /// - `ENOMEM`.
    pub fn join(&self, dev: &NetDevBorrow) -> Result {
        self.rejoin(dev, &Rtnl::lock())
    }

    /// Joins the current IP device of `dev`, if it is not the one that was joined.
    ///
    /// # Errors
    ///
    /// As [`Membership::join`]. Nothing is joined then.
    pub fn rejoin(&self, dev: &NetDevBorrow, _rtnl: &Rtnl) -> Result {
        let mut joined = self.joined.lock();
        let ip_dev = IpDev::get(dev, &self.group).filter(|_| dev.is_registered());
        if ip_dev.is_none() || *joined != ip_dev {
            // The previous device has lost its groups.
            *joined = None;
            let ip_dev = ip_dev.ok_or(EADDRNOTAVAIL)?;
            ip_dev.join(dev, &self.group)?;
            *joined = Some(ip_dev);
        }
        Ok(())
    }

    /// Leaves the group; does nothing if the IP device lost its groups. Takes the RTNL lock.
    pub fn leave(&self) {
        self.leave_locked(&Rtnl::lock());
    }

    /// As [`Membership::leave`], for a caller that holds the RTNL lock.
    pub fn leave_locked(&self, _rtnl: &Rtnl) {
        if let Some(ip_dev) = self.joined.lock().take() {
            ip_dev.leave(&self.group);
        }
    }
}

/// The IPv4 or IPv6 device of a netdev (`struct in_device`, `struct inet6_dev`). It keeps the netdev.
///
/// # Invariants
///
/// The pointer is valid, and a reference is owned.
#[derive(PartialEq)]
enum IpDev {
    V4(NonNull<bindings::in_device>),
    V6(NonNull<bindings::inet6_dev>),
}

// SAFETY: Both structures are reference-counted, and C uses them from any task.
unsafe impl Send for IpDev {}

impl IpDev {
    /// Returns the device of `dev` for the IP version of `group`.
    fn get(dev: &NetDevBorrow, group: &[u8; 16]) -> Option<Self> {
        // INVARIANT: C takes a reference to what it returns.
        if v4_of(group).is_some() {
            // SAFETY: The netdev is valid while it is borrowed.
            let ip_dev = unsafe { bindings::ferroce_helper_in_dev_get(dev.as_raw()) };
            NonNull::new(ip_dev).map(Self::V4)
        } else {
            // SAFETY: The netdev is valid while it is borrowed.
            let ip_dev = unsafe { bindings::ferroce_helper_in6_dev_get(dev.as_raw()) };
            NonNull::new(ip_dev).map(Self::V6)
        }
    }

    /// Joins this device, which belongs to `dev`, to the group. Under the RTNL lock.
    fn join(&self, dev: &NetDevBorrow, group: &[u8; 16]) -> Result {
        if let (Self::V4(ip), Some(group)) = (self, v4_of(group)) {
            let group = u32::from_ne_bytes(group);
            // SAFETY: The device is valid by the type invariant, and the caller holds the RTNL lock.
            return to_result(unsafe { bindings::ferroce_helper_in_dev_join(ip.as_ptr(), group) });
        }
        let group = v6(group);
        // SAFETY: The netdev is valid, `group` outlives the call, and the caller holds the RTNL lock.
        match to_result(unsafe { bindings::ipv6_dev_mc_inc(dev.as_raw(), &group) }) {
            Err(error) if error == ENOMEM => Err(ENOMEM),
            joined => joined.map_err(|_| EADDRNOTAVAIL),
        }
    }

    /// Leaves the group once. Under the RTNL lock.
    fn leave(&self, group: &[u8; 16]) {
        match (self, v4_of(group)) {
            (Self::V4(ip), Some(group)) => {
                let group = u32::from_ne_bytes(group);
                // SAFETY: The device is valid by the type invariant, and the caller holds the RTNL lock. C
                // does nothing if the device has lost its groups.
                unsafe { bindings::__ip_mc_dec_group(ip.as_ptr(), group, bindings::GFP_KERNEL) };
            }
            (Self::V6(ip), _) => {
                // SAFETY: The device is valid by the type invariant, and holds a reference to its netdev.
                let dev = unsafe { NetDevBorrow::from_raw((*ip.as_ptr()).dev) };
                if Self::get(dev, group).as_ref() == Some(self) {
                    let group = v6(group);
                    // SAFETY: The netdev is valid, `group` outlives the call, and the caller holds the RTNL lock. C
                    // fails if the group is not joined.
                    let _ = unsafe { bindings::ipv6_dev_mc_dec(dev.as_raw(), &group) };
                }
            }
            _ => {}
        }
    }
}

impl Drop for IpDev {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pointer is valid and the reference owned; it is released once.
        unsafe {
            match self {
                Self::V4(ip) => bindings::ferroce_helper_in_dev_put(ip.as_ptr()),
                Self::V6(ip) => bindings::ferroce_helper_in6_dev_put(ip.as_ptr()),
            }
        }
    }
}

fn v6(gid: &[u8; 16]) -> bindings::in6_addr {
    let mut address: bindings::in6_addr = pin_init::zeroed();
    address.in6_u.u6_addr8 = *gid;
    address
}
