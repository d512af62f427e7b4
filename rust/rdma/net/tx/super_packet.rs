// SPDX-License-Identifier: GPL-2.0

//! Super-packets to send: see [`super_packet`](crate::net::super_packet).
//!
//! The payload is written front to back, and copied once. The headers are prepended last. For any context except hard
//! interrupts.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    mm::memory::Memory,
    net::{
        route::Route,
        super_packet::{
            format::MAX_HEADERS_LEN,
            protocol, //
        },
        tx::{
            header::IpHeader,
            output::{
                output,
                Xmit, //
            },
            page_pool::{
                PageLease,
                PagePool, //
            },
            skb::{
                push,
                push_headers,
                OwnedSkb,
                HEADROOM, //
            }, //
        },
        tx_inflight::TxInflight, //
    }, //
};
use core::ptr;
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};

/// Longest super-packet from its IP header on, in bytes, less the IP and UDP headers: the limit of the IPv4 total
/// length.
const MAX_PAYLOAD_BYTES: usize = u16::MAX as usize - 20 - 8;

/// A super-packet that is being written.
///
/// # Invariants
///
/// - The skb is valid and owned. Its linear part is empty, with [`HEADROOM`] and [`MAX_HEADERS_LEN`] bytes in front.
/// - The first `pending` free bytes of the current page are payload that the skb does not have yet. `room` is what
///   follows them, or empty; nothing else uses it.
pub struct SuperPacket<'a> {
    skb: OwnedSkb,
    pages: PageLease<'a>,
    room: Room,
    pending: usize,
    payload_bytes: usize,
}

/// Free bytes of a page.
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

/// The headers of a super-packet.
pub struct SuperPacketHeader<'a> {
    /// Its own headers, at most [`MAX_HEADERS_LEN`] bytes, which follow the UDP header.
    pub headers: &'a [u8],
    /// IP header of the first packet.
    pub ip: &'a IpHeader,
    /// UDP ports: source and destination.
    pub ports: (u16, u16),
    /// Number of packets, at least two.
    pub packets: u16,
    /// Length of the UDP payload of the longest packet in bytes.
    pub longest: u16,
}

impl Route {
    /// Returns whether super-packets with packets of at most `packet_len` bytes, from the IP header on, may be sent
    /// on the route. Not if the route transforms or encapsulates packets, as that would split them, nor on a local
    /// one: the loopback device takes only lists. The netdev must take page fragments.
    #[inline]
    pub fn takes_super_packets(&self, packet_len: u32) -> bool {
        let _guard = rcu::read_lock();
        // SAFETY: `dst` is valid by the type invariant, and RCU keeps its netdev.
        let suitable = unsafe {
            !bindings::ferroce_helper_dst_transforms(self.as_raw())
                && bindings::ferroce_helper_dst_takes_fragments(self.as_raw())
        };
        suitable && !self.encapsulates() && !self.is_local() && packet_len <= self.mtu()
    }
}

impl<'a> SuperPacket<'a> {
    /// Allocates a super-packet, whose payload will be in pages of `pool`. `None` if there is no memory.
    pub fn new(pool: &'a PagePool) -> Option<Self> {
        // CAST: A small constant.
        let room = HEADROOM.wrapping_add(MAX_HEADERS_LEN as u32);
        // SAFETY: `__alloc_skb` has no preconditions for an atomic allocation.
        let raw = unsafe {
            bindings::__alloc_skb(room, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1)
        };
        // SAFETY: C returned a new skb, or null. It is empty, and has `room` bytes of room.
        let skb = unsafe {
            let skb = OwnedSkb::new(raw)?;
            bindings::ferroce_helper_skb_reserve(raw, room as c_int);
            skb
        };
        // INVARIANT: The skb is owned and empty, with `room` bytes in front. There is no payload.
        Some(Self {
            skb,
            pages: pool.lease(),
            room: Room::NONE,
            pending: 0,
            payload_bytes: 0,
        })
    }

    /// Returns whether a super-packet can have that much payload.
    pub fn fits(payload_len: usize) -> bool {
        payload_len <= MAX_PAYLOAD_BYTES.wrapping_sub(MAX_HEADERS_LEN)
    }

    /// Returns the bytes of payload that were appended.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_bytes
    }

    /// Appends a copy of `len` bytes at `offset` of `memory`.
    ///
    /// # Errors
    ///
    /// Any error of [`Memory::read`]; the bytes in front of those that cannot be read are appended. `ENOMEM`, `ENOSPC`.
    #[inline]
    pub fn append(&mut self, memory: &Memory, offset: u64, len: usize) -> Result {
        memory.for_each_piece(offset, len, false, |from, len| {
            // SAFETY: The piece is present for `len` bytes until the closure returns.
            unsafe { self.append_raw(from, len) }
        })
    }

    /// Appends a copy of `bytes`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        // SAFETY: The slice is readable for its length.
        unsafe { self.append_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// Appends a copy of `len` bytes at `from`.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `len` bytes. A process may write to them meanwhile.
    #[inline]
    unsafe fn append_raw(&mut self, mut from: *const u8, mut len: usize) -> Result {
        // Terminates: each iteration copies some bytes, or goes on to a page that has room.
        while len != 0 {
            if self.room.len == 0 {
                self.next_page()?;
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
            self.payload_bytes = self.payload_bytes.wrapping_add(part);
            len = len.wrapping_sub(part);
        }
        Ok(())
    }

    /// Goes on to a page that has room: the current page of the ring at first, later the next one.
    #[cold]
    fn next_page(&mut self) -> Result {
        self.flush()?;
        let ring = &mut self.pages.ring;
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

    /// Passes the pending payload to the skb.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: the skb has no room for another page.
    fn flush(&mut self) -> Result {
        // CAST: At most the length of a page.
        let len = core::mem::take(&mut self.pending) as u32;
        // INVARIANT: There is no room until `next_page`: the ring counts the bytes as used.
        self.room = Room::NONE;
        if len == 0 {
            return Ok(());
        }
        let (page, start, _) = self.pages.ring.room();
        self.pages.ring.advance(len);
        // CAST: Offsets in a page are small.
        // SAFETY: The skb is owned. The page is referenced by the ring, and the skb gets its own reference.
        to_result(unsafe {
            let (start, len) = (start as c_int, len as c_int);
            bindings::ferroce_helper_skb_append_page(self.skb.as_raw(), page, start, len)
        })
    }

    /// Sends the first `payload_len` bytes with `header`, which describes as many, and counts the super-packet in
    /// `tx_inflight` if given.
    pub fn send(
        mut self,
        (header, payload_len): (&SuperPacketHeader<'_>, usize),
        route: &Route,
        tx_inflight: Option<&Arc<TxInflight>>,
    ) -> Xmit {
        let sealed = self.seal(header, payload_len);
        if sealed.is_err() || header.ip.addresses.is_v4() != route.is_v4() {
            return Xmit::Lost;
        }
        if let Some(tx_inflight) = tx_inflight {
            self.charge(tx_inflight);
        }
        let class = (header.ip.traffic_class, header.ip.priority);
        let Self { skb, pages, .. } = self;
        // The receiver may run in a softirq within `output`, and answer with a super-packet from the same pages.
        drop(pages);
        // SAFETY: The skb has its headers, of the family of the route. It is given away.
        unsafe { output(skb.into_raw(), route, class) }
    }

    /// Prepends the headers, and sets the fields of a super-packet.
    fn seal(&mut self, header: &SuperPacketHeader<'_>, payload_len: usize) -> Result {
        self.flush()?;
        let skb = self.skb.as_raw();
        // SAFETY: The skb is owned. CAST: `u32` to `usize`, which has 64 bits.
        let appended = unsafe { (*skb).len as usize };
        if header.headers.len() > MAX_HEADERS_LEN || payload_len > appended {
            return Err(EINVAL);
        }
        let protocol = protocol(header.ip.addresses.is_v4()).to_be();
        // CAST: At most `payload_bytes`, which fits.
        // SAFETY: The skb is owned. By the type invariant it has room for all headers, and its payload is complete. The
        // inner headers begin where its own headers do.
        unsafe {
            to_result(bindings::ferroce_helper_pskb_trim(skb, payload_len as u32))?;
            push(skb, header.headers);
            bindings::ferroce_helper_skb_set_inner(skb, protocol);
            push_headers(skb, header.ip, header.ports).ok_or(ENOSPC)?;
            bindings::ferroce_helper_skb_set_super_packet(skb, header.longest, header.packets);
        }
        Ok(())
    }

    /// Counts the super-packet in `tx_inflight`, by the destructor of an empty skb on its frag_list: IP on receive
    /// calls the destructor of the first skb early (`skb_orphan`). The splitter passes it on to the last packet.
    /// Without memory the super-packet is not counted.
    fn charge(&self, tx_inflight: &Arc<TxInflight>) {
        // SAFETY: `__alloc_skb` has no preconditions for an atomic allocation. The list takes over the new skb, which
        // has neither destructor nor socket.
        unsafe {
            let skb = self.skb.as_raw();
            let counted =
                bindings::__alloc_skb(0, bindings::GFP_ATOMIC | bindings::__GFP_NOWARN, 0, -1);
            if !counted.is_null() {
                bindings::ferroce_helper_skb_list_add(skb, ptr::null_mut(), counted);
                tx_inflight.charge(counted, (*skb).truesize as usize);
            }
        }
    }
}
