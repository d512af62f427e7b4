// SPDX-License-Identifier: GPL-2.0

//! Network namespaces: references, and a hook that runs when one is destroyed.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

mod listener;

use crate::bindings;
use core::{
    ffi::c_void,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Release, //
            },
            Atomic, //
        },
        Arc, //
    },
    types::Opaque, //
};
use listener::Listener;

/// Identity of a network namespace, for comparison only. The namespace may be gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetId(usize);

impl NetId {
    pub(crate) fn of(net: *const bindings::net) -> Self {
        Self(net.addr())
    }

    /// Returns a hash of the identity: below `buckets`, or 0 if that is 0.
    pub fn bucket(self, buckets: usize) -> usize {
        // The upper bits of the product depend on all of the address (Knuth 6.4).
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.checked_rem(buckets).unwrap_or(0)
    }
}

/// A reference to a network namespace. Must not be kept for long, because a namespace is destroyed when its
/// last user leaves.
///
/// # Invariants
///
/// The namespace is valid, and a reference to it is owned.
pub struct Net(NonNull<bindings::net>);

// SAFETY: C uses `struct net` from any task.
unsafe impl Send for Net {}
// SAFETY: As for `Send`.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to `raw`, unless it is being destroyed.
    ///
    /// # Safety
    ///
    /// `raw` must be a namespace whose memory is valid; it may be in destruction.
    pub(crate) unsafe fn try_get(raw: *mut bindings::net) -> Option<Self> {
        // SAFETY: By the function's contract the memory is valid, so its count can be tested.
        let net = unsafe { bindings::ferroce_helper_maybe_get_net(raw) };
        // INVARIANT: A pointer that is not null comes with a reference.
        NonNull::new(net).map(Self)
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net {
        self.0.as_ptr()
    }

    /// Returns the identity.
    pub fn id(&self) -> NetId {
        NetId::of(self.as_raw())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is owned; it is released once.
        unsafe { bindings::ferroce_helper_put_net(self.as_raw()) };
    }
}

/// Notified when a namespace is destroyed.
pub trait NamespaceExit: Send + Sync + 'static {
    /// Releases everything in `net`: its netdevs are gone, and its sockets must be closed before this
    /// returns. May sleep; the RTNL lock is not held.
    fn namespace_exit(&self, net: NetId);
}

/// The atomics that `listener` uses.
type Pointer = Atomic<*mut c_void>;
type Flag = Atomic<bool>;

/// The object of the only [`NamespaceHook`].
static LISTENER: Listener = Listener::new(Atomic::new(ptr::null_mut()), Atomic::new(false));

/// Delivers namespace exits to a [`NamespaceExit`] until it is dropped. One hook can exist at a time.
///
/// No call happens after the drop has begun, so drop it when no namespace has anything left to close.
///
/// # Invariants
///
/// `ops` is registered, and [`LISTENER`] points into `object`.
pub struct NamespaceHook<T: NamespaceExit> {
    ops: KBox<Opaque<bindings::pernet_operations>>,
    _object: Arc<T>,
}

// SAFETY: Only C accesses the operations, under its own lock; `T` is `Send` and `Sync`.
unsafe impl<T: NamespaceExit> Send for NamespaceHook<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: NamespaceExit> Sync for NamespaceHook<T> {}

impl<T: NamespaceExit> NamespaceHook<T> {
    /// Registers `object`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a hook exists; `ENOMEM`.
    pub fn new(object: Arc<T>) -> Result<Self> {
        let mut ops: bindings::pernet_operations = pin_init::zeroed();
        ops.exit = Some(exit::<T>);
        let ops = KBox::new(Opaque::new(ops), GFP_KERNEL)?;
        let raw = Arc::as_ptr(&object).cast_mut().cast();
        if !LISTENER.claim(raw) {
            return Err(EBUSY);
        }
        // SAFETY: The operations are completely initialised and do not move, and `drop` unregisters them
        // before they are freed.
        let registered = to_result(unsafe { bindings::register_pernet_subsys(ops.get()) });
        if let Err(error) = registered {
            LISTENER.release();
            return Err(error);
        }
        // INVARIANT: The operations were just registered, and `claim` stored the object.
        Ok(Self {
            ops,
            _object: object,
        })
    }
}

impl<T: NamespaceExit> Drop for NamespaceHook<T> {
    fn drop(&mut self) {
        LISTENER.close(|| {
            // SAFETY: The operations are registered by the type invariant. C waits for running calls, so the
            // object is not used afterwards.
            unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
        });
    }
}

/// `pernet_operations.exit`.
///
/// # Safety
///
/// Only C may call this, for the registered hook of a `T`, with a valid namespace.
unsafe extern "C" fn exit<T: NamespaceExit>(net: *mut bindings::net) {
    let Some(object) = LISTENER.get() else {
        return;
    };
    let object: *const T = object.cast_const().cast();
    // SAFETY: The hook is registered, so the object is its own, a `T`: another one can be registered only
    // after `close`, which waits for this call. The hook keeps the object until then.
    unsafe { &*object }.namespace_exit(NetId::of(net));
}
