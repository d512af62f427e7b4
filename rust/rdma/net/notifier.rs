// SPDX-License-Identifier: GPL-2.0

//! What happens to network interfaces.
//!
//! Owns the place in the kernel's chain of listeners. Does not know which interfaces matter.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::{
    bindings,
    net::{
        netdev::NetDevBorrow,
        rtnl::Rtnl, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// Something that happened to an interface (`enum netdev_cmd`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetdevEvent {
    /// It was set up.
    Up,
    /// It was set down.
    Down,
    /// Its link or another of its flags has changed.
    Change,
    /// It takes packets of another length.
    ChangeMtu,
    /// It has another hardware address.
    ChangeAddr,
    /// It has another name.
    ChangeName,
    /// It has appeared, or has moved here from another namespace.
    Register,
    /// It is about to be set down.
    GoingDown,
    /// It is going away, or is moving to another namespace. Whoever holds it has to let go, or
    /// `unregister_netdevice()` hangs.
    Unregister,
}

impl NetdevEvent {
    fn from_code(code: usize) -> Option<Self> {
        // CAST: What does not fit in 32 bits is not an event.
        Some(match u32::try_from(code).ok()? {
            bindings::netdev_cmd_NETDEV_UP => Self::Up,
            bindings::netdev_cmd_NETDEV_DOWN => Self::Down,
            bindings::netdev_cmd_NETDEV_CHANGE => Self::Change,
            bindings::netdev_cmd_NETDEV_CHANGEMTU => Self::ChangeMtu,
            bindings::netdev_cmd_NETDEV_CHANGEADDR => Self::ChangeAddr,
            bindings::netdev_cmd_NETDEV_CHANGENAME => Self::ChangeName,
            bindings::netdev_cmd_NETDEV_REGISTER => Self::Register,
            bindings::netdev_cmd_NETDEV_GOING_DOWN => Self::GoingDown,
            bindings::netdev_cmd_NETDEV_UNREGISTER => Self::Unregister,
            _ => return None,
        })
    }
}

/// Told what happens to interfaces.
pub trait NetdevEvents: Send + Sync + 'static {
    /// `event` has happened to `dev`. The RTNL lock is held; may sleep.
    fn event(&self, event: NetdevEvent, dev: &NetDevBorrow, rtnl: &Rtnl);
}

/// Has a [`NetdevEvents`] called until it is dropped.
///
/// When it is made, every interface there is appears to be registered and set up. It is called no
/// more once the drop has begun. Neither is done under the RTNL lock.
///
/// # Invariants
///
/// The block is registered.
pub struct Notifier<T: NetdevEvents>(Pin<KBox<Block<T>>>);

#[pin_data]
struct Block<T> {
    #[pin]
    raw: Opaque<bindings::notifier_block>,
    closing: Atomic<bool>,
    object: Arc<T>,
}

// SAFETY: C alone touches its block, under its own lock.
unsafe impl<T: NetdevEvents> Send for Block<T> {}
// SAFETY: See `Send`.
unsafe impl<T: NetdevEvents> Sync for Block<T> {}

impl<T: NetdevEvents> Notifier<T> {
    /// Has `object` called from now on, of every namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(object: Arc<T>) -> Result<Self> {
        let mut raw: bindings::notifier_block = pin_init::zeroed();
        raw.notifier_call = Some(call::<T>);
        let block = KBox::pin_init(
            pin_init!(Block {
                raw: Opaque::new(raw),
                closing: Atomic::new(false),
                object,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is complete, and does not move until `drop` has unregistered it.
        to_result(unsafe { bindings::register_netdevice_notifier(block.raw.get()) })?;
        // INVARIANT: Just done.
        Ok(Self(block))
    }
}

impl<T: NetdevEvents> Drop for Notifier<T> {
    fn drop(&mut self) {
        // C is about to tell that every interface there is has gone.
        self.0.closing.store(true, Relaxed);
        // SAFETY: Registered, by the invariant. Cannot fail then. Waits for calls that are being
        // made.
        unsafe { bindings::unregister_netdevice_notifier(self.0.raw.get()) };
    }
}

/// `notifier_block.notifier_call`.
///
/// # Safety
///
/// Called by C, with the block of a [`Notifier`] of `T` and what `netdev_notifier_info` describes.
unsafe extern "C" fn call<T: NetdevEvents>(
    raw: *mut bindings::notifier_block,
    code: usize,
    info: *mut core::ffi::c_void,
) -> c_int {
    // SAFETY: The block stands in a `Block<T>`, which lives for as long as it is registered.
    let block = unsafe {
        let raw = Opaque::cast_from(raw).cast_mut();
        &*kernel::container_of!(raw, Block<T>, raw)
    };
    let info: *const bindings::netdev_notifier_info = info.cast();
    if let (false, Some(event)) = (block.closing.load(Relaxed), NetdevEvent::from_code(code)) {
        // SAFETY: C passes an interface that is valid for the call, and holds the lock for all of it.
        let (dev, rtnl) = unsafe { (NetDevBorrow::from_raw((*info).dev), Rtnl::held()) };
        block.object.event(event, dev, &rtnl);
    }
    // CAST: The value is 0.
    bindings::NOTIFY_DONE as c_int
}
