// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel that packets come in through.
//!
//! Owns the sockets of one port in one namespace, of IPv4 and of IPv6. Does not know what the
//! packets are. Packets are sent without a socket: see [`skb`](crate::net::tx::skb).
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use crate::{
    bindings,
    net::{
        hook::{
            gso_rx::GsoHook,
            port_guard::PortGuard, //
        },
        netdev::NetDevBorrow,
        netns::{
            Net,
            NetId, //
        },
        rx::{
            receive::PacketReceiver,
            skb::RxSkb, //
        }, //
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

/// An open UDP port, whose packets go to an `R`.
///
/// The namespace does not wait for it: it has to be dropped when the namespace goes away (see
/// [`NamespaceExit`](crate::net::netns::NamespaceExit)).
pub struct UdpPort<R: PacketReceiver> {
    // Dropped in this order: first the hooks and sockets, then what they point to.
    _reserved: PortGuard,
    _whole: GsoHook,
    _v4: Socket,
    _v6: Option<Socket>,
    /// Boxed for its alignment: C keeps flags in the low bits of the pointer.
    receiver: KBox<Arc<R>>,
    net: NetId,
}

impl<R: PacketReceiver> UdpPort<R> {
    /// Opens the port on every address of `net`. Without IPv6 in the kernel or in the namespace, for
    /// IPv4 alone. From now on processes there send no datagrams to that port, of any machine.
    ///
    /// Takes socket locks; not to be called under the RTNL lock.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else has the port; `ENOMEM`.
    pub fn open(net: &Net, receiver: Arc<R>) -> Result<Self> {
        let receiver = KBox::new(receiver, GFP_KERNEL)?;
        let v4 = Socket::open(net, bindings::AF_INET, R::PORT)?;
        let v6 = match Socket::open(net, bindings::AF_INET6, R::PORT) {
            Err(error) if error == EAFNOSUPPORT || error == EPFNOSUPPORT => None,
            v6 => Some(v6?),
        };
        for socket in [Some(&v4), v6.as_ref()].into_iter().flatten() {
            // SAFETY: The socket is dropped before the receiver.
            unsafe { socket.deliver_to::<R>(net, &receiver) };
        }
        // SAFETY: Dropped before the receiver, and with the namespace at the latest.
        let whole = unsafe { GsoHook::register(net, &receiver)? };
        // SAFETY: Dropped with the namespace at the latest.
        let reserved = unsafe { PortGuard::register::<R>(net)? };
        Ok(Self {
            _reserved: reserved,
            _whole: whole,
            _v4: v4,
            _v6: v6,
            receiver,
            net: net.id(),
        })
    }

    /// To what the packets go.
    pub fn receiver(&self) -> &Arc<R> {
        &self.receiver
    }

    /// The namespace that the port is open in.
    pub fn net(&self) -> NetId {
        self.net
    }
}

/// A bound socket.
///
/// # Invariants
///
/// The socket is valid and ours.
struct Socket(NonNull<bindings::sock>);

// SAFETY: Sockets are locked by C.
unsafe impl Send for Socket {}
// SAFETY: See `Send`.
unsafe impl Sync for Socket {}

impl Socket {
    fn open(net: &Net, family: u32, port: u16) -> Result<Self> {
        // SAFETY: Numbers and flags, which are all 0 then.
        let mut config: bindings::udp_port_cfg = unsafe { MaybeUninit::zeroed().assume_init() };
        // CAST: Address families are small numbers.
        config.family = family as u8;
        config.local_udp_port = port.to_be();
        // The other socket takes the packets of IPv4. Checksums of IPv6 stay off, both ways:
        // RoCE sends 0 (IBA annex 17).
        config.set_ipv6_v6only(1);
        let mut socket = ptr::null_mut();
        // SAFETY: The namespace is held, and the arguments are valid for the call.
        to_result(unsafe {
            if family == bindings::AF_INET {
                bindings::udp_sock_create4(net.as_raw(), &mut config, &mut socket)
            } else {
                bindings::udp_sock_create6(net.as_raw(), &mut config, &mut socket)
            }
        })?;
        // SAFETY: A new socket is valid, and has a `struct sock`.
        let sock = unsafe { NonNull::new_unchecked((*socket).sk.cast()) };
        // INVARIANT: Just created.
        Ok(Self(sock))
    }

    /// Gives the socket's packets to `receiver` from now on.
    ///
    /// # Safety
    ///
    /// The socket is dropped before `receiver` is.
    unsafe fn deliver_to<R: PacketReceiver>(&self, net: &Net, receiver: &KBox<Arc<R>>) {
        const { assert!(align_of::<Arc<R>>() >= 8) };
        let receiver: *const Arc<R> = &raw const **receiver;
        let mut config: bindings::udp_tunnel_sock_cfg = pin_init::zeroed();
        config.sk_user_data = receiver.cast_mut().cast::<c_void>();
        config.encap_type = 1;
        config.encap_rcv = Some(encap_rcv::<R>);
        // SAFETY: The socket and the namespace are valid. `encap_rcv` expects what is set here.
        unsafe {
            bindings::setup_udp_tunnel_sock(net.as_raw(), self.0.as_ptr(), &mut config);
            // Tunnels want checksums of what they carry; RoCE has its own. With the conversion on,
            // segmentation of a burst would compute a UDP checksum for each packet.
            bindings::ferroce_helper_inet_dec_convert_csum(self.0.as_ptr());
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: The socket is ours, by the invariant. New packets no longer find the receiver.
        unsafe { bindings::udp_tunnel_sock_release(self.0.as_ptr()) };
        // Those that have found it are under RCU.
        synchronize_rcu_expedited();
    }
}

/// `udp_tunnel_sock_cfg.encap_rcv`. Takes every packet.
///
/// # Safety
///
/// Called by C under RCU, with a socket of [`Socket::deliver_to`] for `R` and a packet that goes to
/// this function.
unsafe extern "C" fn encap_rcv<R: PacketReceiver>(
    sock: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
) -> c_int {
    // SAFETY: A packet that has come in has an interface, which RCU keeps until this function returns.
    let via = unsafe { NetDevBorrow::from_raw(bindings::ferroce_helper_skb_dev(skb)) };
    // SAFETY: The packet is ours. One of a tunnel comes here as it is, unsplit; its parts have nothing to do
    // with packets of ours. So it is one packet, and too long.
    if !unsafe { bindings::ferroce_helper_skb_forget_gso(skb) } {
        return 0;
    }
    // SAFETY: The packet is ours, and C has pulled the IP header.
    let skb = unsafe { RxSkb::from_encap(skb) };
    // SAFETY: The socket is valid, and RCU is locked.
    let data = unsafe { bindings::ferroce_helper_rcu_dereference_sk_user_data(sock) };
    let receiver: *const Arc<R> = data.cast();
    // SAFETY: What is not null was set by `deliver_to`; RCU keeps it until this function returns.
    if let Some(receiver) = unsafe { receiver.as_ref() } {
        receiver.receive(skb, via);
    }
    0
}
