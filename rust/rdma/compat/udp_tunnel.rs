// SPDX-License-Identifier: GPL-2.0

//! Sockets of UDP tunnels: the functions take the `struct sock` since 7.2, and the `struct socket` before.
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use crate::bindings;

/// What the functions take.
#[cfg(has_tunnel_of_sock)]
type Socket = bindings::sock;
/// See above.
#[cfg(not(has_tunnel_of_sock))]
type Socket = bindings::socket;

/// # Safety
///
/// `sock` is a socket of the kernel's, which has not been released.
unsafe fn socket_of(sock: *mut bindings::sock) -> *mut Socket {
    #[cfg(has_tunnel_of_sock)]
    {
        sock
    }
    #[cfg(not(has_tunnel_of_sock))]
    // SAFETY: By the function's contract.
    unsafe {
        (*sock).sk_socket
    }
}

/// Gives the packets of `sock` to the receiver in `config`.
///
/// # Safety
///
/// `sock` is a UDP socket of the kernel's in the namespace `net`, which has not been released. `sk_user_data` is what
/// the receiver expects, until the socket is released.
pub(crate) unsafe fn set_up(
    net: *mut bindings::net,
    sock: *mut bindings::sock,
    config: &mut bindings::udp_tunnel_sock_cfg,
) {
    // SAFETY: By the function's contract.
    unsafe { bindings::setup_udp_tunnel_sock(net, socket_of(sock), config) };
}

/// Releases `sock`. New packets no longer find the receiver. May sleep.
///
/// # Safety
///
/// As for [`set_up`]; the caller owns the socket.
pub(crate) unsafe fn release(sock: *mut bindings::sock) {
    // SAFETY: By the function's contract.
    unsafe { bindings::udp_tunnel_sock_release(socket_of(sock)) };
}
