// SPDX-License-Identifier: GPL-2.0

//! Bursts that come in as they were sent.
//!
//! Owns the hook that takes them. UDP would split them before it passes them to a socket of a tunnel, so
//! they are taken where IP hands packets to the protocols above: after every rule of a firewall for what
//! comes in (the hook is the last of `NF_INET_LOCAL_IN`), and before UDP. Whatever is not plainly a burst of
//! this module goes on to UDP, which splits it; so does the first packet of a flow that connection tracking
//! has yet to confirm, what IPsec policies do not let in, and what comes by a VRF: UDP knows which sockets may
//! have that.
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
        tx::{
            gso_list::{
                MadeHere,
                MAX_PACKETS, //
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

/// The hooks of one port in one namespace.
pub(crate) struct GsoHook {
    _hooks: NfHooks,
}

impl GsoHook {
    /// Gives bursts that come to the port of `R` in `net` to `receiver` from now on. Sleeps.
    ///
    /// # Safety
    ///
    /// This is dropped before `receiver` is, and before the namespace goes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `E2BIG` if there are too many hooks.
    pub(crate) unsafe fn register<R: PacketReceiver>(
        net: &Net,
        receiver: &KBox<Arc<R>>,
    ) -> Result<Self> {
        let receiver: *const Arc<R> = &raw const **receiver;
        let receiver = receiver.cast_mut().cast::<c_void>();
        // SAFETY: The hooks expect `receiver`, and are dropped in time, as this is.
        let hooks = unsafe { NfHooks::register(net, HookPoint::LocalIn, local_in::<R>, receiver)? };
        Ok(Self { _hooks: hooks })
    }
}

/// `nf_hook_ops.hook`.
///
/// # Safety
///
/// Called by C under RCU, with what [`GsoHook::register`] has set for `R`.
unsafe extern "C" fn local_in<R: PacketReceiver>(
    receiver: *mut c_void,
    skb: *mut bindings::sk_buff,
    state: *const bindings::nf_hook_state,
) -> c_uint {
    // SAFETY: The packet is valid, and ours to look at.
    if unsafe { !bindings::ferroce_helper_skb_is_list(skb) } {
        return bindings::NF_ACCEPT;
    }
    // SAFETY: As the function requires; the receiver is valid until the hook is gone.
    unsafe {
        let receiver = &*receiver.cast_const().cast::<Arc<R>>();
        match burst(skb, (*state).pf.into(), R::PORT) {
            Some((first, ours)) if receiver.takes_gso(first) => {
                let via = NetDevBorrow::from_raw((*state).in_);
                // UDP finds the packet at its header, and so do we.
                let headers = headers_len((*state).pf.into());
                bindings::skb_pull(skb, headers as c_uint);
                receiver.receive(RxSkb::from_burst(skb, ours), via);
                bindings::NF_STOLEN
            }
            _ => bindings::NF_ACCEPT,
        }
    }
}

/// Length of the IP header without options or extensions.
fn headers_len(family: u32) -> usize {
    match family {
        bindings::NFPROTO_IPV4 => IPV4_LEN,
        _ => IPV6_LEN,
    }
}

/// Returns the first bytes of the first UDP payload, if `skb` is a burst to `port` that may be taken as
/// it is; and whether this module has made it.
///
/// # Safety
///
/// A valid packet of that `family` that IP is about to deliver, with a list of packets.
unsafe fn burst<'a>(
    skb: *mut bindings::sk_buff,
    family: u32,
    port: u16,
) -> Option<(&'a [u8; BTH_PEEK_LEN], bool)> {
    let headers = headers_len(family).checked_add(UDP_LEN)?;
    // SAFETY: Valid. At this point the data begin with the IP header. The linear part is as long as
    // is said here.
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
    // SAFETY: Valid.
    unsafe {
        let size = bindings::ferroce_helper_skb_gso_size(skb);
        let mut len = bindings::ferroce_helper_skb_pagelen(skb);
        if len as usize != headers.checked_add(size.into())? {
            return None;
        }
        let mut packet = bindings::ferroce_helper_skb_packet_list(skb);
        let mut packets = 1u16;
        let mut maker = MadeHere::new();
        while !packet.is_null() {
            packets = packets.checked_add(1).filter(|&n| n <= MAX_PACKETS)?;
            len = len.checked_add((*packet).len)?;
            maker.look_at(packet);
            packet = (*packet)
                .__bindgen_anon_1
                .__bindgen_anon_1
                .next
                .cast_const();
        }
        let whole = len == fields.len
            && packets == bindings::ferroce_helper_skb_packets(skb)
            && is_for_anybody(skb, family == bindings::NFPROTO_IPV4);
        whole.then_some((first, maker.made_all()))
    }
}

/// Whether what UDP would still ask of `skb` would not keep it from a socket of the port.
///
/// # Safety
///
/// As [`burst`].
unsafe fn is_for_anybody(skb: *mut bindings::sk_buff, v4: bool) -> bool {
    // SAFETY: As the function requires.
    unsafe {
        !bindings::ferroce_helper_skb_has_master(skb, v4)
            && bindings::ferroce_helper_nf_ct_is_settled(skb)
            && bindings::ferroce_helper_xfrm_policy_check(skb, v4)
    }
}

/// "Don't fragment" in an IPv4 header.
const DONT_FRAGMENT: u16 = 0x4000;
