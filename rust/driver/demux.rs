// SPDX-License-Identifier: GPL-2.0

//! From a received packet to the queue pair it is for.
//!
//! Owns the numbers of all queue pairs of this module and the checks that need no queue pair:
//! form, ICRC, destination. Numbers are unique over all devices, so a packet finds its queue pair
//! however it came in: over the device's own netdev, a VLAN on top of it, or the loopback device.
//! The queue pair itself checks that the packet comes from its peer.

use crate::{
    arrival::{
        gather_headers,
        packet,
        verify, //
    },
    qp::Qp, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    }, //
};
use rdma::{
    net::{
        rx::RxSkb,
        udp_tunnel::Receive, //
    },
    table::Table, //
};
use roce::{
    status::DropReason,
    wire::opcode::Service, //
};

/// Numbers of queue pairs. Those below belong to the management queue pairs.
const NUMBERS: core::ops::Range<u32> = 16..0xff_ffff;

/// The queue pairs of all devices, by number.
#[pin_data]
pub(crate) struct Demux {
    #[pin]
    qps: Table<Qp>,
}

impl Demux {
    /// No queue pairs.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { qps <- Table::new() })
    }

    /// Gives `qp` a number; packets find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when every number is taken.
    pub(crate) fn insert(&self, qp: Arc<Qp>) -> Result<u32> {
        self.qps.alloc_cyclic(NUMBERS, qp)
    }

    /// Takes the number back. When it returns, no packet finds the queue pair any more.
    pub(crate) fn remove(&self, number: u32) {
        drop(self.qps.remove(number));
    }

    /// Hands `skb` to its queue pair.
    fn deliver(&self, mut skb: RxSkb, guard: &rcu::Guard) -> Result<(), DropReason> {
        gather_headers(&mut skb)?;
        let packet = packet(&skb)?;
        let number = packet.dest_qpn().get();
        let qp = self
            .qps
            .borrow(number, guard)
            .ok_or(DropReason::UnknownQp)?;

        let len = skb.udp_payload_len();
        let is_request = packet.opcode().is_request();
        let checked = if packet.opcode().service() == Service::Rc {
            verify(&skb, &packet)
        } else {
            Err(DropReason::WrongService)
        };
        match checked {
            Ok(()) if is_request => qp.request_arrived(skb, len),
            Ok(()) => qp.response_arrived(skb, len),
            // The reason is counted where the packet was going.
            Err(reason) => qp.common().port().counters().dropped(reason),
        }
        Ok(())
    }
}

impl Receive for Demux {
    fn receive(&self, skb: RxSkb) {
        let guard = rcu::read_lock();
        // A packet for nobody belongs to no device whose counter it could be.
        let _ = self.deliver(skb, &guard);
    }
}
