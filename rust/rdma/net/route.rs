// SPDX-License-Identifier: GPL-2.0

//! The way to an address.
//!
//! Owns a cached result of a route look-up. Does not know ports or packets. Addresses of this
//! machine are reached through the loopback interface, like those of any other socket.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h),
//! [`include/net/dst.h`](srctree/include/net/dst.h)

use crate::{
    bindings,
    net::netdev::NetDevBorrow, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// What the first 12 bytes of a GID are that holds an IPv4 address.
const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Where a packet comes from and where it goes, in network byte order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Addresses {
    /// Of IPv4.
    V4 {
        /// Source.
        src: [u8; 4],
        /// Destination.
        dst: [u8; 4],
    },
    /// Of IPv6.
    V6 {
        /// Source.
        src: [u8; 16],
        /// Destination.
        dst: [u8; 16],
    },
}

impl Addresses {
    /// The addresses that a source and a destination GID stand for (IBA annex 17, RoCEv2). `None`:
    /// one is of IPv4, the other of IPv6.
    pub fn from_gids(src: &[u8; 16], dst: &[u8; 16]) -> Option<Self> {
        match (v4_of(src), v4_of(dst)) {
            (Some(src), Some(dst)) => Some(Self::V4 { src, dst }),
            (None, None) => Some(Self::V6 {
                src: *src,
                dst: *dst,
            }),
            _ => None,
        }
    }

    /// Source and destination as GIDs.
    pub fn to_gids(&self) -> ([u8; 16], [u8; 16]) {
        match self {
            Self::V4 { src, dst } => (gid_of(*src), gid_of(*dst)),
            Self::V6 { src, dst } => (*src, *dst),
        }
    }

    /// Whether the packet is for a group rather than for one machine.
    pub fn is_multicast(&self) -> bool {
        match self {
            Self::V4 {
                dst: [first, ..], ..
            } => first & 0xf0 == 0xe0,
            Self::V6 {
                dst: [first, ..], ..
            } => *first == 0xff,
        }
    }

    /// The addresses of an answer.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match *self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }
}

/// The IPv4 address that a GID holds, if it holds one.
pub(crate) fn v4_of(gid: &[u8; 16]) -> Option<[u8; 4]> {
    let (prefix, address) = gid.split_last_chunk::<4>()?;
    (*prefix == V4_MAPPED).then_some(*address)
}

fn gid_of([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// A way that packets can go.
///
/// # Invariants
///
/// `dst` is valid, and a reference to it is held. It is of IPv4 if `is_v4`, of IPv6 else.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    cookie: u32,
    is_v4: bool,
}

// SAFETY: A `dst_entry` is used by many tasks.
unsafe impl Send for Route {}
// SAFETY: See `Send`.
unsafe impl Sync for Route {}

impl Route {
    /// Looks the way up that leaves by the interface with index `from` (0: any), in the namespace of `dev`, or
    /// stays on this machine; through IPsec, if a policy says so. `ports` are source and destination. For any context
    /// but hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENODEV`: that interface is neither `dev` nor on top of it, or has moved to another namespace;
    /// `ENETUNREACH`, `EHOSTUNREACH` and the like.
    pub fn lookup(
        dev: &NetDevBorrow,
        from: i32,
        (addresses, ports): (&Addresses, (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        // SAFETY: The interface is valid.
        if from != 0 && !unsafe { bindings::ferroce_helper_netdev_carries(dev.as_raw(), from) } {
            return Err(ENODEV);
        }
        match addresses {
            Addresses::V4 { src, dst } => {
                Self::lookup_v4(dev, from, (src, dst, ports), traffic_class)
            }
            Addresses::V6 { src, dst } => {
                Self::lookup_v6(dev, from, (src, dst, ports), traffic_class)
            }
        }
    }

    fn lookup_v4(
        dev: &NetDevBorrow,
        from: i32,
        (src, dst, ports): (&[u8; 4], &[u8; 4], (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        let mut flow: bindings::flowi4 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = from;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        flow.__fl_common.flowic_dscp = traffic_class & DSCP;
        flow.saddr = u32::from_ne_bytes(*src);
        flow.daddr = u32::from_ne_bytes(*dst);
        flow.uli = flow_of(ports);
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: RCU keeps the namespace, and the flow is valid for the call.
        let table = from_err_ptr(unsafe {
            bindings::ip_route_output_flow(dev.net_raw(), &mut flow, ptr::null())
        })?;
        // SAFETY: Valid, and not null.
        let dst = unsafe { NonNull::new_unchecked(&raw mut (*table).dst) };
        // INVARIANT: The reference that C returned.
        Ok(Self {
            dst,
            cookie: 0,
            is_v4: true,
        })
    }

    fn lookup_v6(
        dev: &NetDevBorrow,
        from: i32,
        (src, dst, ports): (&[u8; 16], &[u8; 16], (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        let mut flow: bindings::flowi6 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = from;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        flow.flowlabel = (u32::from(traffic_class) << TRAFFIC_CLASS_SHIFT).to_be();
        flow.saddr.in6_u.u6_addr8 = *src;
        flow.daddr.in6_u.u6_addr8 = *dst;
        flow.uli = flow_of(ports);
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: RCU keeps the namespace, and the flow is valid for the call.
        let dst = from_err_ptr(unsafe {
            bindings::ip6_dst_lookup_flow(dev.net_raw(), ptr::null(), &mut flow, ptr::null())
        })?;
        let dst = NonNull::new(dst).ok_or(ENETUNREACH)?;
        // SAFETY: Valid; a route of IPv6, or what IPsec has put before one, which begins like one.
        let cookie = unsafe { bindings::ferroce_helper_rt6_get_cookie(dst.as_ptr()) };
        // INVARIANT: The reference that C returned.
        Ok(Self {
            dst,
            cookie,
            is_v4: false,
        })
    }

    /// Whether the way is still the one that a look-up would find. Cheap.
    #[inline]
    pub fn is_valid(&self) -> bool {
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: Valid, by the invariant.
        let dst = unsafe { bindings::ferroce_helper_dst_check(self.as_raw(), self.cookie) };
        !dst.is_null()
    }

    /// Whether it ends on this machine, in the namespace that it began in.
    #[inline]
    pub fn is_local(&self) -> bool {
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: Valid, by the invariant. RCU keeps the interface.
        unsafe { bindings::ferroce_helper_dst_is_local(self.as_raw()) }
    }

    /// Whether the network puts headers in front of packets on this way (`ip route add ... encap`).
    pub(crate) fn encapsulates(&self) -> bool {
        // SAFETY: Valid, by the invariant.
        unsafe { bindings::ferroce_helper_dst_encapsulates(self.as_raw()) }
    }

    /// Most bytes of a network-layer packet on this way.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Valid, by the invariant.
        unsafe { bindings::ferroce_helper_dst_mtu(self.as_raw()) }
    }

    /// Whether packets of IPv4 go this way, rather than of IPv6.
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::dst_entry {
        self.dst.as_ptr()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariant.
        unsafe { bindings::dst_release(self.as_raw()) };
    }
}

/// UDP ports, as a flow has them.
fn flow_of((source, destination): (u16, u16)) -> bindings::flowi_uli {
    bindings::flowi_uli {
        ports: bindings::flowi_uli__bindgen_ty_1 {
            dport: destination.to_be(),
            sport: source.to_be(),
        },
    }
}

/// The bits of the traffic class that choose a route; the others are for congestion.
const DSCP: u8 = 0xfc;

/// Where the traffic class begins in the first word of an IPv6 header.
const TRAFFIC_CLASS_SHIFT: u32 = 20;
