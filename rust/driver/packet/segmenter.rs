// SPDX-License-Identifier: GPL-2.0

//! Sends a super-packet: unsplit, or split into packets.
//!
//! The engines create a [`Segmenter`] for each [`TxDesc`] and copy its payload into it, in process context or softirq.
//! The code that reads the memory does not see packet boundaries, so it looks the memory up once for all packets.

use crate::{
    mem::payload::PayloadSink,
    packet::{
        path::{
            Path,
            TxContext, //
        },
        tx_packet::TxPacket, //
    },
};
use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::tx::{
        gso_list::MAX_GSO_PACKETS,
        super_packet::SuperPacket, //
    }, //
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

/// Sends one super-packet.
pub(crate) struct Segmenter<'a> {
    path: &'a mut Path,
    tx: TxContext<'a>,
    desc_and_mtu: (&'a TxDesc, Mtu),
    payload: Payload<'a>,
}

/// What the payload is copied to.
enum Payload<'a> {
    /// One buffer, sent at the end.
    Unsplit(SuperPacket<'a>),
    /// Packets, each sent when it is complete.
    Packets {
        splitter: PacketSplitter,
        /// The packet under construction, and the bytes of payload that it still lacks.
        tx_packet: Option<(TxPacket, u32)>,
        /// Packets that are not sent yet.
        remaining: u32,
    },
}

impl<'a> Segmenter<'a> {
    /// Creates a segmenter that sends the packets of `desc` along `path`.
    #[inline]
    pub(crate) fn new(
        path: &'a mut Path,
        tx: TxContext<'a>,
        desc_and_mtu: (&'a TxDesc, Mtu),
    ) -> Self {
        let (desc, mtu) = desc_and_mtu;
        let payload = match path.super_packet(tx.port, desc_and_mtu) {
            Some(super_packet) => Payload::Unsplit(super_packet),
            None => Payload::Packets {
                splitter: desc.split(mtu),
                tx_packet: None,
                remaining: desc.packets,
            },
        };
        Self {
            path,
            tx,
            desc_and_mtu,
            payload,
        }
    }

    /// Returns the number of packets that lack payload, or are not sent for another reason.
    pub(crate) fn remaining(&self) -> u32 {
        match &self.payload {
            Payload::Packets { remaining, .. } => *remaining,
            Payload::Unsplit(super_packet) => {
                let (desc, mtu) = self.desc_and_mtu;
                desc.packets
                    .saturating_sub(complete_packets(super_packet, desc, mtu))
            }
        }
    }

    /// Ends the super-packet, and sends what was not sent yet. `sent` is the result of reading its payload. `Ok`: the
    /// memory was readable. Packets still remaining could not be allocated and count as lost.
    ///
    /// # Errors
    ///
    /// The reason why the payload could not be read, with the number of remaining packets.
    pub(crate) fn end<T, E>(self, sent: Result<T, Obstacle<E>>) -> Result<(), Unsent<E>> {
        let packets = self.remaining();
        if let Payload::Unsplit(super_packet) = self.payload {
            let (desc, mtu) = self.desc_and_mtu;
            let shorter = desc.first_packets(desc.packets.saturating_sub(packets), mtu);
            let sendable = match packets {
                0 => Some(desc),
                _ => shorter.as_ref(),
            };
            if let Some(desc) = sendable {
                self.path
                    .send_super_packet(self.tx, (desc, mtu), super_packet);
            }
        }
        sent.map_err(|reason| Unsent { reason, packets })?;
        self.tx.port.counters().not_sent(packets);
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
            let started = match &mut self.payload {
                Payload::Packets { tx_packet, .. } => tx_packet.take(),
                Payload::Unsplit(_) => None,
            };
            let (mut tx_packet, missing) = match started {
                Some(started) => started,
                None => self.start_packet()?,
            };
            let part_len = missing.min(len.wrapping_sub(offset));
            append(&mut tx_packet, offset, part_len)?;
            offset = offset.wrapping_add(part_len);
            match missing.wrapping_sub(part_len) {
                0 => self.send(tx_packet),
                missing => self.keep_packet(tx_packet, missing),
            }
        }
        Ok(())
    }

    /// Starts the next packet. Returns it with the length of its payload.
    #[inline]
    fn start_packet(&mut self) -> Result<(TxPacket, u32)> {
        let Payload::Packets { splitter, .. } = &mut self.payload else {
            return Err(ENOSPC);
        };
        let (headers, len) = splitter.advance().ok_or(ENOSPC)?;
        // CAST: At most one path MTU.
        let tx_packet = self.path.tx_packet(headers, len as usize);
        Ok((tx_packet.ok_or(ENOMEM)?, len))
    }

    /// Keeps a packet that lacks `missing` bytes of payload.
    #[inline]
    fn keep_packet(&mut self, started: TxPacket, missing: u32) {
        if let Payload::Packets { tx_packet, .. } = &mut self.payload {
            *tx_packet = Some((started, missing));
        }
    }

    /// Sends a packet. If the GSO list is full, the list goes to the stack from here, although the caller may be a
    /// reader of the [`RwRevocable`](rdma::sync::rw_revocable::RwRevocable) of the memory. That cannot deadlock,
    /// because no engine runs inside the call. The stack does not receive a local packet at once: it queues the packet
    /// for a softirq, which runs only after the reader has left. If the stack frees buffers that an engine waits for, a
    /// work item resumes that engine.
    #[inline]
    fn send(&mut self, tx_packet: TxPacket) {
        self.path.send(self.tx, tx_packet);
        if let Payload::Packets { remaining, .. } = &mut self.payload {
            *remaining = remaining.saturating_sub(1);
        }
    }
}

/// Returns the number of packets of `desc` whose payload `super_packet` has. A single one does not count, as it would
/// not be a super-packet.
fn complete_packets(super_packet: &SuperPacket<'_>, desc: &TxDesc, mtu: Mtu) -> u32 {
    // CAST: `u32` to `usize`, which has 64 bits; then at most the length of the message.
    if super_packet.payload_len() == desc.length as usize {
        return desc.packets;
    }
    match super_packet.payload_len() as u32 / mtu.bytes() {
        1 => 0,
        packets => packets,
    }
}

impl PayloadSink for Segmenter<'_> {
    #[inline]
    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result {
        if let Payload::Unsplit(super_packet) = &mut self.payload {
            // CAST: `u32` to `usize`, which has 64 bits.
            return super_packet.append(memory, offset, len as usize);
        }
        self.append_split(len, |tx_packet, from, len| {
            tx_packet.append(memory, offset.wrapping_add(from.into()), len)
        })
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        if let Payload::Unsplit(super_packet) = &mut self.payload {
            return super_packet.append_bytes(bytes);
        }
        let len = u32::try_from(bytes.len()).map_err(|_| ENOSPC)?;
        self.append_split(len, |tx_packet, from, len| {
            // CAST: `usize` has 64 bits.
            let rest = bytes.get(from as usize..).ok_or(ENOSPC)?;
            tx_packet.append_bytes(rest.get(..len as usize).ok_or(ENOSPC)?)
        })
    }
}
