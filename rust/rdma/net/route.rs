// SPDX-License-Identifier: GPL-2.0

//! Routes: the cached result of a route lookup (`struct dst_entry`).
//!
//! Local addresses are reached by way of the loopback device, as for any socket.
//!
//! C headers: [`include/net/route.h`](srctree/include/net/route.h),
//! [`include/net/ip6_route.h`](srctree/include/net/ip6_route.h),
//! [`include/net/dst.h`](srctree/include/net/dst.h)

use crate::{
    bindings,
    compat::flow::set_dscp,
    errno::{
        EAFNOSUPPORT,
        ENETUNREACH, //
    },
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

/// Prefix of a GID that holds an IPv4 address.
const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Source and destination address of a packet, in network byte order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Addresses {
    /// IPv4 addresses.
    V4 {
        /// Source.
        src: [u8; 4],
        /// Destination.
        dst: [u8; 4],
    },
    /// IPv6 addresses.
    V6 {
        /// Source.
        src: [u8; 16],
        /// Destination.
        dst: [u8; 16],
    },
}

impl Addresses {
    /// Converts a source and a destination GID (IBA annex 17, RoCEv2). `None` if one is IPv4 and the other
    /// IPv6.
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

    /// Returns source and destination as GIDs.
    pub fn to_gids(&self) -> ([u8; 16], [u8; 16]) {
        match self {
            Self::V4 { src, dst } => (gid_of(*src), gid_of(*dst)),
            Self::V6 { src, dst } => (*src, *dst),
        }
    }

    /// Returns whether these are IPv4 addresses.
    #[inline]
    pub const fn is_v4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }

    /// Returns whether the destination is a multicast group.
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

    /// Returns the addresses of a packet in the opposite direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match *self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }
}

/// Returns the IPv4 address of a GID, if it holds one.
pub(crate) fn v4_of(gid: &[u8; 16]) -> Option<[u8; 4]> {
    let (prefix, address) = gid.split_last_chunk::<4>()?;
    (*prefix == V4_MAPPED).then_some(*address)
}

fn gid_of([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// A route that packets can be sent on.
///
/// # Invariants
///
/// `dst` is valid, and a reference to it is owned. It is an IPv4 route if `is_v4`, otherwise an IPv6 route.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    cookie: u32,
    is_v4: bool,
}

// SAFETY: C uses a `dst_entry` from any task.
unsafe impl Send for Route {}
// SAFETY: As for `Send`.
unsafe impl Sync for Route {}

impl Route {
    /// Looks up a route in the namespace of `dev` that leaves by the netdev with index `ifindex` (0: any) or
    /// is local. Applies IPsec policies. `ports` are source and destination. For any context except hard
    /// interrupts.
    ///
    /// # Errors
    ///
    /// - `ENODEV`: the netdev is neither `dev` nor stacked on it, or has moved to another namespace.
    /// - `ENETUNREACH`, `EHOSTUNREACH` and other errors of the lookup.
    pub fn lookup(
        dev: &NetDevBorrow,
        ifindex: i32,
        (addresses, ports): (&Addresses, (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        // SAFETY: The netdev is valid while it is borrowed; C locks RCU itself.
        let carries = || unsafe { bindings::ferroce_helper_netdev_carries(dev.as_raw(), ifindex) };
        if ifindex != 0 && !carries() {
            return Err(ENODEV);
        }
        match addresses {
            Addresses::V4 { src, dst } => {
                Self::lookup_v4(dev, ifindex, (src, dst, ports), traffic_class)
            }
            Addresses::V6 { src, dst } => {
                Self::lookup_v6(dev, ifindex, (src, dst, ports), traffic_class)
            }
        }
    }

    fn lookup_v4(
        dev: &NetDevBorrow,
        ifindex: i32,
        (src, dst, ports): (&[u8; 4], &[u8; 4], (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        let mut flow: bindings::flowi4 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = ifindex;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        set_dscp(&mut flow.__fl_common, traffic_class & DSCP_MASK);
        flow.saddr = u32::from_ne_bytes(*src);
        flow.daddr = u32::from_ne_bytes(*dst);
        flow.uli = flow_of(ports);
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: RCU keeps the namespace of the netdev, and the flow is valid for the call. C accepts no
        // socket.
        let table = from_err_ptr(unsafe {
            bindings::ip_route_output_flow(dev.net_raw(), &mut flow, ptr::null())
        })?;
        // SAFETY: C returned a valid route, which contains its `dst`, so the address is not null.
        let dst = unsafe { NonNull::new_unchecked(&raw mut (*table).dst) };
        // INVARIANT: C returned an owned reference.
        Ok(Self {
            dst,
            cookie: 0,
            is_v4: true,
        })
    }

    fn lookup_v6(
        dev: &NetDevBorrow,
        ifindex: i32,
        (src, dst, ports): (&[u8; 16], &[u8; 16], (u16, u16)),
        traffic_class: u8,
    ) -> Result<Self> {
        // Before 7.0 C looks routes up in tables that a kernel with `ipv6.disable=1` does not have.
        // SAFETY: The function has no preconditions.
        if !unsafe { bindings::ferroce_helper_ipv6_mod_enabled() } {
            return Err(EAFNOSUPPORT);
        }
        let mut flow: bindings::flowi6 = pin_init::zeroed();
        flow.__fl_common.flowic_oif = ifindex;
        flow.__fl_common.flowic_proto = bindings::IPPROTO_UDP as u8;
        flow.flowlabel = (u32::from(traffic_class) << TRAFFIC_CLASS_SHIFT).to_be();
        flow.saddr.in6_u.u6_addr8 = *src;
        flow.daddr.in6_u.u6_addr8 = *dst;
        flow.uli = flow_of(ports);
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: RCU keeps the namespace of the netdev, and the flow is valid for the call. C accepts no
        // socket and no fixed destination.
        let dst = from_err_ptr(unsafe {
            bindings::ip6_dst_lookup_flow(dev.net_raw(), ptr::null(), &mut flow, ptr::null())
        })?;
        let dst = NonNull::new(dst).ok_or(ENETUNREACH)?;
        // SAFETY: `dst` is valid. It is a `rt6_info`, or an `xfrm_dst`, which begins with one.
        let cookie = unsafe { bindings::ferroce_helper_rt6_get_cookie(dst.as_ptr()) };
        // INVARIANT: C returned an owned reference.
        Ok(Self {
            dst,
            cookie,
            is_v4: false,
        })
    }

    /// Returns whether a new lookup would find the same route. Cheap.
    #[inline]
    pub fn is_valid(&self) -> bool {
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: `dst` is valid by the type invariant, and RCU is locked.
        let dst = unsafe { bindings::ferroce_helper_dst_check(self.as_raw(), self.cookie) };
        !dst.is_null()
    }

    /// Returns whether the route is local, in its own namespace.
    #[inline]
    pub fn is_local(&self) -> bool {
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: `dst` is valid by the type invariant, and RCU keeps its netdev.
        unsafe { bindings::ferroce_helper_dst_is_local(self.as_raw()) }
    }

    /// Returns whether super-packets with packets of at most `packet_len` bytes, from the IP header on, may be sent on
    /// the route. Not if the route transforms or encapsulates packets, nor on a local one. With `unsplit`, only if the
    /// netdev takes them unsplit.
    #[inline]
    pub fn takes_super_packets(&self, packet_len: u32, unsplit: bool) -> bool {
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: `dst` is valid by the type invariant, and RCU keeps its netdev.
        let suitable =
            unsafe { bindings::ferroce_helper_dst_takes_super_packets(self.as_raw(), unsplit) };
        suitable && packet_len <= self.mtu()
    }

    /// Returns the MTU of the route.
    fn mtu(&self) -> u32 {
        // SAFETY: `dst` is valid by the type invariant.
        unsafe { bindings::ferroce_helper_dst_mtu(self.as_raw()) }
    }

    /// Returns whether this is an IPv4 route; otherwise it is an IPv6 route.
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
        // SAFETY: By the type invariant the reference is owned; it is released once.
        unsafe { bindings::dst_release(self.as_raw()) };
    }
}

/// Converts UDP ports to the form of a flow key.
fn flow_of((source, destination): (u16, u16)) -> bindings::flowi_uli {
    bindings::flowi_uli {
        ports: bindings::flowi_uli__bindgen_ty_1 {
            dport: destination.to_be(),
            sport: source.to_be(),
        },
    }
}

/// Bits of the traffic class that take part in the route lookup; the other two are ECN.
const DSCP_MASK: u8 = 0xfc;

/// Position of the traffic class in the first word of an IPv6 header.
const TRAFFIC_CLASS_SHIFT: u32 = 20;
