// SPDX-License-Identifier: GPL-2.0

//! The interface that a driver implements to have its super-packets split.

/// Headers of the super-packet that a [`Splitter`] gets, at least as long as those of any packet.
pub const MAX_HEADERS_LEN: usize = 64;

/// Longest trailer of a packet in bytes.
pub const MAX_TRAILER_LEN: usize = 8;

/// A super-packet to split.
#[derive(Clone, Copy, Debug)]
pub struct SuperPacketParts<'a> {
    /// IP and UDP headers, as they are now: the lengths are those of the super-packet.
    pub ip_and_udp: &'a [u8],
    /// The first [`MAX_HEADERS_LEN`] bytes after the UDP header, or all of them.
    pub headers: &'a [u8],
    /// Length of the UDP payload of the super-packet in bytes.
    pub len: usize,
    /// Number of packets.
    pub packets: u16,
    /// Length of the UDP payload of the longest packet in bytes.
    pub longest: u16,
}

/// A packet of a super-packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketParts<'a> {
    /// Headers after the UDP header.
    pub headers: &'a [u8],
    /// Length of the payload in bytes.
    pub payload_len: usize,
    /// Length of the trailer in bytes, at most [`MAX_TRAILER_LEN`].
    pub trailer_len: usize,
}

/// Splits one super-packet. Called in any context, without locks.
pub trait Splitter: Sized + 'static {
    /// Starts with a super-packet. `None` if it is malformed. Also returns the length of its headers in bytes.
    fn new(super_packet: &SuperPacketParts<'_>) -> Option<(Self, usize)>;

    /// Returns the next packet; `None` after the last one.
    fn next(&mut self) -> Option<PacketParts<'_>>;

    /// Returns what follows the payload of the packet that [`Splitter::next`] returned last; bytes after its trailer
    /// are not used.
    fn trailer(&self, payload: &[u8]) -> [u8; MAX_TRAILER_LEN];
}
