// SPDX-License-Identifier: GPL-2.0

//! Joins packets that a device received singly to a GSO list, as the kernel's GRO does for other UDP packets if
//! `rx-gro-list` is on. It does not for RoCE, whose UDP checksum is 0.
//!
//! In softirq, as the device's packets arrive and before any firewall sees them: packets are joined here, never taken.
//! IP, netfilter and [`gso_rx`](super::gso_rx) then handle the list as one skb. What is forwarded, or what the hook
//! leaves, is split by the kernel into the packets as they were: each keeps its headers and its ICRC. The kernel writes
//! the IPv4 identification anew, which the ICRC includes, so packets are joined only if it comes out the same.
//!
//! C header: [`include/net/gro.h`](srctree/include/net/gro.h)

use crate::{
    bindings,
    net::{
        rx::receive::{
            GroPacket,
            PacketReceiver,
            BTH_PEEK_LEN, //
        },
        tx::{
            gso_list::MAX_GSO_PACKETS,
            header::UDP_LEN, //
        }, //
    }, //
};
use core::ptr;

/// Bytes of a list from its IP header on, at most: GRO's limit for anything but TCP.
const MAX_GRO_BYTES: u32 = u16::MAX as u32;

/// UDP header and BTH.
const HEADERS_LEN: usize = UDP_LEN + BTH_PEEK_LEN;

/// `udp_tunnel_sock_cfg.gro_receive`: joins `skb` to a held packet, holds it, or has it passed on. Returns the held
/// packet that GRO must pass on now, or null.
///
/// # Safety
///
/// Only C may call this, under RCU, with the held packets of GRO and a packet whose UDP header GRO has just passed.
pub(super) unsafe extern "C" fn gro_receive<R: PacketReceiver>(
    _sock: *mut bindings::sock,
    head: *mut bindings::list_head,
    skb: *mut bindings::sk_buff,
) -> *mut bindings::sk_buff {
    // SAFETY: The skb is valid, and GRO has passed its UDP header.
    let Some((packet, has_checksum)) = (unsafe { parse::<R::Gro>(skb) }) else {
        // SAFETY: The skb is valid.
        unsafe { bindings::ferroce_helper_gro_set_flush(skb) };
        return ptr::null_mut();
    };
    // SAFETY: The skb is valid.
    let is_plain = unsafe { bindings::ferroce_helper_gro_is_plain(skb) };
    let can_join = is_plain && !has_checksum && packet.can_join();
    // SAFETY: C passes the held packets.
    let held = unsafe { Held::find(head, &packet) };
    if let Some(held) = &held {
        // SAFETY: The skb is valid, and GRO has passed its UDP header.
        if can_join && packet.follows(&held.last_packet) && unsafe { held.join(skb) } {
            return match packet.is_urgent() {
                true => held.skb,
                false => ptr::null_mut(),
            };
        }
    }
    // SAFETY: The skb is valid.
    unsafe {
        if can_join && !packet.is_urgent() && pull_bth(skb) {
            bindings::ferroce_helper_gro_set_list(skb);
        } else {
            bindings::ferroce_helper_gro_set_flush(skb);
        }
    }
    // Before this packet, which is of the same stream.
    held.map_or(ptr::null_mut(), |held| held.skb)
}

/// Reads the BTH of `skb`. Also returns whether the packet has a UDP checksum. `None` if the packet may be passed on
/// before others.
///
/// # Safety
///
/// `skb` must be valid, and GRO must have passed its UDP header.
unsafe fn parse<P: GroPacket>(skb: *mut bindings::sk_buff) -> Option<(P, bool)> {
    // SAFETY: By the function's contract. CAST: Constants.
    let headers =
        unsafe { bindings::ferroce_helper_gro_headers(skb, UDP_LEN as u32, BTH_PEEK_LEN as u32) };
    let headers = headers.cast::<[u8; HEADERS_LEN]>();
    // SAFETY: A pointer that is not null points to as many bytes, which do not change during this function.
    let headers = unsafe { headers.as_ref()? };
    let &[_, _, _, _, _, _, c0, c1] = headers.first_chunk()?;
    let packet = P::parse(headers.last_chunk()?)?;
    Some((packet, (c0, c1) != (0, 0)))
}

/// Moves headers and BTH of `skb` to its linear part. Pointers to the headers become invalid. Returns false if it
/// cannot.
///
/// # Safety
///
/// `skb` must be valid and owned, and GRO must have passed its UDP header.
unsafe fn pull_bth(skb: *mut bindings::sk_buff) -> bool {
    // SAFETY: By the function's contract. CAST: A constant.
    unsafe { bindings::ferroce_helper_gro_pull(skb, BTH_PEEK_LEN as u32) }
}

/// A packet, or a list, that GRO holds.
struct Held<P> {
    skb: *mut bindings::sk_buff,
    /// The last skb that was joined to it, or null.
    last: *mut bindings::sk_buff,
    last_packet: P,
}

impl<P: GroPacket> Held<P> {
    /// Returns the held packet of the stream of `packet`.
    ///
    /// # Safety
    ///
    /// `head` must be the list of held packets that GRO passes to `gro_receive()`.
    unsafe fn find(head: *mut bindings::list_head, packet: &P) -> Option<Self> {
        let mut skb = ptr::null_mut();
        loop {
            // SAFETY: `skb` is null or on the list.
            skb = unsafe { bindings::ferroce_helper_gro_next_held(head, skb) };
            if skb.is_null() {
                return None;
            }
            // SAFETY: The skb is on the list, so it is valid.
            let held = unsafe { Self::of(skb) };
            if let Some(held) = held.filter(|held| held.last_packet.is_same_stream(packet)) {
                return Some(held);
            }
        }
    }

    /// Returns the held packet `skb`, if it is of the flow and [`gro_receive`] has held it.
    ///
    /// # Safety
    ///
    /// `skb` must be on GRO's list of held packets.
    unsafe fn of(skb: *mut bindings::sk_buff) -> Option<Self> {
        // SAFETY: The skb is valid.
        unsafe {
            if !bindings::ferroce_helper_gro_same_flow(skb)
                || !bindings::ferroce_helper_gro_is_list(skb)
            {
                return None;
            }
        }
        // SAFETY: The skb is valid, and so is the last one that was joined to it. CAST: A constant.
        let (last, bth) = unsafe {
            let last = bindings::ferroce_helper_gro_last_joined(skb);
            let len = BTH_PEEK_LEN as u32;
            (
                last,
                bindings::ferroce_helper_gro_last_payload(skb, last, len),
            )
        };
        let bth = bth.cast::<[u8; BTH_PEEK_LEN]>();
        // SAFETY: A pointer that is not null points to as many bytes.
        let last_packet = P::parse(unsafe { bth.as_ref()? })?;
        Some(Self {
            skb,
            last,
            last_packet,
        })
    }

    /// Joins `skb`, if it fits; else it stays as it is.
    ///
    /// # Safety
    ///
    /// `skb` must be valid and owned, and GRO must have passed its UDP header.
    unsafe fn join(&self, skb: *mut bindings::sk_buff) -> bool {
        // SAFETY: Both are valid. CAST: A constant.
        unsafe {
            let len = bindings::ferroce_helper_gro_len(skb);
            // The stack takes the length of the first packet for the longest.
            let fits = len <= bindings::ferroce_helper_skb_gso_size(self.skb).into()
                && (*self.skb).len.saturating_add(len) <= MAX_GRO_BYTES
                && bindings::ferroce_helper_gro_count(self.skb) < MAX_GSO_PACKETS;
            let transport = bindings::ferroce_helper_gro_headers(skb, UDP_LEN as u32, 0);
            if !fits
                || transport.is_null()
                || !bindings::ferroce_helper_gro_ip_matches(self.skb, transport)
                || !pull_bth(skb)
            {
                return false;
            }
            // GRO does not touch `cb` of a joined skb any more, and has overwritten what marks the skbs of this
            // module: their ICRC is checked.
            bindings::ferroce_helper_gro_join(self.skb, self.last, skb);
            bindings::ferroce_helper_gro_account(self.skb, skb);
        }
        true
    }
}
