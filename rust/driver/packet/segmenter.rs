// SPDX-License-Identifier: GPL-2.0

//! Splits a super-packet into packets and sends them.
//!
//! The engines create a [`Segmenter`] for each [`TxDesc`] and copy its payload into it, in process context or softirq.
//! The code that reads the memory does not see packet boundaries, so it looks the memory up once for all packets.

use crate::{
    mem::payload::PayloadSink,
    packet::{
        path::Path,
        tx_packet::TxPacket, //
    },
    port::{
        counters::EngineTraffic,
        state::Port, //
    }, //
};
use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::tx::gso_list::MAX_GSO_PACKETS, //
};
use roce::{
    access::Obstacle,
    segmentation::{
        gso::{
            PacketSplitter,
            MAX_COALESCED_PACKETS, //
        },
        mtu::Mtu,
        tx_desc::TxDesc, //
    }, //
};

// CAST: `u16` to `u32`.
const _: () = assert!(
    MAX_COALESCED_PACKETS == MAX_GSO_PACKETS as u32,
    "a full super-packet must be a full GSO list"
);

/// The packets of a super-packet that were not sent.
pub(crate) struct Unsent<E> {
    /// Why their payload could not be read.
    pub(crate) reason: Obstacle<E>,
    /// Number of packets, counted from the end of the super-packet.
    pub(crate) packets: u32,
}

/// Splits one super-packet into packets.
pub(crate) struct Segmenter<'a> {
    path: &'a mut Path,
    port_and_traffic: (&'a Port, &'a EngineTraffic),
    splitter: PacketSplitter,
    /// The packet under construction, and the bytes of payload that it still lacks.
    tx_packet: Option<(TxPacket, u32)>,
    /// Packets that are not sent yet.
    remaining: u32,
}

impl<'a> Segmenter<'a> {
    /// Creates a segmenter that sends the packets of `desc` along `path`.
    pub(crate) fn new(
        path: &'a mut Path,
        port_and_traffic: (&'a Port, &'a EngineTraffic),
        (desc, mtu): (&'a TxDesc, Mtu),
    ) -> Self {
        Self {
            path,
            port_and_traffic,
            splitter: desc.split(mtu),
            tx_packet: None,
            remaining: desc.packets,
        }
    }

    /// Returns the number of packets that are not sent yet.
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Ends the super-packet. `sent` is the result of reading its payload. `Ok`: the memory was readable. Packets
    /// still remaining could not be allocated and count as lost.
    ///
    /// # Errors
    ///
    /// The reason why the payload could not be read, with the number of remaining packets.
    pub(crate) fn end<T, E>(self, sent: Result<T, Obstacle<E>>) -> Result<(), Unsent<E>> {
        let packets = self.remaining;
        sent.map_err(|reason| Unsent { reason, packets })?;
        self.port_and_traffic.0.counters().not_sent(packets);
        Ok(())
    }

    /// Sends the only packet of a descriptor without payload.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn send_empty(&mut self) -> Result {
        let (tx_packet, _) = self.start_packet()?;
        self.send(tx_packet);
        Ok(())
    }

    /// Appends `len` bytes to the next packets. Calls `append` once per packet, with the offset and the length of the
    /// bytes for that packet.
    #[inline]
    fn append_split(
        &mut self,
        len: u32,
        mut append: impl FnMut(&mut TxPacket, u32, u32) -> Result,
    ) -> Result {
        let mut offset = 0u32;
        // Terminates: each iteration fills a packet or is the last.
        while offset < len {
            let (mut tx_packet, missing) = match self.tx_packet.take() {
                Some(started) => started,
                None => self.start_packet()?,
            };
            let part_len = missing.min(len.wrapping_sub(offset));
            append(&mut tx_packet, offset, part_len)?;
            offset = offset.wrapping_add(part_len);
            match missing.wrapping_sub(part_len) {
                0 => self.send(tx_packet),
                missing => self.tx_packet = Some((tx_packet, missing)),
            }
        }
        Ok(())
    }

    /// Starts the next packet. Returns it with the length of its payload.
    #[inline]
    fn start_packet(&mut self) -> Result<(TxPacket, u32)> {
        let (headers, len) = self.splitter.advance().ok_or(ENOSPC)?;
        // CAST: At most one path MTU.
        let tx_packet = self.path.tx_packet(headers, len as usize);
        Ok((tx_packet.ok_or(ENOMEM)?, len))
    }

    /// Sends a packet. If the GSO list is full, the list goes to the stack from here, although the caller may be a
    /// reader of the [`RwRevocable`](rdma::sync::rw_revocable::RwRevocable) of the memory. That cannot deadlock,
    /// because no engine runs inside the call. The stack does not receive a local packet at once: it queues the packet
    /// for a softirq, which runs only after the reader has left. If the stack frees buffers that an engine waits for, a
    /// work item resumes that engine.
    #[inline]
    fn send(&mut self, tx_packet: TxPacket) {
        self.path.send(self.port_and_traffic, tx_packet);
        self.remaining = self.remaining.saturating_sub(1);
    }
}

impl PayloadSink for Segmenter<'_> {
    #[inline]
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result {
        self.append_split(len, |tx_packet, from, len| {
            tx_packet.append(memory, offset.wrapping_add(from.into()), len)
        })
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        let len = u32::try_from(bytes.len()).map_err(|_| ENOSPC)?;
        self.append_split(len, |tx_packet, from, len| {
            // CAST: `usize` has 64 bits.
            let rest = bytes.get(from as usize..).ok_or(ENOSPC)?;
            tx_packet.append_bytes(rest.get(..len as usize).ok_or(ENOSPC)?)
        })
    }
}
