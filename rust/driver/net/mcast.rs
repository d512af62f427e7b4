// SPDX-License-Identifier: GPL-2.0

//! Multicast: which queue pairs get a copy of what is sent to a group.
//!
//! Owns the groups of all devices, and who is attached. Each queue pair that is attached to a group joins
//! the interface below to it, and takes that back when it leaves; so packets arrive without anybody else's
//! help. Does not know what a packet holds.
//!
//! A packet that a machine sends to a group of its own comes back by IP, which makes a copy. So a queue
//! pair that is attached to the group it sends to gets what it sends, as InfiniBand has it.

use crate::{
    limits::{
        MAX_MCAST_ATTACHED,
        MAX_MCAST_GROUPS, //
    },
    port::state::Port,
    qp::any_qp::AnyQp, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        rcu,
        Arc,
        Mutex, //
    }, //
};
use rdma::{
    net::{
        mcast::Membership,
        netdev::NetDevBorrow,
        rtnl::Rtnl,
        rx::skb::RxSkb, //
    },
    sync::rcu_table::RcuTable,
    util::random, //
};
use roce::{
    status::DropReason,
    wire::opcode::Opcode, //
};

/// Chains that the attached queue pairs are spread over, by the address of the group.
const CHAINS: usize = 256;

/// A queue pair that is attached to a group.
#[pin_data]
struct McastMember {
    #[pin]
    membership: Membership,
    qp: Arc<AnyQp>,
}

impl McastMember {
    fn is_of(&self, port: &Port, group: &[u8; 16]) -> bool {
        self.is_at(port) && self.membership.group() == group
    }

    fn is_at(&self, port: &Port) -> bool {
        core::ptr::eq(self.qp.shared().port(), port)
    }
}

/// The groups of all devices.
#[pin_data]
pub(crate) struct Groups {
    #[pin]
    chains: [RcuTable<McastMember>; CHAINS],
    /// Nobody knows which groups share a chain.
    seed: u32,
    /// One attaches or leaves at a time. Outside RTNL.
    #[pin]
    changing: Mutex<()>,
}

impl Groups {
    /// No groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            chains <- pin_init::pin_init_array_from_fn(|_| RcuTable::new()),
            seed: random::u32(),
            changing <- new_mutex!((), "ferroce::Groups"),
        })
    }

    /// Attaches `qp` to `group`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is; `ENOMEM` for more than was reported, or without memory; `EADDRNOTAVAIL` if
    /// the interface does not speak that version of IP; `ENODEV` if it is going away.
    pub(crate) fn attach(&self, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        let port = qp.shared().port();
        let _changing = self.changing.lock();
        let chain = self.chain(group).ok_or(ENOMEM)?;
        let attached = {
            let guard = rcu::read_lock();
            let mut attached = 0u32;
            for member in chain.iter(&guard).filter(|one| one.is_of(port, group)) {
                if Arc::ptr_eq(&member.qp, qp) {
                    return Err(EEXIST);
                }
                attached = attached.saturating_add(1);
            }
            attached
        };
        if attached >= MAX_MCAST_ATTACHED || attached == 0 && port.groups() >= MAX_MCAST_GROUPS {
            return Err(ENOMEM);
        }
        let member = Arc::pin_init(
            pin_init!(McastMember {
                membership <- Membership::new(*group),
                qp: qp.clone(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let number = chain.alloc_cyclic(0..u32::MAX, member.clone())?;
        let joined = match port.hold_netdev() {
            Some(netdev) => member.membership.join(&netdev),
            None => Err(ENODEV),
        };
        // It may have gone to another namespace before it was joined.
        let joined = joined.and_then(|()| port.hold_netdev().map(drop).ok_or(ENODEV));
        joined.inspect_err(|_| {
            drop(chain.remove(number));
            // `renew` may have tried again meanwhile.
            member.membership.leave();
        })?;
        if attached == 0 {
            port.set_groups(port.groups().saturating_add(1));
        }
        Ok(())
    }

    /// Takes `qp` out of `group`. When it returns, no packet finds it there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        let port = qp.shared().port();
        let _changing = self.changing.lock();
        let chain = self.chain(group).ok_or(EINVAL)?;
        let (mut number, mut others) = (None, false);
        chain.for_each(|at, member| {
            if member.is_of(port, group) {
                if Arc::ptr_eq(&member.qp, qp) {
                    number = Some(at);
                } else {
                    others = true;
                }
            }
        });
        let member = chain.remove(number.ok_or(EINVAL)?);
        if let Some(member) = member {
            // Waits for `renew`, too, so that the member is not dropped there.
            member.membership.leave();
        }
        if !others {
            port.set_groups(port.groups().saturating_sub(1));
        }
        Ok(())
    }

    /// What `netdev`, which is below `port`, has of IP may be another by now: joins it again to the groups of
    /// the queue pairs. Where that fails, it is tried again the next time.
    pub(crate) fn renew(&self, port: &Port, netdev: &NetDevBorrow, rtnl: &Rtnl) {
        self.for_each_at(port, |membership| {
            let _ = membership.rejoin(netdev, rtnl);
        });
    }

    /// The netdev below `port` goes, and no queue pair there joins it any more.
    pub(crate) fn give_up(&self, port: &Port, rtnl: &Rtnl) {
        self.for_each_at(port, |membership| membership.leave_locked(rtnl));
    }

    fn for_each_at(&self, port: &Port, f: impl Fn(&Membership)) {
        for chain in &self.chains {
            chain.for_each(|_, member| {
                if member.is_at(port) {
                    f(&member.membership);
                }
            });
        }
    }

    /// Gives a copy of `skb`, which has come in by the interface `via`, to each queue pair of that
    /// interface's device that is attached to `group`. An interface on top of that may be in another namespace.
    ///
    /// # Errors
    ///
    /// [`DropReason::NoMulticastMember`].
    pub(crate) fn deliver(
        &self,
        group: &[u8; 16],
        via: &NetDevBorrow,
        (opcode, skb): (Opcode, RxSkb),
        guard: &rcu::Guard,
    ) -> Result<(), DropReason> {
        let none = DropReason::NoMulticastMember;
        let chain = self.chain(group).ok_or(none)?;
        let mut members = chain.iter(guard).filter(|member| {
            let port = member.qp.shared().port();
            member.membership.group() == group
                && port.is_in(via.net_id(), guard)
                && port.takes_from(via, guard)
        });
        let mut last = members.next().ok_or(none)?;
        for member in members {
            match skb.try_clone() {
                Some(copy) => last.qp.arrived(opcode, copy),
                None => last
                    .qp
                    .shared()
                    .port()
                    .counters()
                    .dropped(DropReason::NoMemory),
            }
            last = member;
        }
        last.qp.arrived(opcode, skb);
        Ok(())
    }

    /// Where the queue pairs of `group` are.
    fn chain(&self, group: &[u8; 16]) -> Option<&RcuTable<McastMember>> {
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = group.iter().fold(self.seed, mix);
        // CAST: `u32` to `usize`, on 64 bits.
        self.chains.get((hash ^ hash >> 16) as usize % CHAINS)
    }
}
