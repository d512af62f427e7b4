// SPDX-License-Identifier: GPL-2.0

//! The interface that a driver implements to have its super-packets split.

/// Headers of an entry that a [`Splitter`] gets, at least as long as those of any packet.
pub const MAX_HEADERS_LEN: usize = 64;

/// Packets of a super-packet at most.
pub const MAX_PACKETS: u16 = 64;

/// Longest trailer of a packet in bytes.
pub const MAX_TRAILER_LEN: usize = 8;

/// The size of an entry of a super-packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EntrySize {
    /// Length of its headers and payload in bytes.
    pub len: u16,
    /// Number of its packets.
    pub packets: u16,
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
    /// Starts with a super-packet. `ip_and_udp` are its IP and UDP headers, as they are now: the lengths are those of
    /// the super-packet. `longest` is the length of the UDP payload of its longest packet in bytes. `None` if it is
    /// malformed.
    fn new(ip_and_udp: &[u8], longest: u16) -> Option<Self>;

    /// Goes on to an entry, which begins with `headers`: the first [`MAX_HEADERS_LEN`] bytes, or all of them. Returns
    /// the length of its headers in bytes; `None` if it is malformed.
    fn begin_entry(&mut self, headers: &[u8], size: EntrySize) -> Option<usize>;

    /// Returns the next packet of the entry; `None` after the last one.
    fn next(&mut self) -> Option<PacketParts<'_>>;

    /// Returns what follows the payload of the packet that [`Splitter::next`] returned last; bytes after its trailer
    /// are not used. `crc` continues a CRC-32 over the payload.
    fn trailer(&self, crc: impl FnOnce(u32) -> u32) -> [u8; MAX_TRAILER_LEN];
}
