// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! Owns references to namespaces and the hook that runs when one goes away. Does not know what is
//! kept in a namespace.
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

/// Identity of a network namespace, for comparison. It may name a namespace that is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetId(usize);

impl NetId {
    pub(crate) fn of(net: *const bindings::net) -> Self {
        Self(net.addr())
    }

    /// Which of `places` it belongs to, if namespaces are to be spread over these: less than `places`, or 0.
    pub fn spread_over(self, places: usize) -> usize {
        // The upper bits of the product depend on all of the address (Knuth 6.4).
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.checked_rem(places).unwrap_or(0)
    }
}

/// A reference that keeps a network namespace from going away. Not to be kept for long: a
/// namespace that its last user leaves should go.
///
/// # Invariants
///
/// The namespace is valid, and a reference to it is held.
pub struct Net(NonNull<bindings::net>);

// SAFETY: A namespace is used by many tasks.
unsafe impl Send for Net {}
// SAFETY: See `Send`.
unsafe impl Sync for Net {}

impl Net {
    /// A reference to `raw`, unless it is going away.
    ///
    /// # Safety
    ///
    /// `raw` is a namespace whose memory is valid, be it on its way out.
    pub(crate) unsafe fn try_get(raw: *mut bindings::net) -> Option<Self> {
        // SAFETY: As the function requires.
        let net = unsafe { bindings::ferroce_helper_maybe_get_net(raw) };
        // INVARIANT: Not null means that a reference was taken.
        NonNull::new(net).map(Self)
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::net {
        self.0.as_ptr()
    }

    /// Its identity.
    pub fn id(&self) -> NetId {
        NetId::of(self.as_raw())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, by the invariant.
        unsafe { bindings::ferroce_helper_put_net(self.as_raw()) };
    }
}

/// Told when a namespace goes away.
pub trait NamespaceExit: Send + Sync + 'static {
    /// The namespace is going away: its interfaces are gone, its sockets have to go before this
    /// returns. May sleep; the RTNL lock is not held.
    fn namespace_exit(&self, net: NetId);
}

/// What `listener` is made of.
type Pointer = Atomic<*mut c_void>;
type Flag = Atomic<bool>;

/// The object of the only [`NamespaceHook`].
static LISTENER: Listener = Listener::new(Atomic::new(ptr::null_mut()), Atomic::new(false));

/// Has a [`NamespaceExit`] called until it is dropped. There can be one at a time.
///
/// It is called no more once the drop has begun, so drop it when there is nothing left to close.
///
/// # Invariants
///
/// `ops` is registered, and [`LISTENER`] points into `object`.
pub struct NamespaceHook<T: NamespaceExit> {
    ops: KBox<Opaque<bindings::pernet_operations>>,
    _object: Arc<T>,
}

// SAFETY: C alone touches the operations, under its own lock.
unsafe impl<T: NamespaceExit> Send for NamespaceHook<T> {}
// SAFETY: See `Send`.
unsafe impl<T: NamespaceExit> Sync for NamespaceHook<T> {}

impl<T: NamespaceExit> NamespaceHook<T> {
    /// Has `object` called from now on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is a hook already; `ENOMEM`.
    pub fn new(object: Arc<T>) -> Result<Self> {
        let mut ops: bindings::pernet_operations = pin_init::zeroed();
        ops.exit = Some(exit::<T>);
        let ops = KBox::new(Opaque::new(ops), GFP_KERNEL)?;
        let raw = Arc::as_ptr(&object).cast_mut().cast();
        if !LISTENER.claim(raw) {
            return Err(EBUSY);
        }
        // SAFETY: The operations are complete, and do not move until `drop` has unregistered them.
        let registered = to_result(unsafe { bindings::register_pernet_subsys(ops.get()) });
        if let Err(error) = registered {
            LISTENER.release();
            return Err(error);
        }
        // INVARIANT: Both were just done.
        Ok(Self {
            ops,
            _object: object,
        })
    }
}

impl<T: NamespaceExit> Drop for NamespaceHook<T> {
    fn drop(&mut self) {
        LISTENER.close(|| {
            // SAFETY: Registered, by the invariant. Waits for calls that are being made, so that the object is not
            // used afterwards.
            unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
        });
    }
}

/// `pernet_operations.exit`.
///
/// # Safety
///
/// Called by C, for the registered hook of a `T`, with a valid namespace.
unsafe extern "C" fn exit<T: NamespaceExit>(net: *mut bindings::net) {
    let Some(object) = LISTENER.get() else {
        return;
    };
    let object: *const T = object.cast_const().cast();
    // SAFETY: The hook is registered, so the object is its own, a `T`: another takes its place only when `close` has
    // ended, which waits for this call. The hook keeps the object until then.
    unsafe { &*object }.namespace_exit(NetId::of(net));
}
