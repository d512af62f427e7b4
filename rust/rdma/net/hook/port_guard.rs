// SPDX-License-Identifier: GPL-2.0

//! Keeps processes from sending UDP datagrams to the RoCE port.
//!
//! A RoCE packet identifies its sender by address only, so a process that can send from an address of this
//! host could impersonate its QPs, locally and remotely. A process with `CAP_NET_RAW` can forge any packet
//! and is not stopped.
//!
//! Kernel sockets may send, even on behalf of a process. The process does not control how such a packet
//! begins: RxRPC packets begin with a bit that no request or response opcode has. Packets of this module have
//! no socket.
//!
//! C headers: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::{
    bindings,
    net::{
        hook::nf_hooks::{
            NfHooks, //
        },
        netns::Net,
        rx::receive::PacketReceiver, //
    }, //
};
use core::ffi::c_void;
use kernel::prelude::*;

/// The guard of one UDP port in one namespace, active until it is dropped.
pub(crate) struct PortGuard {
    _hooks: NfHooks,
}

impl PortGuard {
    /// Rejects datagrams from processes in `net` to the port of `R` with `EPERM`. Sleeps.
    ///
    /// # Safety
    ///
    /// The result must be dropped before the namespace is destroyed.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `E2BIG`: too many hooks.
    pub(crate) unsafe fn register<R: PacketReceiver>(net: &Net) -> Result<Self> {
        // SAFETY: The hooks are dropped with the result, in time by the function's contract.
        let hooks = unsafe { NfHooks::register(net, local_out::<R>)? };
        Ok(Self { _hooks: hooks })
    }
}

/// `nf_hook_ops.hook`.
///
/// # Safety
///
/// Only C may call this, under RCU, with a packet that IP is about to send.
unsafe extern "C" fn local_out<R: PacketReceiver>(
    _: *mut c_void,
    skb: *mut bindings::sk_buff,
    state: *const bindings::nf_hook_state,
) -> c_uint {
    // SAFETY: C passes a valid packet and state. The packet keeps its socket, if it has one.
    let is_datagram = unsafe {
        let v4 = u32::from((*state).pf) == bindings::NFPROTO_IPV4;
        bindings::ferroce_helper_is_datagram_to(skb, (*state).sk, v4, R::PORT)
    };
    match is_datagram {
        true => bindings::NF_DROP,
        false => bindings::NF_ACCEPT,
    }
}
