// SPDX-License-Identifier: GPL-2.0

//! Receives GSO lists of this module as one skb.
//!
//! UDP would segment such a list before it passes the packets to a tunnel socket. So a netfilter hook takes
//! it, as the last of `NF_INET_LOCAL_IN`: after all firewall rules for received packets, and before UDP. The
//! hook runs in softirq, under RCU.
//!
//! Everything else continues to UDP, which segments it: lists that GRO has joined (`rx-gro-list`), whose packets may be
//! requests and responses, skbs that do not have exactly the form that this module builds, the first packet of a flow
//! that connection tracking has not confirmed yet, packets that IPsec policies reject, and packets that arrive by a
//! VRF, for which UDP selects the socket.
//!
//! C headers: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h),
//! [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    net::{
        hook::nf_hooks::{
            HookPoint,
            NfHooks, //
        },
        netdev::NetDevBorrow,
        netns::Net,
        rx::{
            receive::{
                PacketReceiver,
                BTH_PEEK_LEN, //
            },
            skb::RxSkb, //
        },
        super_packet::is_own_list,
        tx::{
            gso_list::{
                SkbOrigin,
                MAX_GSO_PACKETS, //
            },
            header::{
                IPV4_LEN,
                IPV6_LEN,
                UDP_LEN, //
            }, //
        }, //
    }, //
};
use core::{
    ffi::c_void,
    slice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The hooks of one port in one namespace, unregistered by the drop.
pub(crate) struct GsoHook {
    _hooks: NfHooks,
}

impl GsoHook {
    /// Delivers GSO lists for the port of `R` in `net` to `receiver`. Sleeps.
    ///
    /// # Safety
    ///
    /// The result must be dropped before `receiver`, and before the namespace is destroyed.
    pub(crate) unsafe fn register<R: PacketReceiver>(
        net: &Net,
        receiver: &KBox<Arc<R>>,
    ) -> Result<Self> {
        let receiver: *const Arc<R> = &raw const **receiver;
        let receiver = receiver.cast_mut().cast::<c_void>();
        // SAFETY: `local_in::<R>` expects a pointer to an `Arc<R>`, which is valid until the hooks are
        // dropped, by the function's contract.
        let hooks = unsafe { NfHooks::register(net, HookPoint::LocalIn, local_in::<R>, receiver)? };
        Ok(Self { _hooks: hooks })
    }
}

/// `nf_hook_ops.hook`.
///
/// # Safety
///
/// Only C may call this, under RCU, with the argument that [`GsoHook::register`] set for `R`, a packet and
/// the hook's state.
unsafe extern "C" fn local_in<R: PacketReceiver>(
    receiver: *mut c_void,
    skb: *mut bindings::sk_buff,
    state: *const bindings::nf_hook_state,
) -> c_uint {
    // SAFETY: C passes a valid packet, which is only read.
    if unsafe { !bindings::ferroce_helper_skb_is_list(skb) } {
        return bindings::NF_ACCEPT;
    }
    // SAFETY: By the function's contract `receiver` points to an `Arc<R>`, which exists as long as the hook.
    let receiver = unsafe { &*receiver.cast_const().cast::<Arc<R>>() };
    // SAFETY: C passes a valid state.
    let (family, dev) = unsafe { (u32::from((*state).pf), (*state).in_) };
    // SAFETY: The packet is valid, of that family, and has GSO fields for a list. IP is about to deliver it, and
    // `first` is not used after `takes_gso`.
    let found = unsafe { parse_gso_list(skb, family, R::PORT) };
    if !found.is_some_and(|first| receiver.takes_gso(first)) {
        return bindings::NF_ACCEPT;
    }
    // SAFETY: A received packet has a netdev, which RCU keeps until this function returns.
    let via = unsafe { NetDevBorrow::from_raw(dev) };
    // UDP would get the packet with `data` at the UDP header.
    // SAFETY: The packet is valid. `parse_gso_list` found the IP and UDP headers in its linear part.
    unsafe { bindings::skb_pull(skb, headers_len(family) as c_uint) };
    // SAFETY: `NF_STOLEN` passes the ownership of the packet to this function. IP has checked its header,
    // `parse_gso_list` the form of the list, and `data` is at the UDP header.
    let skb = unsafe { RxSkb::from_gso(skb) };
    receiver.receive(skb, via);
    bindings::NF_STOLEN
}

/// Returns the length of an IP header without options or extension headers.
fn headers_len(family: u32) -> usize {
    match family {
        bindings::NFPROTO_IPV4 => IPV4_LEN,
        _ => IPV6_LEN,
    }
}

/// Checks whether `skb` is a GSO list for `port` that this module built and that can be delivered as one skb. Returns
/// the first bytes of its first UDP payload.
///
/// # Safety
///
/// `skb` must be a valid packet of `family` that IP is about to deliver, with GSO fields for a list. It must
/// not change during `'a`.
unsafe fn parse_gso_list<'a>(
    skb: *mut bindings::sk_buff,
    family: u32,
    port: u16,
) -> Option<&'a [u8; BTH_PEEK_LEN]> {
    let headers = headers_len(family).checked_add(UDP_LEN)?;
    // SAFETY: The skb is valid by the function's contract. At this hook `data` points to the IP header, and
    // the linear part has `len - data_len` bytes. It does not change during `'a`.
    let (bytes, fields) = unsafe {
        let fields = &*skb;
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        (
            slice::from_raw_parts(fields.data.cast_const(), linear),
            fields,
        )
    };
    let (protocol, plain) = match family {
        bindings::NFPROTO_IPV4 => {
            let &[version, _, _, _, _, _, f0, f1, _, protocol] = bytes.first_chunk()?;
            let fragment = u16::from_be_bytes([f0, f1]) & !DONT_FRAGMENT;
            (protocol, version == 0x45 && fragment == 0)
        }
        _ => (*bytes.get(6)?, true),
    };
    let &[_, _, p0, p1] = bytes.get(headers.checked_sub(UDP_LEN)?..)?.first_chunk()?;
    if u32::from(protocol) != bindings::IPPROTO_UDP
        || !plain
        || u16::from_be_bytes([p0, p1]) != port
    {
        return None;
    }
    let first = bytes.get(headers..)?.first_chunk()?;
    // SAFETY: The skb is valid by the function's contract.
    let (size, len) = unsafe {
        (
            bindings::ferroce_helper_skb_gso_size(skb),
            bindings::ferroce_helper_skb_pagelen(skb),
        )
    };
    if len as usize != headers.checked_add(size.into())? {
        return None;
    }
    // SAFETY: The skb is valid and has a list, by the function's contract.
    let (listed_len, packets) = unsafe { walk_list(skb)? };
    // SAFETY: The skb is valid by the function's contract.
    let expected = unsafe { bindings::ferroce_helper_skb_packets(skb) };
    if len.checked_add(listed_len)? != fields.len || packets != expected {
        return None;
    }
    // SAFETY: By the function's contract the packet is valid, of that family, and about to be delivered.
    let passes = unsafe { passes_udp_checks(skb, family == bindings::NFPROTO_IPV4) };
    passes.then_some(first)
}

/// Returns whether `skb`, from its UDP header on, is a list that this module built for the wire and that is as it was.
/// UDP passes such a list on if the hook has left it.
///
/// # Safety
///
/// `skb` must be valid, with the data at the UDP header.
pub(super) unsafe fn is_whole_list(skb: *const bindings::sk_buff) -> bool {
    // SAFETY: The skb is valid by the function's contract.
    if unsafe { !is_own_list(skb) } {
        return false;
    }
    // SAFETY: As above.
    let (size, len, packets, whole) = unsafe {
        (
            bindings::ferroce_helper_skb_gso_size(skb),
            bindings::ferroce_helper_skb_pagelen(skb),
            bindings::ferroce_helper_skb_packets(skb),
            (*skb).len,
        )
    };
    if len as usize != UDP_LEN.wrapping_add(size.into()) {
        return false;
    }
    // SAFETY: The skb is valid and has GSO fields for a list.
    let walked = unsafe { walk_list(skb) };
    walked.is_some_and(|(listed, found)| found == packets && len.checked_add(listed) == Some(whole))
}

/// Walks the frag_list of `skb`. Returns the length of the skbs on it, and the number of packets with the first one.
/// `None` if there are too many, or if this module did not build all of them.
///
/// # Safety
///
/// `skb` must be a valid packet with GSO fields for a list.
pub(super) unsafe fn walk_list(skb: *const bindings::sk_buff) -> Option<(u32, u16)> {
    // SAFETY: The skb is valid by the function's contract.
    let mut packet = unsafe { bindings::ferroce_helper_skb_packet_list(skb) };
    let (mut len, mut packets) = (0u32, 1u16);
    let mut origin = SkbOrigin::new();
    while !packet.is_null() {
        packets = packets.checked_add(1).filter(|&n| n <= MAX_GSO_PACKETS)?;
        // SAFETY: `packet` is on the frag_list, so it is valid as long as `skb` is.
        unsafe { origin.check(packet) };
        // SAFETY: `packet` is valid, as above. The list is linked by `next` and ends with null.
        let (packet_len, next) = unsafe {
            (
                (*packet).len,
                (*packet).__bindgen_anon_1.__bindgen_anon_1.next,
            )
        };
        len = len.checked_add(packet_len)?;
        packet = next.cast_const();
    }
    origin.is_local().then_some((len, packets))
}

/// Returns whether the checks that UDP would apply to `skb` let it pass to any socket of the port.
///
/// # Safety
///
/// `skb` must be a valid packet that IP is about to deliver, under RCU; IPv4 if `v4`, IPv6 otherwise.
unsafe fn passes_udp_checks(skb: *mut bindings::sk_buff, v4: bool) -> bool {
    // SAFETY: By the function's contract the packet is valid, and its `cb` is that of its IP version.
    if unsafe { bindings::ferroce_helper_skb_has_master(skb, v4) } {
        return false;
    }
    // SAFETY: The packet is valid, and holds its connection-tracking entry, if it has one.
    if unsafe { !bindings::ferroce_helper_nf_ct_is_settled(skb) } {
        return false;
    }
    // SAFETY: The packet is valid and of that IP version. C accepts no socket, as for UDP under RCU.
    unsafe { bindings::ferroce_helper_xfrm_policy_check(skb, v4) }
}

/// "Don't fragment" in an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;
