// SPDX-License-Identifier: GPL-2.0

//! Packets and super-packets with all their headers, to be sent. [`super_packet`](crate::net::tx::super_packet) builds
//! them. For any context except hard interrupts.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    net::{
        route::{
            Addresses,
            Route, //
        },
        tx::{
            header::{
                ipv4_header,
                ipv6_header,
                udp_header,
                IpHeader,
                IPV4_LEN,
                IPV6_LEN,
                UDP_LEN, //
            },
            output::{
                output,
                Xmit, //
            }, //
        },
        tx_inflight::TxInflight, //
    }, //
};
use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// Room for the headers of a tunnel: GENEVE with all options over IPv6, and the inner Ethernet header.
const TUNNEL_HEADROOM: u32 = 40 + 8 + 8 + 252 + 18;

/// Room in front of the payload: tunnel, any link-layer header, IPv6, UDP.
// CAST: The lengths are small.
pub(super) const HEADROOM: u32 =
    TUNNEL_HEADROOM + bindings::LL_MAX_HEADER + (IPV6_LEN + UDP_LEN) as u32;

/// An skb, freed by the drop.
///
/// # Invariants
///
/// The skb is valid and owned.
pub(super) struct OwnedSkb(NonNull<bindings::sk_buff>);

// SAFETY: The skb has one owner and belongs to no task.
unsafe impl Send for OwnedSkb {}

impl OwnedSkb {
    /// Takes over an skb; `None` if `raw` is null.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or valid and owned by the caller.
    pub(super) unsafe fn new(raw: *mut bindings::sk_buff) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(Self)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// Returns the skb, which the caller then owns.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Drop for OwnedSkb {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is owned; it is freed once.
        unsafe { bindings::ferroce_helper_consume_skb(self.as_raw()) };
    }
}

/// A packet or super-packet that begins with its IP header.
pub struct TxSkb {
    skb: OwnedSkb,
    is_v4: bool,
    is_super_packet: bool,
    traffic_class: u8,
    priority: u8,
}

impl TxSkb {
    /// Returns the packet in `skb`, which begins with `ip`.
    #[inline]
    pub(super) fn new(skb: OwnedSkb, ip: &IpHeader) -> Self {
        Self {
            skb,
            is_v4: ip.addresses.is_v4(),
            is_super_packet: false,
            traffic_class: ip.traffic_class,
            priority: ip.priority,
        }
    }

    /// Returns the super-packet: its GSO fields are set.
    #[inline]
    pub(super) fn into_super_packet(self) -> Self {
        Self {
            is_super_packet: true,
            ..self
        }
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_raw()
    }

    /// Returns the length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        let headers = match self.is_v4 {
            true => IPV4_LEN.wrapping_add(UDP_LEN),
            false => IPV6_LEN.wrapping_add(UDP_LEN),
        };
        // SAFETY: The skb is owned. CAST: `u32` to `usize`, which has 64 bits.
        let len = unsafe { (*self.as_raw()).len as usize };
        len.saturating_sub(headers)
    }

    /// Copies the packet. `None`: no memory.
    pub fn try_copy(&self) -> Option<Self> {
        let gfp = bindings::GFP_ATOMIC | bindings::__GFP_NOWARN;
        // SAFETY: The skb is owned. C returns a new skb or null.
        let skb = unsafe { OwnedSkb::new(bindings::skb_copy(self.as_raw(), gfp))? };
        Some(Self { skb, ..*self })
    }

    /// Inverts the last byte.
    ///
    /// # Errors
    ///
    /// `EFAULT`: there is none.
    pub fn damage(&mut self) -> Result {
        let mut byte = [0u8];
        // CAST: An offset in a packet.
        // SAFETY: The skb is owned, and `byte` has one byte. C checks the range.
        unsafe {
            let at = (*self.as_raw()).len.wrapping_sub(1) as c_int;
            to_result(bindings::skb_copy_bits(
                self.as_raw(),
                at,
                byte.as_mut_ptr().cast(),
                1,
            ))?;
            let byte = byte.map(|byte| !byte);
            to_result(bindings::skb_store_bits(
                self.as_raw(),
                at,
                byte.as_ptr().cast(),
                1,
            ))
        }
    }

    /// Sends it, and counts it in `tx_inflight` if given.
    pub fn send(self, route: &Route, tx_inflight: Option<&Arc<TxInflight>>) -> Xmit {
        if self.is_v4 != route.is_v4() {
            return Xmit::Lost;
        }
        if let Some(tx_inflight) = tx_inflight {
            self.charge(tx_inflight);
        }
        let class = (self.traffic_class, self.priority);
        // SAFETY: The skb has its headers, of the family of the route. It is given away.
        unsafe { output(self.skb.into_raw(), route, class) }
    }

    /// Counts the skb in `tx_inflight`, by its destructor. IP on receive calls the destructor early (`skb_orphan`), so
    /// that of a super-packet is on an empty skb on its frag_list; the splitter passes it on to the last packet.
    /// Without memory the super-packet is not counted.
    fn charge(&self, tx_inflight: &Arc<TxInflight>) {
        let skb = self.as_raw();
        // SAFETY: The skb is owned, and has neither destructor nor socket. `__alloc_skb` has no preconditions for an
        // atomic allocation; the list takes over the new skb, which has neither, too.
        unsafe {
            let bytes = (*skb).truesize as usize;
            if !self.is_super_packet {
                return tx_inflight.charge(skb, bytes);
            }
            let counted =
                bindings::__alloc_skb(0, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1);
            if !counted.is_null() {
                bindings::ferroce_helper_skb_list_add(skb, ptr::null_mut(), counted);
                tx_inflight.charge(counted, (*skb).truesize as usize);
            }
        }
    }
}

/// Prepends the UDP and IP headers, and returns their length. `None` if the packet is too long.
///
/// # Safety
///
/// `skb` must be valid and owned, with its UDP payload as data, and [`HEADROOM`] less the headers of tunnels and
/// links in front.
pub(super) unsafe fn push_headers(
    skb: *mut bindings::sk_buff,
    ip: &IpHeader,
    ports: (u16, u16),
) -> Option<usize> {
    // SAFETY: The skb is valid by the function's contract. CAST: `u32` to `usize`, which has 64 bits.
    let payload = unsafe { (*skb).len as usize };
    let udp_len = u16::try_from(payload.wrapping_add(UDP_LEN)).ok()?;
    let ip_len = ip.addresses.header_len();
    // IPv4 counts its header, too.
    u16::try_from(usize::from(udp_len).wrapping_add(IPV4_LEN)).ok()?;
    // SAFETY: By the function's contract there is room for the headers.
    unsafe {
        push(skb, &udp_header(ports, udp_len));
        match ip.addresses {
            Addresses::V4 { src, dst } => push(skb, &ipv4_header(ip, src, dst)),
            Addresses::V6 { src, dst } => push(skb, &ipv6_header(ip, src, dst, udp_len)),
        }
    }
    // CAST: The length is 20 or 40.
    // SAFETY: The skb is owned, and its data begins with an IP header of that length.
    unsafe { bindings::ferroce_helper_skb_set_headers(skb, ip_len as c_int) };
    Some(ip_len.wrapping_add(UDP_LEN))
}

/// Prepends bytes.
///
/// # Safety
///
/// `skb` must be valid and owned, with room for the bytes in front of its data.
#[inline]
pub(super) unsafe fn push(skb: *mut bindings::sk_buff, bytes: &[u8]) {
    // SAFETY: By the function's contract there is room. `skb_push` returns the start of as many writable bytes. CAST:
    // The length of a header.
    unsafe {
        let place: *mut u8 = bindings::skb_push(skb, bytes.len() as u32).cast();
        place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
}
