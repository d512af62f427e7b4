// SPDX-License-Identifier: GPL-2.0

//! Super-packets to send, and single packets: see [`super_packet`](crate::net::super_packet).
//!
//! The entries are written front to back, and copied once. The headers of the first one are prepended last, with those
//! of IP and UDP. For any context except hard interrupts.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    mm::memory::Memory,
    net::{
        skb_data,
        super_packet::{
            entry::RECORD_LEN,
            format::{
                EntrySize,
                Splitter,
                MAX_HEADERS_LEN,
                MAX_PACKETS, //
            },
            protocol,
            split::{
                split,
                OuterHeaders,
                PacketChain, //
            }, //
        },
        tx::{
            header::{
                IpHeader,
                UDP_LEN, //
            },
            page_pool::{
                PageLease,
                PagePool, //
            },
            skb::{
                push,
                push_headers,
                OwnedSkb,
                TxSkb,
                HEADROOM, //
            }, //
        }, //
    }, //
};
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Longest super-packet from its IP header on, in bytes, less the IP and UDP headers: the limit of the IPv4 total
/// length.
const MAX_BYTES: usize = u16::MAX as usize - 20 - 8;

/// Bytes after the headers of the first entry that the linear part has room for. With as many the buffer has 1 KiB.
const LINEAR_BYTES: u32 = 128;

/// A packet or super-packet that is being written.
///
/// # Invariants
///
/// - The skb is valid and owned, with [`HEADROOM`] and [`MAX_HEADERS_LEN`] bytes in front of its data.
/// - `room` is not used by anything else, and follows `pending` bytes that are written but not in the skb yet. They are
///   in the linear part if `is_linear`, and the skb has no pages then; otherwise the first free ones of the lease.
pub struct SuperPacket {
    skb: OwnedSkb,
    pages: Option<PageLease>,
    room: Room,
    is_linear: bool,
    pending: usize,
    len: usize,
}

// SAFETY: The skb and the pages have one owner, and belong to no task.
unsafe impl Send for SuperPacket {}
// SAFETY: A shared reference only reads the lengths.
unsafe impl Sync for SuperPacket {}

/// Free bytes.
struct Room {
    start: *mut u8,
    len: usize,
}

impl Room {
    const NONE: Self = Self {
        start: ptr::null_mut(),
        len: 0,
    };
}

/// The headers of a packet or super-packet.
#[derive(Clone, Copy)]
pub struct SuperPacketHeader<'a> {
    /// Headers of its first packet, at most [`MAX_HEADERS_LEN`] bytes, which follow the UDP header.
    pub headers: &'a [u8],
    /// IP header of the first packet.
    pub ip: &'a IpHeader,
    /// UDP ports: source and destination.
    pub ports: (u16, u16),
}

/// How a super-packet is divided.
#[derive(Clone, Copy)]
pub struct SuperPacketShape {
    /// The first entry.
    pub first: EntrySize,
    /// Packets of all entries.
    pub packets: u16,
    /// Length of the UDP payload of the longest packet in bytes.
    pub longest: u16,
}

impl SuperPacket {
    /// Allocates an empty buffer. `None` if there is no memory.
    pub fn new() -> Option<Self> {
        // CAST: A small constant.
        let front = HEADROOM.wrapping_add(MAX_HEADERS_LEN as u32);
        let size = front.wrapping_add(LINEAR_BYTES);
        // SAFETY: `__alloc_skb` has no preconditions for an atomic allocation. C returns a new skb, or null. A new one
        // is empty, and has `size` bytes of room, of which `LINEAR_BYTES` follow the headroom.
        unsafe {
            let raw =
                bindings::__alloc_skb(size, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1);
            let skb = OwnedSkb::new(raw)?;
            bindings::ferroce_helper_skb_reserve(raw, front as c_int);
            let start = (*raw).head.add((*raw).tail as usize);
            // INVARIANT: The skb is owned and empty, with `front` bytes in front. Nothing is pending.
            Some(Self {
                skb,
                pages: None,
                room: Room {
                    start,
                    len: LINEAR_BYTES as usize,
                },
                is_linear: true,
                pending: 0,
                len: 0,
            })
        }
    }

    /// Returns whether an entry of `len` bytes in `packets` packets can be added, if all have `all_packets` so far.
    #[inline]
    pub fn fits(&self, len: usize, packets: u16, all_packets: u16) -> bool {
        let records = 2usize.wrapping_mul(RECORD_LEN);
        self.len.wrapping_add(len) <= MAX_BYTES.wrapping_sub(MAX_HEADERS_LEN.wrapping_add(records))
            && packets.saturating_add(all_packets) <= MAX_PACKETS
    }

    /// Returns the bytes that were appended.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a packet is not a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Begins another entry than the first one: appends its headers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    #[inline]
    pub fn begin_entry(&mut self, pool: &PagePool, headers: &[u8], size: EntrySize) -> Result {
        self.append_bytes(pool, &size.record())?;
        self.append_bytes(pool, headers)
    }

    /// Appends a copy of `len` bytes at `offset` of `memory`.
    ///
    /// # Errors
    ///
    /// Any error of [`Memory::read`]; the bytes in front of those that cannot be read are appended. `ENOMEM`, `ENOSPC`.
    #[inline]
    pub fn append(&mut self, pool: &PagePool, memory: &Memory, offset: u64, len: usize) -> Result {
        memory.for_each_piece(offset, len, false, |from, len| {
            // SAFETY: The piece is present for `len` bytes until the closure returns.
            unsafe { self.append_raw(pool, from, len) }
        })
    }

    /// Appends a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    #[inline]
    pub fn append_bytes(&mut self, pool: &PagePool, bytes: &[u8]) -> Result {
        // SAFETY: The slice is readable for its length.
        unsafe { self.append_raw(pool, bytes.as_ptr(), bytes.len()) }
    }

    /// Appends a copy of `len` bytes at `from`.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `len` bytes. A process may write to them meanwhile.
    #[inline]
    unsafe fn append_raw(
        &mut self,
        pool: &PagePool,
        mut from: *const u8,
        mut len: usize,
    ) -> Result {
        // Terminates: each iteration copies some bytes, or goes on to a page that has room.
        while len != 0 {
            if self.room.len == 0 {
                self.next_page(pool)?;
                continue;
            }
            let part = len.min(self.room.len);
            // SAFETY: `room` is writable for its length, by the type invariant, and `from` is readable by the
            // function's contract. C copies, so a concurrent write by a process is no data race in Rust.
            unsafe {
                bindings::ferroce_helper_memcpy(self.room.start.cast(), from.cast(), part);
                from = from.add(part);
                self.room.start = self.room.start.add(part);
            }
            // INVARIANT: The bytes were written, and are pending.
            self.room.len = self.room.len.wrapping_sub(part);
            self.pending = self.pending.wrapping_add(part);
            self.len = self.len.wrapping_add(part);
            len = len.wrapping_sub(part);
        }
        Ok(())
    }

    /// Goes on to a page that has room: the current page of the lease at first, later the next one.
    #[cold]
    fn next_page(&mut self, pool: &PagePool) -> Result {
        self.flush()?;
        self.is_linear = false;
        let ring = &mut self.pages.get_or_insert_with(|| pool.take()).ring;
        let (mut page, mut offset, mut len) = ring.room();
        if len == 0 {
            ring.next_page()?;
            (page, offset, len) = ring.room();
        }
        if len == 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: Nothing else uses the bytes from `offset` to the end of the page, and nothing is pending.
        // SAFETY: The ring owns a reference to the page, which is in the kernel's mapping, as it was allocated without
        // `__GFP_HIGHMEM`. CAST: `u32` to `usize`, which has 64 bits.
        self.room = unsafe {
            let start: *mut u8 = bindings::ferroce_helper_page_address(page).cast();
            Room {
                start: start.add(offset as usize),
                len: len as usize,
            }
        };
        Ok(())
    }

    /// Passes the pending bytes to the skb.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the skb has no room for another page.
    fn flush(&mut self) -> Result {
        // CAST: At most the length of a page.
        let len = core::mem::take(&mut self.pending) as u32;
        if self.is_linear {
            // SAFETY: By the type invariant the bytes follow the data in the linear part, and the skb has no pages.
            unsafe { bindings::skb_put(self.skb.as_raw(), len) };
            return Ok(());
        }
        // INVARIANT: There is no room until `next_page`: the ring counts the bytes as used.
        self.room = Room::NONE;
        if len == 0 {
            return Ok(());
        }
        let ring = &mut self.pages.as_mut().ok_or(ENOSPC)?.ring;
        let (page, start, _) = ring.room();
        ring.advance(len);
        // CAST: Offsets in a page are small.
        // SAFETY: The skb is owned. The page is referenced by the ring, and the skb gets its own reference.
        to_result(unsafe {
            let (start, len) = (start as c_int, len as c_int);
            bindings::ferroce_helper_skb_append_page(self.skb.as_raw(), page, start, len)
        })
    }

    /// Drops all bytes behind the first `len`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`, `ENOMEM`: the buffer cannot be used any more.
    #[cold]
    pub fn truncate(&mut self, len: usize) -> Result {
        self.flush()?;
        // SAFETY: The skb is owned. CAST: `u32` to `usize`, which has 64 bits; fewer than 64 KiB.
        unsafe {
            // A flush that failed has lost bytes.
            if ((*self.skb.as_raw()).len as usize) < len {
                return Err(ENOSPC);
            }
            to_result(bindings::ferroce_helper_pskb_trim(
                self.skb.as_raw(),
                len as u32,
            ))?;
        }
        // INVARIANT: In the linear part less than that is free now, and follows what is not used.
        if self.is_linear {
            self.room = Room::NONE;
        }
        self.len = self.len.min(len);
        Ok(())
    }

    /// Returns the CRC-32 `crc` continued over all bytes, see [`crc32_le`](crate::util::crc32::crc32_le).
    ///
    /// # Errors
    ///
    /// `ENOSPC`.
    pub fn crc32(&mut self, crc: u32) -> Result<u32> {
        self.flush()?;
        // SAFETY: The skb is owned, and has the bytes.
        Ok(unsafe { skb_data::crc32(self.skb.as_raw(), 0..self.len, crc) })
    }

    /// Returns the packet with these headers, whose payload is all bytes, followed by `trailer`. `None` if that is too
    /// long, or there is no memory.
    pub fn into_packet(
        mut self,
        pool: &PagePool,
        header: &SuperPacketHeader<'_>,
        trailer: &[u8],
    ) -> Option<TxSkb> {
        self.append_bytes(pool, trailer).ok()?;
        self.seal(pool, header).ok()
    }

    /// Returns the super-packet of this shape with these headers, to be sent unsplit. `None` if it is too long, or
    /// there is no memory.
    pub fn into_unsplit(
        mut self,
        pool: &PagePool,
        header: &SuperPacketHeader<'_>,
        shape: &SuperPacketShape,
    ) -> Option<TxSkb> {
        self.append_bytes(pool, &shape.first.record()).ok()?;
        let skb = self.seal(pool, header).ok()?;
        let protocol = protocol(header.ip.addresses.is_v4()).to_be();
        let inner = header.ip.addresses.header_len().wrapping_add(UDP_LEN);
        // SAFETY: The skb is owned. Its inner headers begin where those of the first entry do, behind IP and UDP. CAST:
        // A small number.
        unsafe {
            bindings::ferroce_helper_skb_set_super_packet(
                skb.as_raw(),
                protocol,
                inner as c_int,
                shape.longest,
                shape.packets,
            );
        }
        Some(skb.into_super_packet())
    }

    /// Returns the packets, which `S` makes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `S` cannot; `ENOMEM`, `ENOSPC`.
    pub fn into_packets<S: Splitter>(
        self,
        pool: &PagePool,
        header: &SuperPacketHeader<'_>,
        shape: &SuperPacketShape,
    ) -> Result<TxPackets> {
        let skb = self.into_unsplit(pool, header, shape).ok_or(ENOMEM)?;
        let outer = header.ip.addresses.header_len().wrapping_add(UDP_LEN);
        let outer = OuterHeaders {
            len: outer,
            ip_and_udp_len: outer,
            shares_pages: true,
        };
        // SAFETY: The skb is owned, and begins with its IP and UDP headers, which the pull leaves in front of the data.
        // CAST: A small number.
        let chain = unsafe {
            bindings::skb_pull(skb.as_raw(), outer.len as c_uint);
            split::<S>(skb.as_raw(), outer, 0)?
        };
        Ok(TxPackets {
            chain,
            ip: *header.ip,
            ports: header.ports,
        })
    }

    /// Prepends all headers.
    fn seal(mut self, pool: &PagePool, header: &SuperPacketHeader<'_>) -> Result<TxSkb> {
        self.flush()?;
        let Self { skb, pages, .. } = self;
        // The receiver may run in a softirq when the packet is sent, and answer with one from the same pages.
        if let Some(pages) = pages {
            pool.put(pages);
        }
        if header.headers.len() > MAX_HEADERS_LEN {
            return Err(EINVAL);
        }
        // SAFETY: The skb is owned, and by the type invariant has room for all headers.
        unsafe {
            push(skb.as_raw(), header.headers);
            push_headers(skb.as_raw(), header.ip, header.ports).ok_or(ENOSPC)?;
        }
        Ok(TxSkb::new(skb, header.ip))
    }
}

/// Packets of a super-packet that was split to be sent, in order.
pub struct TxPackets {
    chain: PacketChain,
    ip: IpHeader,
    ports: (u16, u16),
}

impl TxPackets {
    /// Returns whether there is another packet.
    #[inline]
    pub fn has_next(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Returns the next packet. It has the traffic class that `class` returns for that of the super-packet. `None` if
    /// there is no packet, or it is too long.
    pub fn next(&mut self, class: impl FnOnce(u8) -> u8) -> Option<TxSkb> {
        let raw = self.chain.pop()?;
        let ip = IpHeader {
            traffic_class: class(self.ip.traffic_class),
            ..self.ip
        };
        self.ip.ipv4_id = self.ip.ipv4_id.wrapping_add(1);
        // SAFETY: The packet was taken out of the chain, so that it is owned, and its data begins after the UDP header.
        // In front of it is room for the headers, which it has from the super-packet already.
        unsafe {
            let skb = OwnedSkb::new(raw.as_ptr())?;
            push_headers(skb.as_raw(), &ip, self.ports)?;
            Some(TxSkb::new(skb, &ip))
        }
    }
}
