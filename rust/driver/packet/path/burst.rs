// SPDX-License-Identifier: GPL-2.0

//! The burst that a path collects: packets of one or more messages in one buffer. What becomes of it is decided when it
//! is transmitted.
//!
//! A route that takes super-packets gets it unsplit. For any other, and where each packet must be sent by itself, the
//! packets are made here: one is finished in its buffer, several are split from it.

use super::{
    is_admitted,
    trace_fields,
    Path,
    TxContext, //
};
use crate::{
    mem::payload::PayloadSink,
    packet::{
        icrc::{
            trailer_len,
            KernelCrc,
            Trailer, //
        },
        roce_splitter::RoceSplitter, //
    }, //
};
use kernel::{
    prelude::*,
    sync::rcu, //
};
use rdma::{
    ib::trace,
    mm::memory::Memory,
    net::{
        route::Route,
        super_packet::format::EntrySize,
        tx::{
            output::Xmit,
            skb::TxSkb,
            super_packet::{
                SuperPacket,
                SuperPacketHeader,
                SuperPacketShape,
                TxPackets, //
            }, //
        }, //
    }, //
};
use roce::{
    access::Obstacle,
    segmentation::{
        mtu::Mtu,
        tx_desc::TxDesc, //
    },
    wire::{
        icrc::Icrc,
        ip::ROCE_UDP_PORT, //
    }, //
};

/// Packets that wait for more.
pub(super) struct Burst {
    buffer: SuperPacket,
    /// The first entry, whose headers are prepended last.
    first: TxDesc,
    /// Packets of the complete entries, and their bytes of UDP payload.
    packets: u16,
    bytes: usize,
    /// Length of the longest packet in bytes, from its BTH to its ICRC.
    longest: usize,
}

/// How a burst is transmitted.
enum Form {
    /// As a super-packet.
    Unsplit,
    /// Its only packet.
    Single,
    /// Its packets one by one.
    Packets,
}

/// The packets of a [`TxDesc`] that were not sent.
pub(crate) struct Unsent<E> {
    /// Why their payload could not be read.
    pub(crate) reason: Obstacle<E>,
    /// Number of packets, counted from the end.
    pub(crate) packets: u32,
}

/// Adds the packets of one [`TxDesc`] to the burst of a path. The code that reads the memory does not see packet
/// boundaries, so it looks the memory up once for all packets.
pub(crate) struct EntryWriter<'a> {
    path: &'a mut Path,
    tx: TxContext<'a>,
    desc: &'a TxDesc,
    mtu: Mtu,
    /// Length of the buffer before the entry, and before its payload; `None` if the entry could not be begun.
    starts: Option<(usize, usize)>,
}

impl<'a> EntryWriter<'a> {
    /// Begins an entry for the packets of `desc`, in a new burst if the one that is collected has no room.
    #[inline]
    pub(crate) fn new(
        path: &'a mut Path,
        tx: TxContext<'a>,
        (desc, mtu): (&'a TxDesc, Mtu),
    ) -> Self {
        let starts = path.begin_entry(tx, desc);
        Self {
            path,
            tx,
            desc,
            mtu,
            starts,
        }
    }

    /// Returns the number of packets that lack payload, or are not sent for another reason.
    pub(crate) fn remaining(&self) -> u32 {
        let (Some((_, start)), Some(burst)) = (self.starts, &self.path.burst) else {
            return self.desc.packets;
        };
        // CAST: At most 64 KiB.
        match burst.buffer.len().saturating_sub(start) as u32 {
            written if written == self.desc.length => 0,
            // The other entries of the burst are sent without this one.
            _ if burst.packets != 0 => self.desc.packets,
            written => self.desc.packets.saturating_sub(written / self.mtu.bytes()),
        }
    }

    /// Ends the entry. `read` is the result of reading its payload. `Ok`: the memory was readable. Packets still
    /// remaining could not be allocated and count as lost.
    ///
    /// # Errors
    ///
    /// The reason why the payload could not be read, with the number of remaining packets.
    #[inline]
    pub(crate) fn end<T, E>(self, read: Result<T, Obstacle<E>>) -> Result<(), Unsent<E>> {
        let packets = self.remaining();
        match (packets, self.starts, &mut self.path.burst) {
            (0, _, Some(burst)) => burst.add(self.desc, self.mtu),
            (_, Some((start, _)), Some(_)) => self.path.cut_entry(
                self.tx,
                (self.desc, self.mtu),
                (start, self.desc.packets.saturating_sub(packets)),
            ),
            _ => {}
        }
        read.map_err(|reason| Unsent { reason, packets })?;
        if packets != 0 {
            self.tx.port.counters().not_sent(packets);
        }
        Ok(())
    }

    /// Returns the buffer, if the entry could be begun.
    #[inline]
    fn buffer(&mut self) -> Result<&mut SuperPacket> {
        let burst = self.path.burst.as_mut().filter(|_| self.starts.is_some());
        burst.map(|burst| &mut burst.buffer).ok_or(ENOMEM)
    }
}

impl PayloadSink for EntryWriter<'_> {
    #[inline]
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result {
        let pool = self.tx.port.page_pool();
        // CAST: `u32` to `usize`, which has 64 bits.
        self.buffer()?.append(pool, memory, offset, len as usize)
    }

    #[inline]
    fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        let pool = self.tx.port.page_pool();
        self.buffer()?.append_bytes(pool, bytes)
    }
}

impl Burst {
    /// Adds a complete entry, whose packets `desc` describes.
    #[inline]
    fn add(&mut self, desc: &TxDesc, mtu: Mtu) {
        // CAST: At most 64.
        self.packets = self.packets.wrapping_add(desc.packets as u16);
        self.bytes = self.bytes.wrapping_add(desc.wire_len(mtu));
        self.longest = self.longest.max(desc.longest_packet(mtu));
        trace::packet_out(|| {
            let payload_len = desc.length as usize;
            trace_fields(desc.headers.emit(payload_len).as_slice(), payload_len)
        });
    }

    /// Returns how the super-packet is divided.
    fn shape(&self) -> SuperPacketShape {
        let headers_len = self.first.headers.encoded_len();
        let len = headers_len.wrapping_add(self.first.length as usize);
        // CAST: A super-packet has less than 64 KiB, and 64 packets at most.
        SuperPacketShape {
            first: EntrySize {
                len: len as u16,
                packets: self.first.packets as u16,
            },
            packets: self.packets,
            longest: self.longest as u16,
        }
    }
}

impl Path {
    /// Sends a packet without payload. If there is no memory for it, it is lost.
    pub(crate) fn send_empty(&mut self, tx: TxContext<'_>, desc_and_mtu: (&TxDesc, Mtu)) {
        let written = Ok::<_, Obstacle<()>>(());
        let _ = EntryWriter::new(self, tx, desc_and_mtu).end(written);
    }

    /// Begins an entry for the packets of `desc`. Returns the length of the buffer before it, and before its payload.
    /// `None`: no memory.
    #[inline]
    fn begin_entry(&mut self, tx: TxContext<'_>, desc: &TxDesc) -> Option<(usize, usize)> {
        // CAST: `u32` to `usize`, which has 64 bits.
        let payload_len = desc.length as usize;
        let len = desc.headers.encoded_len().wrapping_add(payload_len);
        // CAST: At most 64.
        let packets = desc.packets as u16;
        let full = |burst: &Burst| !burst.buffer.fits(len, packets, burst.packets);
        if self.burst.as_ref().is_some_and(full) {
            self.transmit_burst(tx);
        }
        let Some(Burst { buffer, .. }) = &mut self.burst else {
            self.burst = Some(Burst {
                buffer: SuperPacket::new()?,
                first: *desc,
                packets: 0,
                bytes: 0,
                longest: 0,
            });
            return Some((0, 0));
        };
        let start = buffer.len();
        // CAST: It fits, so that it has less than 64 KiB.
        let size = EntrySize {
            len: len as u16,
            packets,
        };
        let headers = desc.headers.emit(payload_len);
        let begun = buffer.begin_entry(tx.port.page_pool(), headers.as_slice(), size);
        let payload = buffer.len();
        if begun.is_err() {
            self.truncate_burst(tx, start);
            return None;
        }
        Some((start, payload))
    }

    /// Ends an entry that begins at `start`, of which `complete` packets have their payload. They are sent if no other
    /// entry precedes them; otherwise the headers of the entry cannot be changed any more.
    #[cold]
    fn cut_entry(
        &mut self,
        tx: TxContext<'_>,
        (desc, mtu): (&TxDesc, Mtu),
        (start, complete): (usize, u32),
    ) {
        let Some(burst) = &mut self.burst else {
            return;
        };
        match desc.first_packets(complete, mtu) {
            Some(shorter) if burst.packets == 0 => {
                burst.first = shorter;
                burst.add(&shorter, mtu);
                // CAST: `u32` to `usize`, which has 64 bits.
                self.truncate_burst(tx, shorter.length as usize);
            }
            _ if burst.packets == 0 => self.burst = None,
            _ => self.truncate_burst(tx, start),
        }
    }

    /// Drops what was written behind the first `len` bytes of the burst. If that fails, the burst is lost.
    #[cold]
    fn truncate_burst(&mut self, tx: TxContext<'_>, len: usize) {
        let Some(burst) = &mut self.burst else {
            return;
        };
        let lost = (burst.packets, burst.bytes);
        if burst.buffer.truncate(len).is_err() {
            self.burst = None;
            self.count(tx, lost, Xmit::Lost);
        }
    }

    /// Passes the burst to the stack, if there is one.
    pub(super) fn transmit_burst(&mut self, tx: TxContext<'_>) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let guard = rcu::read_lock();
        self.update_route(tx.port, &guard);
        // CAST: `u32` to `usize`, which has 64 bits.
        let headers = burst.first.headers.emit(burst.first.length as usize);
        let (shape, all) = (burst.shape(), (burst.packets, burst.bytes));
        let ip = self.ip_header();
        // The packets have consecutive identifications.
        self.ipv4_id = self.ipv4_id.wrapping_add(burst.packets);
        let header = SuperPacketHeader {
            headers: headers.as_slice(),
            ip: &ip,
            ports: (self.source_port, ROCE_UDP_PORT),
        };
        let pool = tx.port.page_pool();
        match self.form(tx, &burst) {
            Form::Unsplit => {
                self.on_gso_sent(burst.bytes);
                let skb = burst.buffer.into_unsplit(pool, &header, &shape);
                self.output(tx, skb, all, &guard);
            }
            Form::Single => {
                let skb = self.finish(tx, burst, &header);
                self.output(tx, skb, all, &guard);
            }
            Form::Packets => {
                match burst
                    .buffer
                    .into_packets::<RoceSplitter>(pool, &header, &shape)
                {
                    Ok(split) => self.send_packets(tx, split, &guard),
                    Err(_) => self.count(tx, all, Xmit::Lost),
                }
            }
        }
    }

    /// Returns how to transmit a burst on the route.
    #[inline]
    fn form(&self, tx: TxContext<'_>, burst: &Burst) -> Form {
        let single = burst.packets == 1;
        let may_be_unsplit =
            !self.singly && tx.port.sends_super_packets() && (!single || self.detects_gso_loss);
        // CAST: Little more than a path MTU.
        let longest = burst.longest.wrapping_add(self.masked.as_bytes().len()) as u32;
        let takes = |route: &Route| route.takes_super_packets(longest, single);
        if may_be_unsplit && self.route.as_ref().is_some_and(takes) {
            return Form::Unsplit;
        }
        match single && !tx.port.impairments().any() {
            true => Form::Single,
            false => Form::Packets,
        }
    }

    /// Returns the only packet of `burst`, with its ICRC. `None`: no memory.
    fn finish(
        &mut self,
        tx: TxContext<'_>,
        burst: Burst,
        header: &SuperPacketHeader<'_>,
    ) -> Option<TxSkb> {
        let mut buffer = burst.buffer;
        let payload_len = buffer.len();
        let udp_payload = header
            .headers
            .len()
            .wrapping_add(payload_len)
            .wrapping_add(trailer_len(payload_len));
        self.masked.set_packet(header.ip.ipv4_id, udp_payload);
        let mut icrc = Icrc::<KernelCrc>::headers(&self.masked, header.headers);
        if payload_len != 0 {
            let mut read = Ok(());
            icrc = icrc.payload_with(|crc| {
                let continued = buffer.crc32(crc);
                continued.unwrap_or_else(|error| {
                    read = Err(error);
                    crc
                })
            });
            read.ok()?;
        }
        let trailer = Trailer::new(icrc, payload_len);
        buffer.into_packet(tx.port.page_pool(), header, trailer.as_slice())
    }

    /// Sends packets one by one.
    fn send_packets(&mut self, tx: TxContext<'_>, mut split: TxPackets, guard: &rcu::Guard) {
        let impaired = tx.port.impairments().any();
        while split.has_next() {
            if impaired {
                self.send_impaired(tx, &mut split, guard);
                continue;
            }
            let skb = split.next(|class| class);
            self.output_packet(tx, skb, guard);
        }
    }

    /// Passes a packet to the stack.
    pub(super) fn output_packet(
        &mut self,
        tx: TxContext<'_>,
        skb: Option<TxSkb>,
        guard: &rcu::Guard,
    ) {
        let bytes = skb.as_ref().map_or(0, TxSkb::udp_payload_len);
        self.output(tx, skb, (1, bytes), guard);
    }

    /// Passes packets to the stack, and counts them. `None` if they were lost.
    fn output(
        &mut self,
        tx: TxContext<'_>,
        skb: Option<TxSkb>,
        (packets, bytes): (u16, usize),
        guard: &rcu::Guard,
    ) {
        let tx_inflight = self.tx_inflight.as_ref().filter(|_| self.counted);
        let sent = match (skb, &self.route) {
            // Counts as sent, as if the receiver had dropped the packets: the sender must not learn the difference.
            (Some(_), Some(route)) if !is_admitted(self.qpns, (tx.port, route), packets, guard) => {
                Xmit::Sent
            }
            (Some(skb), Some(route)) => skb.send(route, tx_inflight),
            _ => Xmit::Lost,
        };
        self.count(tx, (packets, bytes), sent);
    }
}
