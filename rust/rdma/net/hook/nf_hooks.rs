// SPDX-License-Identifier: GPL-2.0

//! Netfilter hooks for IPv4 and IPv6, for packets that a transport protocol of a namespace has passed to IP. They have
//! the lowest priority: they run after all firewall rules.
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

/// `nf_hook_ops.hook`: called under RCU with a packet whose IP header IP has built.
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
    /// Registers `hook`, which must not use its argument, for packets that `net` sends. Sleeps.
    ///
    /// # Safety
    ///
    /// The result must be dropped before the namespace is destroyed.
    pub(crate) unsafe fn register(net: &Net, hook: Hook) -> Result<Self> {
        let mut hooks = KBox::new([pin_init::zeroed(), pin_init::zeroed()], GFP_KERNEL)?;
        for (ops, family) in hooks
            .iter_mut()
            .zip([bindings::NFPROTO_IPV4, bindings::NFPROTO_IPV6])
        {
            let ops: &mut bindings::nf_hook_ops = ops;
            ops.hook = Some(hook);
            // CAST: A small number.
            (ops.pf, ops.hooknum) = (family as u8, bindings::nf_inet_hooks_NF_INET_LOCAL_OUT);
            ops.priority = i32::MAX;
        }
        // INVARIANT: C registers the hooks.
        // SAFETY: The namespace is held for the call. The hooks are boxed and stay in place until `drop`
        // unregisters them.
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
