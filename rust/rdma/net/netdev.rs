// SPDX-License-Identifier: GPL-2.0

//! Network interfaces.
//!
//! Owns the references to a `struct net_device`: [`NetDev`], which keeps it, and [`NetDevBorrow`],
//! which somebody else keeps. An interface cannot be unregistered while it is held, so whoever
//! keeps one for long puts it into a [`PortDev`] and takes it out when unregistration begins.
//! Does not know routes or packets.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::{
    bindings,
    net::netns::{
        Net,
        NetId, //
    },
    sync::rcu_revocable::RcuRevocable, //
};
use core::{
    cell::UnsafeCell,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    fmt,
    sync::rcu, //
};

/// Length of an Ethernet address in bytes.
pub const MAC_LEN: usize = 6;

/// The interface under the port of a device, until its unregistration begins.
pub type PortDev = RcuRevocable<NetDev>;

/// An interface that is kept by somebody else for as long as this is borrowed.
#[repr(transparent)]
pub struct NetDevBorrow(UnsafeCell<bindings::net_device>);

// SAFETY: The structure is made for use by many tasks. What is read here is read as the kernel
// does it.
unsafe impl Send for NetDevBorrow {}
// SAFETY: See `Send`.
unsafe impl Sync for NetDevBorrow {}

impl NetDevBorrow {
    /// # Safety
    ///
    /// `raw` is an interface that stays valid for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut bindings::net_device) -> &'a Self {
        // SAFETY: As the function requires; the representation is transparent.
        unsafe { &*raw.cast_const().cast() }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Reads a field that others may be writing. `field` only computes an address.
    #[inline]
    fn read<T: Copy>(
        &self,
        field: impl FnOnce(*mut bindings::net_device) -> *const T, //
    ) -> T {
        // SAFETY: The interface is valid, and so is a field of it. Fields of a word or less are
        // read in one go.
        unsafe { field(self.as_raw()).read_volatile() }
    }

    /// Whether both are the same interface.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// A reference that keeps the interface.
    #[inline]
    pub fn hold(&self) -> NetDev {
        // SAFETY: The interface is valid.
        unsafe { NetDev::from_raw(self.as_raw()) }
    }

    /// Index, which is unique in the namespace and never 0.
    #[inline]
    pub fn ifindex(&self) -> i32 {
        // SAFETY: Only an address is computed.
        self.read(|dev| unsafe { &raw const (*dev).ifindex })
    }

    /// Most bytes of a network-layer packet.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Only an address is computed.
        self.read(|dev| unsafe { &raw const (*dev).mtu })
    }

    /// The present name. Another may take it as soon as this returns.
    pub fn name(&self) -> Name {
        // SAFETY: Only an address is computed. The name always ends with a NUL, also while it is
        // being changed.
        Name(self.read(|dev| unsafe { (&raw const (*dev).name).cast() }))
    }

    /// Hardware address, if the interface has an address of that kind, and it is not zero.
    pub fn mac_address(&self) -> Option<[u8; MAC_LEN]> {
        // SAFETY: Only addresses are computed.
        let (len, addr) = unsafe {
            (
                self.read(|dev| &raw const (*dev).addr_len),
                self.read(|dev| &raw const (*dev).dev_addr),
            )
        };
        if usize::from(len) != MAC_LEN {
            return None;
        }
        let mut mac = [0; MAC_LEN];
        // SAFETY: An interface has at least `addr_len` bytes of address, as long as it lives.
        unsafe { bindings::ferroce_helper_memcpy(mac.as_mut_ptr().cast(), addr.cast(), MAC_LEN) };
        (mac != [0; MAC_LEN]).then_some(mac)
    }

    /// Whether the interface is up, as its owner wants it.
    pub fn is_running(&self) -> bool {
        // SAFETY: The interface is valid.
        unsafe { bindings::ferroce_helper_netif_running(self.as_raw()) }
    }

    /// Whether there is a link.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The interface is valid.
        unsafe { bindings::ferroce_helper_netif_carrier_ok(self.as_raw()) }
    }

    /// Whether `upper` is on top of this interface, such as a VLAN: its packets come in by both. To be
    /// called under RCU.
    pub fn has_upper(&self, upper: &Self, _guard: &rcu::Guard) -> bool {
        // SAFETY: Both are valid, and RCU is locked. C only compares the address of `upper`.
        unsafe { bindings::netdev_has_upper_dev_all_rcu(self.as_raw(), upper.as_raw()) }
    }

    /// The number of the VLAN, if the interface is one.
    pub fn vlan_id(&self) -> Option<u16> {
        // SAFETY: The interface is valid.
        u16::try_from(unsafe { bindings::ferroce_helper_vlan_id(self.as_raw()) }).ok()
    }

    /// Whether the interface is registered and its unregistration has not begun. Changes only
    /// under the RTNL lock.
    pub fn is_registered(&self) -> bool {
        // SAFETY: Only an address is computed.
        let state = self.read(|dev| unsafe { &raw const (*dev).reg_state });
        u32::from(state) == bindings::netdev_reg_state_NETREG_REGISTERED
    }

    /// The namespace that the interface is in. Interfaces move; after that, this is another.
    pub fn net_id(&self) -> NetId {
        NetId::of(self.net_raw())
    }

    /// A reference to the namespace that the interface is in. `None`: it is going away, or the
    /// interface is moving.
    pub fn net(&self) -> Option<Net> {
        // Keeps the namespace between reading the pointer and counting the reference.
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: As above.
        unsafe { Net::try_get(self.net_raw()) }
    }

    #[inline]
    pub(crate) fn net_raw(&self) -> *mut bindings::net {
        // SAFETY: The interface is valid.
        unsafe { bindings::ferroce_helper_dev_net(self.as_raw()) }
    }
}

/// A name of an interface.
#[derive(Clone, Copy)]
pub struct Name([u8; bindings::IFNAMSIZ as usize]);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take_while(|byte| **byte != 0) {
            for c in byte.escape_ascii() {
                fmt::Write::write_char(f, char::from(c))?;
            }
        }
        Ok(())
    }
}

/// A reference that keeps an interface.
///
/// # Invariants
///
/// `dev` is valid, and held by `tracker`.
pub struct NetDev {
    dev: NonNull<bindings::net_device>,
    tracker: UnsafeCell<bindings::netdevice_tracker>,
}

// SAFETY: An interface is used by many tasks. The tracker is touched only by the owner.
unsafe impl Send for NetDev {}
// SAFETY: See `Send`.
unsafe impl Sync for NetDev {}

impl Deref for NetDev {
    type Target = NetDevBorrow;

    #[inline]
    fn deref(&self) -> &NetDevBorrow {
        // SAFETY: By the invariant, for as long as the reference is kept.
        unsafe { NetDevBorrow::from_raw(self.dev.as_ptr()) }
    }
}

impl NetDev {
    /// Takes a new reference. For any context.
    ///
    /// # Safety
    ///
    /// `raw` is a valid interface.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::net_device) -> Self {
        let tracker = UnsafeCell::new(pin_init::zeroed());
        // SAFETY: As the function requires.
        unsafe { bindings::ferroce_helper_netdev_hold(raw, tracker.get()) };
        // INVARIANT: The reference was just taken.
        Self {
            // SAFETY: A valid interface is not at 0.
            dev: unsafe { NonNull::new_unchecked(raw) },
            tracker,
        }
    }

    /// Another reference to the same interface.
    #[inline]
    pub fn hold(&self) -> Self {
        (**self).hold()
    }

    /// Turns this into a reference that C code gives back with `dev_put()`.
    pub(crate) fn into_raw(self) -> *mut bindings::net_device {
        // SAFETY: The interface is valid. `self` goes only after the new reference was taken.
        unsafe { bindings::ferroce_helper_dev_hold(self.as_raw()) };
        self.as_raw()
    }
}

impl Clone for NetDev {
    fn clone(&self) -> Self {
        self.hold()
    }
}

impl Drop for NetDev {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the invariant, the reference is ours to give back.
        unsafe { bindings::ferroce_helper_netdev_put(self.dev.as_ptr(), self.tracker.get()) };
    }
}
