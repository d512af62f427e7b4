// SPDX-License-Identifier: GPL-2.0

//! Netfilter hooks for IPv4 and IPv6 at one point of a namespace, with the lowest priority: they run after
//! all firewall rules.
//!
//! Registration is for process context. A hook runs under RCU.
//!
//! C header: [`include/linux/netfilter.h`](srctree/include/linux/netfilter.h)

use crate::{
    bindings,
    net::netns::Net,
    sync::quiesce::synchronize_rcu_expedited, //
};
use core::ffi::c_void;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The hook point (`enum nf_inet_hooks`).
#[derive(Clone, Copy)]
pub(crate) enum HookPoint {
    /// Before IP delivers a received packet to the transport protocol.
    LocalIn = bindings::nf_inet_hooks_NF_INET_LOCAL_IN as isize,
    /// After a local transport protocol passed a packet to IP.
    LocalOut = bindings::nf_inet_hooks_NF_INET_LOCAL_OUT as isize,
}

/// `nf_hook_ops.hook`: called under RCU with the registered argument, and a packet whose IP header was
/// checked or built by IP.
pub(crate) type Hook = unsafe extern "C" fn(
    *mut c_void,
    *mut bindings::sk_buff,
    *const bindings::nf_hook_state,
) -> c_uint;

/// Number of hooks: one for IPv4, one for IPv6.
const HOOK_COUNT: usize = 2;

/// Registered hooks of a namespace, unregistered by the drop.
///
/// # Invariants
///
/// `hooks` are registered in `net`, which still exists.
pub(crate) struct NfHooks {
    hooks: KBox<[bindings::nf_hook_ops; HOOK_COUNT]>,
    net: *mut bindings::net,
}

// SAFETY: C accesses the registered hooks under its own lock. The pointer to the namespace is only passed to
// C.
unsafe impl Send for NfHooks {}
// SAFETY: As for `Send`.
unsafe impl Sync for NfHooks {}

impl NfHooks {
    /// Registers `hook` for packets that pass `point` in `net`; it is called with `argument`. Sleeps.
    ///
    /// # Safety
    ///
    /// `argument` must be as `hook` expects until the result is dropped, and the result must be dropped
    /// before the namespace is destroyed.
    pub(crate) unsafe fn register(
        net: &Net,
        point: HookPoint,
        hook: Hook,
        argument: *mut c_void,
    ) -> Result<Self> {
        let mut hooks = KBox::new([pin_init::zeroed(), pin_init::zeroed()], GFP_KERNEL)?;
        for (ops, family) in hooks
            .iter_mut()
            .zip([bindings::NFPROTO_IPV4, bindings::NFPROTO_IPV6])
        {
            let ops: &mut bindings::nf_hook_ops = ops;
            ops.hook = Some(hook);
            ops.priv_ = argument;
            // CAST: The numbers are small.
            (ops.pf, ops.hooknum) = (family as u8, point as c_uint);
            ops.priority = i32::MAX;
        }
        // INVARIANT: C registers the hooks.
        // SAFETY: The namespace is held for the call. The hooks are boxed and stay in place until `drop`
        // unregisters them. By the function's contract they may be called with `argument`.
        to_result(unsafe {
            bindings::nf_register_net_hooks(net.as_raw(), hooks.as_ptr(), HOOK_COUNT as c_uint)
        })?;
        Ok(Self {
            hooks,
            net: net.as_raw(),
        })
    }
}

impl Drop for NfHooks {
    fn drop(&mut self) {
        // SAFETY: The hooks are registered, and by the contract of `register` the namespace still exists.
        unsafe {
            bindings::nf_unregister_net_hooks(self.net, self.hooks.as_ptr(), HOOK_COUNT as c_uint);
        }
        // Running hooks are under RCU.
        synchronize_rcu_expedited();
    }
}
