// SPDX-License-Identifier: GPL-2.0

//! A port that processes send nothing to.
//!
//! Owns the hooks that refuse what they try to. A packet names no sender but its address. Anybody may have a
//! datagram sent from that of this machine, and so could speak for its queue pairs, here and elsewhere. Who may
//! write whole packets (`CAP_NET_RAW`) can write any address; that is not refused.
//!
//! Sockets of the kernel are not refused, also where they send for a process. Such a process may not choose how its
//! packets begin: those of RxRPC begin with a bit that no opcode of a request or an answer has.
//!
//! Does not know what goes to the port, nor who may: packets of this module have no socket
//! ([`skb`](crate::net::tx::skb)).
//!
//! C headers: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::{
    bindings,
    net::{
        hook::nf_hooks::{
            HookPoint,
            NfHooks, //
        },
        netns::Net,
        rx::receive::PacketReceiver, //
    }, //
};
use core::{
    ffi::c_void,
    ptr, //
};
use kernel::prelude::*;

/// One port of UDP in one namespace, for as long as this is there.
pub(crate) struct PortGuard {
    _hooks: NfHooks,
}

impl PortGuard {
    /// Has datagrams of processes in `net` to the port of `R` refused from now on, with `EPERM`. Sleeps.
    ///
    /// # Safety
    ///
    /// This is dropped before the namespace goes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `E2BIG` if there are too many hooks.
    pub(crate) unsafe fn register<R: PacketReceiver>(net: &Net) -> Result<Self> {
        // SAFETY: The hooks expect nothing, and are dropped in time, as this is.
        let hooks = unsafe {
            NfHooks::register(net, HookPoint::LocalOut, local_out::<R>, ptr::null_mut())?
        };
        Ok(Self { _hooks: hooks })
    }
}

/// `nf_hook_ops.hook`.
///
/// # Safety
///
/// Called by C under RCU, with a packet that IP is about to send.
unsafe extern "C" fn local_out<R: PacketReceiver>(
    _: *mut c_void,
    skb: *mut bindings::sk_buff,
    state: *const bindings::nf_hook_state,
) -> c_uint {
    // SAFETY: The packet and the state are valid; what socket there is is kept by its packet.
    let refused = unsafe {
        let v4 = u32::from((*state).pf) == bindings::NFPROTO_IPV4;
        bindings::ferroce_helper_is_datagram_to(skb, (*state).sk, v4, R::PORT)
    };
    match refused {
        true => bindings::NF_DROP,
        false => bindings::NF_ACCEPT,
    }
}
