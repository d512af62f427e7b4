// SPDX-License-Identifier: GPL-2.0

//! Network devices: [`NetDev`], which holds a reference, and [`NetDevBorrow`], which the caller keeps valid.
//!
//! A netdev cannot be unregistered while a reference is held. A long-lived reference belongs in a [`PortDev`]
//! and must be taken out when unregistration begins.
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

/// The netdev of a port, until its unregistration begins.
pub type PortDev = RcuRevocable<NetDev>;

/// A netdev that is valid while it is borrowed.
#[repr(transparent)]
pub struct NetDevBorrow(UnsafeCell<bindings::net_device>);

// SAFETY: C uses `struct net_device` from any task. Fields that change are read with volatile accesses, as C
// does with `READ_ONCE`.
unsafe impl Send for NetDevBorrow {}
// SAFETY: As for `Send`.
unsafe impl Sync for NetDevBorrow {}

impl NetDevBorrow {
    /// # Safety
    ///
    /// `raw` must be a netdev that stays valid for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the function's contract `raw` is valid for `'a`. The representation is transparent.
        unsafe { &*raw.cast_const().cast() }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Reads a field that other CPUs may write. `field` only computes an address.
    #[inline]
    fn read<T: Copy>(
        &self,
        field: impl FnOnce(*mut bindings::net_device) -> *const T, //
    ) -> T {
        // SAFETY: The netdev is valid, and so is the address of its field. Fields of a word or less are read
        // in one access; a torn longer value is still initialised.
        unsafe { field(self.as_raw()).read_volatile() }
    }

    /// Returns whether both are the same netdev.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// Returns the identity.
    pub fn id(&self) -> NetDevId {
        NetDevId(self.as_raw().addr())
    }

    /// Takes a reference.
    #[inline]
    pub fn hold(&self) -> NetDev {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { NetDev::from_raw(self.as_raw()) }
    }

    /// Returns the index, which is unique in the namespace and never 0.
    #[inline]
    pub fn ifindex(&self) -> i32 {
        // SAFETY: Only the address of a field is computed.
        self.read(|dev| unsafe { &raw const (*dev).ifindex })
    }

    /// Returns the MTU.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Only the address of a field is computed.
        self.read(|dev| unsafe { &raw const (*dev).mtu })
    }

    /// Returns the current name. Another netdev may get it at any time.
    pub fn name(&self) -> NetDevName {
        // SAFETY: Only the address of a field is computed.
        NetDevName(self.read(|dev| unsafe { (&raw const (*dev).name).cast() }))
    }

    /// Returns the hardware address, if it is an Ethernet address and not zero.
    pub fn mac_address(&self) -> Option<[u8; MAC_LEN]> {
        // SAFETY: Only addresses of fields are computed.
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
        // SAFETY: C keeps at least `addr_len` bytes at `dev_addr` as long as the netdev exists, and `mac` has
        // room for them.
        unsafe { bindings::ferroce_helper_memcpy(mac.as_mut_ptr().cast(), addr.cast(), MAC_LEN) };
        (mac != [0; MAC_LEN]).then_some(mac)
    }

    /// Returns whether the netdev is administratively up.
    pub fn is_running(&self) -> bool {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { bindings::ferroce_helper_netif_running(self.as_raw()) }
    }

    /// Returns whether the netdev has no link of its own and is not stacked on another netdev, as a veth or the
    /// loopback device: only the memory limits its speed.
    pub fn is_virtual(&self) -> bool {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { bindings::ferroce_helper_dev_is_virtual(self.as_raw()) }
    }

    /// Returns whether the netdev has a carrier.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { bindings::ferroce_helper_netif_carrier_ok(self.as_raw()) }
    }

    /// Returns whether `upper`, such as a VLAN, is stacked on this netdev. Its packets arrive by both.
    pub fn has_upper(&self, upper: &Self, _guard: &rcu::Guard) -> bool {
        // SAFETY: The netdev is valid and RCU is locked. C only compares the address of `upper`.
        unsafe { bindings::netdev_has_upper_dev_all_rcu(self.as_raw(), upper.as_raw()) }
    }

    /// Returns the VLAN ID, if the netdev is a VLAN.
    pub fn vlan_id(&self) -> Option<u16> {
        // SAFETY: The netdev is valid while it is borrowed.
        u16::try_from(unsafe { bindings::ferroce_helper_vlan_id(self.as_raw()) }).ok()
    }

    /// Returns the netdev below the VLAN and any VLANs below it, if the netdev is a VLAN. Its device has the GIDs of
    /// the VLAN: the core asks for that netdev where it looks for the device of an address.
    pub fn vlan_real_dev(&self) -> Option<&Self> {
        // SAFETY: The netdev is valid while it is borrowed.
        let real = unsafe { bindings::ferroce_helper_rdma_vlan_dev_real_dev(self.as_raw()) };
        // SAFETY: A VLAN holds a reference to the netdev below it until its own last reference is dropped.
        (!real.is_null()).then(|| unsafe { Self::from_raw(real) })
    }

    /// Returns the identifier that tells netdevs with one hardware address apart, such as ipvlans; usually 0.
    pub fn dev_id(&self) -> u16 {
        // SAFETY: Only the address of a field is computed.
        self.read(|dev| unsafe { &raw const (*dev).dev_id })
    }

    /// Returns whether the netdev is registered and its unregistration has not begun. Changes only under the
    /// RTNL lock.
    pub fn is_registered(&self) -> bool {
        // SAFETY: Only the address of a field is computed.
        let state = self.read(|dev| unsafe { &raw const (*dev).reg_state });
        u32::from(state) == bindings::netdev_reg_state_NETREG_REGISTERED
    }

    /// Returns the identity of the current namespace. A netdev may move to another one at any time.
    pub fn net_id(&self) -> NetId {
        NetId::of(self.net_raw())
    }

    /// Returns the number of the current namespace, as `/proc/PID/ns/net` shows it.
    pub fn net_inode(&self) -> u32 {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { bindings::ferroce_helper_dev_net_inum(self.as_raw()) }
    }

    /// Takes a reference to the current namespace. `None` if the namespace is being destroyed.
    pub fn net(&self) -> Option<Net> {
        // Keeps the memory of the namespace between reading the pointer and taking the reference.
        let _guard = kernel::sync::rcu::read_lock();
        // SAFETY: RCU keeps the memory of the namespace that the netdev points to.
        unsafe { Net::try_get(self.net_raw()) }
    }

    #[inline]
    pub(crate) fn net_raw(&self) -> *mut bindings::net {
        // SAFETY: The netdev is valid while it is borrowed.
        unsafe { bindings::ferroce_helper_dev_net(self.as_raw()) }
    }
}

/// Identity of a netdev, for comparison only. The netdev may be gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetDevId(usize);

/// The name of a netdev.
#[derive(Clone, Copy)]
pub struct NetDevName([u8; bindings::IFNAMSIZ as usize]);

impl fmt::Display for NetDevName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take_while(|byte| **byte != 0) {
            for c in byte.escape_ascii() {
                fmt::Write::write_char(f, char::from(c))?;
            }
        }
        Ok(())
    }
}

/// A reference to a netdev.
///
/// # Invariants
///
/// `dev` is valid, and `tracker` belongs to a reference that is owned.
pub struct NetDev {
    dev: NonNull<bindings::net_device>,
    tracker: UnsafeCell<bindings::netdevice_tracker>,
}

// SAFETY: C uses netdevs from any task. Only the owner passes the tracker to C.
unsafe impl Send for NetDev {}
// SAFETY: As for `Send`; a shared reference does not access the tracker.
unsafe impl Sync for NetDev {}

impl Deref for NetDev {
    type Target = NetDevBorrow;

    #[inline]
    fn deref(&self) -> &NetDevBorrow {
        // SAFETY: By the type invariant the netdev is valid as long as `self` exists.
        unsafe { NetDevBorrow::from_raw(self.dev.as_ptr()) }
    }
}

impl NetDev {
    /// Takes a new reference. For any context.
    ///
    /// # Safety
    ///
    /// `raw` must be a valid netdev.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::net_device) -> Self {
        let tracker = UnsafeCell::new(pin_init::zeroed());
        // SAFETY: By the function's contract `raw` is valid. The tracker is a zeroed local, which C
        // initialises; it may move afterwards, because it only holds a pointer.
        unsafe { bindings::ferroce_helper_netdev_hold(raw, tracker.get()) };
        // INVARIANT: The reference was just taken.
        Self {
            // SAFETY: A valid netdev is not at address 0.
            dev: unsafe { NonNull::new_unchecked(raw) },
            tracker,
        }
    }

    /// Takes another reference.
    #[inline]
    pub fn hold(&self) -> Self {
        (**self).hold()
    }

    /// Converts to a reference that C releases with `dev_put()`.
    pub(crate) fn into_raw(self) -> *mut bindings::net_device {
        // SAFETY: The netdev is valid while it is borrowed.
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
        // SAFETY: By the type invariant the reference and its tracker are owned; they are released once.
        unsafe { bindings::ferroce_helper_netdev_put(self.dev.as_ptr(), self.tracker.get()) };
    }
}
