// SPDX-License-Identifier: GPL-2.0

//! Hooks of netfilter for both versions of IP at one point.
//!
//! Owns their registration in a namespace: they are the last there, after every rule of a firewall. Does not
//! know what they do.
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

/// Where packets of a namespace pass (`enum nf_inet_hooks`).
#[derive(Clone, Copy)]
pub(crate) enum HookPoint {
    /// IP is about to hand what has come in to the protocols above.
    LocalIn = bindings::nf_inet_hooks_NF_INET_LOCAL_IN as isize,
    /// The protocols above have handed what goes out to IP.
    LocalOut = bindings::nf_inet_hooks_NF_INET_LOCAL_OUT as isize,
}

/// `nf_hook_ops.hook`: called under RCU with what was registered with it, and a packet whose headers IP has
/// checked or made.
pub(crate) type Hook = unsafe extern "C" fn(
    *mut c_void,
    *mut bindings::sk_buff,
    *const bindings::nf_hook_state,
) -> c_uint;

/// One for IPv4, one for IPv6.
const HOOKS: usize = 2;

/// The hooks of one kind in one namespace.
///
/// # Invariants
///
/// They are registered.
pub(crate) struct NfHooks {
    hooks: KBox<[bindings::nf_hook_ops; HOOKS]>,
    net: *mut bindings::net,
}

// SAFETY: Registered hooks belong to C, which locks them; the pointer is only handed to C.
unsafe impl Send for NfHooks {}
// SAFETY: See `Send`.
unsafe impl Sync for NfHooks {}

impl NfHooks {
    /// Has `hook` called with `argument` from now on, for each packet that passes `point` in `net`. Sleeps.
    ///
    /// # Safety
    ///
    /// `argument` is what `hook` expects, until this is dropped, which is before the namespace goes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `E2BIG` if there are too many hooks.
    pub(crate) unsafe fn register(
        net: &Net,
        point: HookPoint,
        hook: Hook,
        argument: *mut c_void,
    ) -> Result<Self> {
        let mut hooks = KBox::new([pin_init::zeroed(), pin_init::zeroed()], GFP_KERNEL)?;
        for (each, family) in hooks
            .iter_mut()
            .zip([bindings::NFPROTO_IPV4, bindings::NFPROTO_IPV6])
        {
            let each: &mut bindings::nf_hook_ops = each;
            each.hook = Some(hook);
            each.priv_ = argument;
            // CAST: Small numbers.
            (each.pf, each.hooknum) = (family as u8, point as c_uint);
            each.priority = i32::MAX;
        }
        // INVARIANT: Registered.
        // SAFETY: The hooks stay where they are until they are unregistered. They expect `argument`.
        to_result(unsafe {
            bindings::nf_register_net_hooks(net.as_raw(), hooks.as_ptr(), HOOKS as c_uint)
        })?;
        Ok(Self {
            hooks,
            net: net.as_raw(),
        })
    }
}

impl Drop for NfHooks {
    fn drop(&mut self) {
        // SAFETY: Registered, and the namespace is still there, as `register` requires.
        unsafe {
            bindings::nf_unregister_net_hooks(self.net, self.hooks.as_ptr(), HOOKS as c_uint);
        }
        // Those that are in a hook are under RCU.
        synchronize_rcu_expedited();
    }
}
