// SPDX-License-Identifier: GPL-2.0

//! Kernel UDP sockets that receive the packets of the RoCE port: one for IPv4 and one for IPv6 in each
//! namespace.
//!
//! Opening and closing is for process context; packets arrive in softirq. Packets are sent without a socket:
//! see [`skb`](crate::net::tx::skb).
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use crate::{
    bindings,
    compat::udp_tunnel,
    errno::{
        EAFNOSUPPORT,
        EPFNOSUPPORT, //
    },
    net::{
        hook::port_guard::PortGuard,
        netdev::NetDevBorrow,
        netns::{
            Net,
            NetId, //
        },
        rx::{
            receive::PacketReceiver,
            skb::RxSkb, //
        },
        super_packet::is_super_packet, //
    },
    sync::quiesce::synchronize_rcu_expedited, //
};
use core::{
    ffi::c_void,
    mem::MaybeUninit,
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

/// An open UDP port, whose packets are delivered to an `R`.
///
/// Does not keep the namespace: it must be dropped when the namespace is destroyed (see
/// [`NamespaceExit`](crate::net::netns::NamespaceExit)).
pub struct UdpPort<R: PacketReceiver> {
    // Dropped in this order: sockets first, then the receiver that they point to.
    _port_guard: PortGuard,
    _v4: Socket,
    _v6: Option<Socket>,
    /// Boxed for its alignment: C stores flags in the low bits of the pointer.
    receiver: KBox<Arc<R>>,
    net: NetId,
}

impl<R: PacketReceiver> UdpPort<R> {
    /// Opens the port on all addresses of `net`; for IPv4 only, if the kernel or the namespace has no IPv6.
    /// From then on, processes in the namespace cannot send datagrams to the port of any host.
    ///
    /// Takes socket locks; must not be called under the RTNL lock.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is in use; `ENOMEM`.
    pub fn open(net: &Net, receiver: Arc<R>) -> Result<Self> {
        let receiver = KBox::new(receiver, GFP_KERNEL)?;
        let v4 = Socket::open(net, bindings::AF_INET, R::PORT)?;
        let v6 = match Socket::open(net, bindings::AF_INET6, R::PORT) {
            Err(error) if error == EAFNOSUPPORT || error == EPFNOSUPPORT => None,
            v6 => Some(v6?),
        };
        for socket in [Some(&v4), v6.as_ref()].into_iter().flatten() {
            // SAFETY: The fields of the result are dropped in order, and the sockets come before the
            // receiver. If this function fails, locals are dropped in reverse order, with the same effect.
            unsafe { socket.deliver_to::<R>(net, &receiver) };
        }
        // SAFETY: By the type's contract the guard is dropped no later than the namespace is destroyed.
        let port_guard = unsafe { PortGuard::register::<R>(net)? };
        Ok(Self {
            _port_guard: port_guard,
            _v4: v4,
            _v6: v6,
            receiver,
            net: net.id(),
        })
    }

    /// Returns the receiver.
    pub fn receiver(&self) -> &Arc<R> {
        &self.receiver
    }

    /// Returns the namespace of the port.
    pub fn net(&self) -> NetId {
        self.net
    }
}

/// A bound socket.
///
/// # Invariants
///
/// The socket is valid and owned.
struct Socket(NonNull<bindings::sock>);

// SAFETY: C locks sockets.
unsafe impl Send for Socket {}
// SAFETY: As for `Send`.
unsafe impl Sync for Socket {}

impl Socket {
    fn open(net: &Net, family: u32, port: u16) -> Result<Self> {
        // SAFETY: The structure consists of integers and addresses, for which zero is valid.
        let mut config: bindings::udp_port_cfg = unsafe { MaybeUninit::zeroed().assume_init() };
        // CAST: Address families are small numbers.
        config.family = family as u8;
        config.local_udp_port = port.to_be();
        // The other socket receives IPv4. UDP checksums over IPv6 stay disabled in both directions: RoCE
        // sends 0 (IBA annex 17).
        config.set_ipv6_v6only(1);
        let mut socket = ptr::null_mut();
        // SAFETY: The namespace is held, and `config` and `socket` are valid for the call.
        to_result(unsafe {
            if family == bindings::AF_INET {
                bindings::udp_sock_create4(net.as_raw(), &mut config, &mut socket)
            } else {
                bindings::udp_sock_create6(net.as_raw(), &mut config, &mut socket)
            }
        })?;
        // SAFETY: C returned a new socket, which is valid and has a `struct sock`.
        let sock = unsafe { NonNull::new_unchecked((*socket).sk.cast()) };
        // INVARIANT: The socket was just created and is owned.
        Ok(Self(sock))
    }

    /// Delivers the socket's packets to `receiver`.
    ///
    /// # Safety
    ///
    /// The socket must be dropped before `receiver`.
    unsafe fn deliver_to<R: PacketReceiver>(&self, net: &Net, receiver: &KBox<Arc<R>>) {
        const { assert!(align_of::<Arc<R>>() >= 8) };
        let receiver: *const Arc<R> = &raw const **receiver;
        let mut config: bindings::udp_tunnel_sock_cfg = pin_init::zeroed();
        config.sk_user_data = receiver.cast_mut().cast::<c_void>();
        config.encap_type = 1;
        config.encap_rcv = Some(encap_rcv::<R>);
        // SAFETY: Socket and namespace are valid. `sk_user_data` is the pointer that `encap_rcv::<R>`
        // expects, valid as long as the socket exists by the function's contract.
        unsafe {
            udp_tunnel::set_up(net.as_raw(), self.0.as_ptr(), &mut config);
            // So that UDP does not split super-packets.
            bindings::ferroce_helper_udp_allow_gso(self.0.as_ptr());
            // `setup_udp_tunnel_sock` enables checksum conversion, which RoCE does not need: it has the ICRC.
            // With it, segmentation of what GRO has joined would compute a UDP checksum for each packet.
            bindings::ferroce_helper_inet_dec_convert_csum(self.0.as_ptr());
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the socket is owned; it is released once. New packets no longer find
        // the receiver.
        unsafe { udp_tunnel::release(self.0.as_ptr()) };
        // Callbacks that have found it run under RCU.
        synchronize_rcu_expedited();
    }
}

/// `udp_tunnel_sock_cfg.encap_rcv`. Takes every packet.
///
/// # Safety
///
/// Only C may call this, under RCU, with a socket of [`Socket::deliver_to`] for `R` and a packet that this
/// function owns.
unsafe extern "C" fn encap_rcv<R: PacketReceiver>(
    sock: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
) -> c_int {
    // SAFETY: A received packet has a netdev, which RCU keeps until this function returns.
    let via = unsafe { NetDevBorrow::from_raw(bindings::ferroce_helper_skb_dev(skb)) };
    // SAFETY: The packet is valid.
    let is_super_packet = unsafe { is_super_packet(skb) };
    // Another skb with GSO fields arrives here only if a tunnel left it unsegmented. Its segments are unrelated to
    // RoCE packets, so it is treated as one packet, which is too long.
    //
    // SAFETY: The packet is owned, as the helper requires. If the helper returns false, it has freed the packet.
    if unsafe { !is_super_packet && !bindings::ferroce_helper_skb_forget_gso(skb) } {
        return 0;
    }
    // SAFETY: The packet is owned, and UDP has pulled the IP header.
    let skb = unsafe { RxSkb::from_encap(skb, is_super_packet) };
    // SAFETY: The socket is valid, and RCU is locked.
    let data = unsafe { bindings::ferroce_helper_rcu_dereference_sk_user_data(sock) };
    let receiver: *const Arc<R> = data.cast();
    // SAFETY: A pointer that is not null was set by `deliver_to`. The drop of the socket waits for RCU before
    // the receiver is dropped.
    if let Some(receiver) = unsafe { receiver.as_ref() } {
        receiver.receive(skb, via);
    }
    0
}
