// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that an interface takes packets of.
//!
//! Owns joining and leaving. An interface counts how often it was joined to a group; it tells the
//! routers, has the packets pass its filter of Ethernet addresses, and hands them up to IP. Does not
//! know who gets them there.
//!
//! What counts is the interface's part of a version of IP. It goes when the MTU becomes too small for that
//! version, and its groups with it; the next one begins without. The kernel does not join it to the groups of
//! the last one, and takes a leave of any caller for one of its own.
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
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// A place in a group, an IPv6 group or an IPv4 group mapped into IPv6.
///
/// Before it goes it has to be left, or the interface stays in the group; and before the interface can go.
#[pin_data]
pub struct Membership {
    group: [u8; 16],
    /// What was joined. Changes under the RTNL lock.
    #[pin]
    joined: Mutex<Option<Part>>,
}

impl Membership {
    /// In `group`, not joined yet.
    pub fn new(group: [u8; 16]) -> impl PinInit<Self> {
        pin_init!(Self {
            group,
            joined <- new_mutex!(None, "rdma::Membership"),
        })
    }

    /// Which group it is.
    pub fn group(&self) -> &[u8; 16] {
        &self.group
    }

    /// Joins `dev` to the group; it is always the same interface. Takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if the interface does not speak that version of IP, or no longer; `ENOMEM`.
    pub fn join(&self, dev: &NetDevBorrow) -> Result {
        self.renew(dev, &Rtnl::lock())
    }

    /// Joins again what `dev` has now, if that is not what was joined.
    ///
    /// # Errors
    ///
    /// As [`Membership::join`]. Nothing is joined then.
    pub fn renew(&self, dev: &NetDevBorrow, _rtnl: &Rtnl) -> Result {
        let mut joined = self.joined.lock();
        let part = Part::of(dev, &self.group).filter(|_| dev.is_registered());
        if part.is_none() || *joined != part {
            // That has lost its groups.
            *joined = None;
            let part = part.ok_or(EADDRNOTAVAIL)?;
            part.join(dev, &self.group)?;
            *joined = Some(part);
        }
        Ok(())
    }

    /// Takes that back; what has lost its groups is left alone. Takes the RTNL lock.
    pub fn leave(&self) {
        self.give_up(&Rtnl::lock());
    }

    /// As [`Membership::leave`], for an interface that goes.
    pub fn give_up(&self, _rtnl: &Rtnl) {
        if let Some(part) = self.joined.lock().take() {
            part.leave(&self.group);
        }
    }
}

/// What an interface has for a version of IP (`struct in_device`, `struct inet6_dev`). Keeps the interface.
///
/// # Invariants
///
/// Valid, with a reference that is ours.
#[derive(PartialEq)]
enum Part {
    V4(NonNull<bindings::in_device>),
    V6(NonNull<bindings::inet6_dev>),
}

// SAFETY: Both are counted and used by many tasks.
unsafe impl Send for Part {}

impl Part {
    /// What `dev` has for the version of IP of `group`.
    fn of(dev: &NetDevBorrow, group: &[u8; 16]) -> Option<Self> {
        // INVARIANT: C takes a reference to what it returns.
        if v4_of(group).is_some() {
            // SAFETY: The interface is valid.
            let part = unsafe { bindings::ferroce_helper_in_dev_get(dev.as_raw()) };
            NonNull::new(part).map(Self::V4)
        } else {
            // SAFETY: As above.
            let part = unsafe { bindings::ferroce_helper_in6_dev_get(dev.as_raw()) };
            NonNull::new(part).map(Self::V6)
        }
    }

    /// Joins it, which `dev` has. Under the RTNL lock.
    fn join(&self, dev: &NetDevBorrow, group: &[u8; 16]) -> Result {
        if let (Self::V4(ip), Some(group)) = (self, v4_of(group)) {
            let group = u32::from_ne_bytes(group);
            // SAFETY: Valid, by the invariant, and RTNL is locked.
            return to_result(unsafe { bindings::ferroce_helper_in_dev_join(ip.as_ptr(), group) });
        }
        let group = v6(group);
        // SAFETY: The interface is valid, and the address outlives the call.
        match to_result(unsafe { bindings::ipv6_dev_mc_inc(dev.as_raw(), &group) }) {
            Err(error) if error == ENOMEM => Err(ENOMEM),
            joined => joined.map_err(|_| EADDRNOTAVAIL),
        }
    }

    /// Takes one [`Part::join`] back. Under the RTNL lock.
    fn leave(&self, group: &[u8; 16]) {
        match (self, v4_of(group)) {
            (Self::V4(ip), Some(group)) => {
                let group = u32::from_ne_bytes(group);
                // SAFETY: As in `join`. Does nothing to one that has lost its groups.
                unsafe { bindings::__ip_mc_dec_group(ip.as_ptr(), group, bindings::GFP_KERNEL) };
            }
            (Self::V6(ip), _) => {
                // SAFETY: Valid, by the invariant, and keeps its interface.
                let dev = unsafe { NetDevBorrow::from_raw((*ip.as_ptr()).dev) };
                if Self::of(dev, group).as_ref() == Some(self) {
                    let group = v6(group);
                    // SAFETY: The interface is valid, and the address outlives the call. Fails if it
                    // is not joined.
                    let _ = unsafe { bindings::ipv6_dev_mc_dec(dev.as_raw(), &group) };
                }
            }
            _ => {}
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariant.
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
