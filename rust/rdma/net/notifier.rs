// SPDX-License-Identifier: GPL-2.0

//! Netdevice notifications.
//!
//! C calls the notifier in process context, with the RTNL lock held.
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

/// A netdev event (`enum netdev_cmd`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NetdevEvent {
    /// The netdev was set up.
    Up,
    /// The netdev was set down.
    Down,
    /// Its carrier or another flag changed.
    Change,
    /// Its MTU changed.
    ChangeMtu,
    /// Its hardware address changed.
    ChangeAddr,
    /// It was renamed.
    ChangeName,
    /// It was registered, or moved in from another namespace.
    Register,
    /// It will be set down.
    GoingDown,
    /// It is being unregistered, or moves to another namespace. All references must be dropped, or
    /// `unregister_netdevice()` hangs.
    Unregister,
}

impl NetdevEvent {
    fn from_code(code: usize) -> Option<Self> {
        // CAST: A code that does not fit in 32 bits is no known event.
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

/// Receives netdev events.
pub trait NetdevEvents: Send + Sync + 'static {
    /// Handles `event` of `dev`. The RTNL lock is held; may sleep.
    fn event(self: &Arc<Self>, event: NetdevEvent, dev: &NetDevBorrow, rtnl: &Rtnl);
}

/// Delivers events to a [`NetdevEvents`] until it is dropped.
///
/// Creation reports `Register` and `Up` for the existing netdevs. No call happens after the drop has begun.
/// Neither may be done under the RTNL lock.
///
/// # Invariants
///
/// The notifier block is registered.
pub struct Notifier<T: NetdevEvents>(Pin<KBox<NotifierBlock<T>>>);

#[pin_data]
struct NotifierBlock<T> {
    #[pin]
    raw: Opaque<bindings::notifier_block>,
    /// The notifier is being unregistered. C then reports that every netdev is gone.
    closing: Atomic<bool>,
    object: Arc<T>,
}

// SAFETY: Only C accesses the block, under its own lock; `T` is `Send` and `Sync`.
unsafe impl<T: NetdevEvents> Send for NotifierBlock<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: NetdevEvents> Sync for NotifierBlock<T> {}

impl<T: NetdevEvents> Notifier<T> {
    /// Registers `object` for the netdevs of all namespaces. Sleeps.
    pub fn new(object: Arc<T>) -> Result<Self> {
        let mut raw: bindings::notifier_block = pin_init::zeroed();
        raw.notifier_call = Some(call::<T>);
        let block = KBox::pin_init(
            pin_init!(NotifierBlock {
                raw: Opaque::new(raw),
                closing: Atomic::new(false),
                object,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is completely initialised and pinned, and `drop` unregisters it before it is
        // freed.
        to_result(unsafe { bindings::register_netdevice_notifier(block.raw.get()) })?;
        // INVARIANT: The block was just registered.
        Ok(Self(block))
    }
}

impl<T: NetdevEvents> Drop for Notifier<T> {
    fn drop(&mut self) {
        // C is about to report that every netdev is gone.
        self.0.closing.store(true, Relaxed);
        // SAFETY: The block is registered by the type invariant, so this cannot fail. C takes the RTNL lock,
        // so running calls have finished when it returns.
        unsafe { bindings::unregister_netdevice_notifier(self.0.raw.get()) };
    }
}

/// `notifier_block.notifier_call`.
///
/// # Safety
///
/// Only C may call this, with the registered block of a [`Notifier`] of `T` and a `struct
/// netdev_notifier_info`.
unsafe extern "C" fn call<T: NetdevEvents>(
    raw: *mut bindings::notifier_block,
    code: usize,
    info: *mut core::ffi::c_void,
) -> c_int {
    // SAFETY: `raw` is the field of a `NotifierBlock<T>`, which exists as long as it is registered.
    let block = unsafe {
        let raw = Opaque::cast_from(raw).cast_mut();
        &*kernel::container_of!(raw, NotifierBlock<T>, raw)
    };
    let info: *const bindings::netdev_notifier_info = info.cast();
    if let (false, Some(event)) = (block.closing.load(Relaxed), NetdevEvent::from_code(code)) {
        // SAFETY: C passes a netdev that is valid for the call, and holds the RTNL lock during the call.
        let (dev, rtnl) = unsafe { (NetDevBorrow::from_raw((*info).dev), Rtnl::held()) };
        block.object.event(event, dev, &rtnl);
    }
    // CAST: The value is 0.
    bindings::NOTIFY_DONE as c_int
}
