// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: delivers a copy of each packet to every attached QP.
//!
//! The verbs attach and detach QPs under the mutex `update_lock`, which is outside RTNL. Delivery runs in softirq under
//! RCU and takes no lock. Each attached QP joins the netdev of its port to the group, so packets arrive without further
//! configuration.
//!
//! IP loops a copy of each multicast packet back to the sending host. So a QP that is attached to the group that it
//! sends to receives its own packets, as on InfiniBand.

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
    sync::{
        rcu_table::RcuTable,
        read_section::ReadSection, //
    },
    util::random, //
};
use roce::{
    status::DropReason,
    wire::opcode::Opcode, //
};

/// Number of hash chains for the attached QPs. The hash is that of the group address.
const GROUP_CHAINS: usize = 256;

/// A QP that is attached to a group.
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
    chains: [RcuTable<McastMember>; GROUP_CHAINS],
    /// Random, so that users cannot choose groups that share a chain.
    seed: u32,
    /// Serialises attach and detach. Outside RTNL.
    #[pin]
    update_lock: Mutex<()>,
}

impl Groups {
    /// Creates an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            chains <- pin_init::pin_init_array_from_fn(|_| RcuTable::new()),
            seed: random::u32(),
            update_lock <- new_mutex!((), "ferroce::Groups"),
        })
    }

    /// Attaches `qp` to `group`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is attached already; `ENOMEM` if a limit that `query_device` reports is reached, or without
    /// memory; `EADDRNOTAVAIL` if the netdev has no IPv4 or IPv6, whichever the group uses; `ENODEV` if the netdev is
    /// being unregistered.
    pub(crate) fn attach(&self, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        let port = qp.shared().port();
        let _update = self.update_lock.lock();
        let chain = self.chain(group).ok_or(ENOMEM)?;
        let attached = {
            let guard = ReadSection::enter();
            let mut attached = 0u32;
            let members = chain.iter(&guard);
            for member in members.filter(|member| member.is_of(port, group)) {
                if Arc::ptr_eq(&member.qp, qp) {
                    return Err(EEXIST);
                }
                attached = attached.saturating_add(1);
            }
            attached
        };
        if attached >= MAX_MCAST_ATTACHED
            || attached == 0 && port.mcast_groups() >= MAX_MCAST_GROUPS
        {
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
        // The netdev may have moved to another namespace before the join.
        let joined = joined.and_then(|()| port.hold_netdev().map(drop).ok_or(ENODEV));
        joined.inspect_err(|_| {
            drop(chain.remove(number));
            // `rejoin` may have joined the group meanwhile.
            member.membership.leave();
        })?;
        if attached == 0 {
            port.set_mcast_groups(port.mcast_groups().saturating_add(1));
        }
        Ok(())
    }

    /// Detaches `qp` from `group`. On return, no packet to the group finds it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, qp: &Arc<AnyQp>, group: &[u8; 16]) -> Result {
        let port = qp.shared().port();
        let _update = self.update_lock.lock();
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
            // Also waits for a concurrent `rejoin`, which must not drop the last reference.
            member.membership.leave();
        }
        if !others {
            port.set_mcast_groups(port.mcast_groups().saturating_sub(1));
        }
        Ok(())
    }

    /// Joins `netdev`, the netdev of `port`, again to the groups of the port's QPs: the kernel may have replaced its
    /// IPv4 or IPv6 configuration, and lost the groups. A join that fails is tried again at the next netdev event.
    pub(crate) fn rejoin(&self, port: &Port, netdev: &NetDevBorrow, rtnl: &Rtnl) {
        self.for_each_at(port, |membership| {
            let _ = membership.rejoin(netdev, rtnl);
        });
    }

    /// Leaves all groups of the port's QPs, because its netdev is being unregistered.
    pub(crate) fn leave_all(&self, port: &Port, rtnl: &Rtnl) {
        self.for_each_at(port, |membership| membership.leave_locked(rtnl));
    }

    /// Calls `f` with each membership of a QP of `port`.
    fn for_each_at(&self, port: &Port, f: impl Fn(&Membership)) {
        for chain in &self.chains {
            chain.for_each(|_, member| {
                if member.is_at(port) {
                    f(&member.membership);
                }
            });
        }
    }

    /// Delivers a copy of `skb`, received on `via`, to each QP that is attached to `group`. The QP's port must receive
    /// packets from `via`, and be in the same namespace: an upper device of its netdev may be in another one. Softirq.
    ///
    /// # Errors
    ///
    /// [`DropReason::NoMulticastMember`].
    pub(crate) fn deliver(
        &self,
        group: &[u8; 16],
        via: &NetDevBorrow,
        (opcode, skb): (Opcode, RxSkb),
        guard: &ReadSection,
    ) -> Result<(), DropReason> {
        let none = DropReason::NoMulticastMember;
        let chain = self.chain(group).ok_or(none)?;
        let mut members = chain.iter(guard).filter(|member| {
            let port = member.qp.shared().port();
            member.membership.group() == group
                && port.is_in(via.net_id(), guard)
                && port.receives_from(via, guard)
        });
        let mut last = members.next().ok_or(none)?;
        for member in members {
            match skb.try_clone() {
                Some(copy) => last.qp.arrived((opcode, copy), guard),
                None => last
                    .qp
                    .shared()
                    .port()
                    .counters()
                    .dropped(DropReason::NoMemory),
            }
            last = member;
        }
        last.qp.arrived((opcode, skb), guard);
        Ok(())
    }

    /// Returns the hash chain of `group`.
    fn chain(&self, group: &[u8; 16]) -> Option<&RcuTable<McastMember>> {
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = group.iter().fold(self.seed, mix);
        // CAST: `usize` has 64 bits.
        self.chains.get((hash ^ hash >> 16) as usize % GROUP_CHAINS)
    }
}
