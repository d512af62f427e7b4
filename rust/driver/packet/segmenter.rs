// SPDX-License-Identifier: GPL-2.0

//! The packets of one segment, in the making, one behind the other.
//!
//! Owns where the payload is cut. Whoever brings it knows nothing of packets, so memory is looked up once for all of
//! them. Does not know where the payload comes from.

use crate::{
    mem::payload::PayloadSink,
    packet::{
        path::Path,
        tx_packet::TxPacket, //
    },
    port::{
        counters::Traffic,
        state::Port, //
    }, //
};
use kernel::prelude::*;
use rdma::mm::memory::Memory;
use roce::{
    access::Obstacle,
    segmentation::{
        gso::PacketSplitter,
        mtu::Mtu,
        tx_desc::TxDesc, //
    }, //
};

/// What became of packets that were not sent.
pub(crate) struct Unsent<E> {
    /// Why not: memory.
    pub(crate) why: Obstacle<E>,
    /// How many, the last of their segment.
    pub(crate) packets: u32,
}

/// The packets of one segment.
pub(crate) struct Segmenter<'a> {
    path: &'a mut Path,
    way: (&'a Port, &'a Traffic),
    packets: PacketSplitter,
    /// The packet in the making, and how many bytes it lacks.
    tx_packet: Option<(TxPacket, u32)>,
    /// How many are not done.
    left: u32,
}

impl<'a> Segmenter<'a> {
    /// None of the packets of `segment` yet. They leave along `path`.
    pub(crate) fn new(
        path: &'a mut Path,
        way: (&'a Port, &'a Traffic),
        (segment, mtu): (&'a TxDesc, Mtu),
    ) -> Self {
        Self {
            path,
            way,
            packets: segment.split(mtu),
            tx_packet: None,
            left: segment.packets,
        }
    }

    /// How many packets are not done.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Ends with what became of the payload. Packets that are not done although it could be read are lost.
    ///
    /// # Errors
    ///
    /// Why it could not be read, and how many packets are not done.
    pub(crate) fn end<T, E>(self, sent: Result<T, Obstacle<E>>) -> Result<(), Unsent<E>> {
        let packets = self.left;
        sent.map_err(|why| Unsent { why, packets })?;
        self.way.0.counters().not_sent(packets);
        Ok(())
    }

    /// Sends the packet of a segment without payload.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn finish(&mut self) -> Result {
        let (tx_packet, _) = self.next()?;
        self.send(tx_packet);
        Ok(())
    }

    /// Has `append` append `len` bytes, each time those of a packet that begin at this one of them.
    #[inline]
    fn feed(
        &mut self,
        len: u32,
        mut append: impl FnMut(&mut TxPacket, u32, u32) -> Result,
    ) -> Result {
        let mut from = 0u32;
        // Ends: each round fills a packet or is the last.
        while from < len {
            let (mut tx_packet, lacks) = match self.tx_packet.take() {
                Some(begun) => begun,
                None => self.next()?,
            };
            let part = lacks.min(len.wrapping_sub(from));
            append(&mut tx_packet, from, part)?;
            from = from.wrapping_add(part);
            match lacks.wrapping_sub(part) {
                0 => self.send(tx_packet),
                lacks => self.tx_packet = Some((tx_packet, lacks)),
            }
        }
        Ok(())
    }

    /// Starts the next packet.
    #[inline]
    fn next(&mut self) -> Result<(TxPacket, u32)> {
        let (headers, len) = self.packets.advance().ok_or(ENOSPC)?;
        // CAST: At most one path MTU.
        let tx_packet = self.path.tx_packet(headers, len as usize);
        Ok((tx_packet.ok_or(ENOMEM)?, len))
    }

    /// Whoever appends may be inside of the [`RwRevocable`](rdma::sync::rw_revocable::Gate) of the memory, and a burst that is full
    /// leaves from here. That is safe: on its way out a packet is received by nobody, as devices put what is for
    /// this machine in a queue, for a softirq that does not run before the gate is left; and who waits for the
    /// network to have room gets a work item.
    #[inline]
    fn send(&mut self, tx_packet: TxPacket) {
        self.path.send(self.way, tx_packet);
        self.left = self.left.saturating_sub(1);
    }
}

impl PayloadSink for Segmenter<'_> {
    #[inline]
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result {
        self.feed(len, |tx_packet, from, len| {
            tx_packet.append(memory, offset.wrapping_add(from.into()), len)
        })
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        let len = u32::try_from(bytes.len()).map_err(|_| ENOSPC)?;
        self.feed(len, |tx_packet, from, len| {
            // CAST: `u32` to `usize`, on 64 bits.
            let rest = bytes.get(from as usize..).ok_or(ENOSPC)?;
            tx_packet.append_bytes(rest.get(..len as usize).ok_or(ENOSPC)?)
        })
    }
}
