// SPDX-License-Identifier: GPL-2.0

//! Requests to the kernel about network devices and RDMA devices, each answered before the next.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{bail, Context, Result};
use netlink_packet_core::{
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NLM_F_ACK, NLM_F_CREATE,
    NLM_F_EXCL, NLM_F_REQUEST,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_packet_utils::nla::{DefaultNla, Nla};
use netlink_sys::protocols::{NETLINK_RDMA, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use nix::net::if_::if_nametoindex;

use crate::channel::job::Impairment;

/// Of include/uapi/linux/pkt_sched.h and rtnetlink.h.
const TCA_OPTIONS: u16 = 2;
const TCA_NETEM_REORDER: u16 = 3;
const TCA_NETEM_LATENCY64: u16 = 10;

/// Packets that netem holds at most.
const NETEM_LIMIT: u32 = 10_000;

/// Of include/uapi/rdma/rdma_netlink.h: `RDMA_NLDEV_CMD_NEWLINK` of the client `RDMA_NL_NLDEV`, and its attributes.
const RDMA_NEW_LINK: u16 = (5 << 10) | 3;
const RDMA_DEV_NAME: u16 = 2;
const RDMA_NDEV_NAME: u16 = 51;
const RDMA_LINK_TYPE: u16 = 65;

/// Answers are short.
const ANSWER: usize = 4096;

/// A socket of one protocol.
struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    fn open(protocol: isize) -> Result<Netlink> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Sends a request and waits for its answer, which has nothing in it but an error.
    fn request<M: NetlinkSerializable>(&mut self, message: M, flags: u16) -> Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(ANSWER);
        self.socket.recv(&mut answer, 0)?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io().into()),
            _ => bail!("an answer of another kind"),
        }
    }
}

/// The network devices of the namespace that it was opened in.
pub struct Links(Netlink);

impl Links {
    /// Those of the namespace of this thread.
    pub fn open() -> Result<Links> {
        Netlink::open(NETLINK_ROUTE).map(Links)
    }

    /// Makes two that are joined.
    pub fn add_veth(&mut self, name: &str, peer: &str) -> Result<()> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.into()));
        let mut link = LinkMessage::default();
        link.attributes.push(LinkAttribute::IfName(name.into()));
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.0
            .request(
                RouteNetlinkMessage::NewLink(link),
                NLM_F_CREATE | NLM_F_EXCL,
            )
            .context("cannot make a veth")
    }

    /// Changes attributes of a device.
    fn set(&mut self, name: &str, attributes: Vec<LinkAttribute>, up: bool) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index(name)?;
        if up {
            link.header.flags = LinkFlags::Up;
            link.header.change_mask = LinkFlags::Up;
        }
        link.attributes = attributes;
        self.0
            .request(RouteNetlinkMessage::SetLink(link), 0)
            .with_context(|| format!("cannot change {name}"))
    }

    /// Switches it on.
    pub fn up(&mut self, name: &str, mtu: Option<u32>) -> Result<()> {
        self.set(
            name,
            mtu.map(LinkAttribute::Mtu).into_iter().collect(),
            true,
        )
    }

    /// Gives it another name and a MAC address. It must be down.
    pub fn rename(&mut self, name: &str, new: &str, mac: [u8; 6]) -> Result<()> {
        self.set(
            name,
            vec![
                LinkAttribute::IfName(new.into()),
                LinkAttribute::Address(mac.to_vec()),
            ],
            false,
        )
    }

    /// Moves it to another namespace.
    pub fn move_to(&mut self, name: &str, namespace: &impl AsFd) -> Result<()> {
        self.set(
            name,
            vec![LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd())],
            false,
        )
    }

    /// Adds an address. One of IPv6 can be used at once.
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix: u8) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.prefix_len = prefix;
        message.header.index = index(name)?;
        message.header.family = match address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.attributes.push(AddressAttribute::Address(address));
        match address {
            IpAddr::V4(_) => message.attributes.push(AddressAttribute::Local(address)),
            IpAddr::V6(_) => message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Nodad)),
        }
        self.0
            .request(
                RouteNetlinkMessage::NewAddress(message),
                NLM_F_CREATE | NLM_F_EXCL,
            )
            .with_context(|| format!("cannot give {address} to {name}"))
    }

    /// Lets netem do to what leaves by this device what `impairment` says.
    pub fn impair(&mut self, name: &str, impairment: &Impairment) -> Result<()> {
        let mut message = TcMessage::with_index(index(name)? as i32);
        message.header.parent = TcHandle::ROOT;
        message.attributes.push(TcAttribute::Kind("netem".into()));
        message.attributes.push(TcAttribute::Other(DefaultNla::new(
            TCA_OPTIONS,
            netem_options(impairment),
        )));
        self.0
            .request(
                RouteNetlinkMessage::NewQueueDiscipline(message),
                NLM_F_CREATE | NLM_F_EXCL,
            )
            .with_context(|| format!("cannot impair {name}"))
    }
}

fn index(name: &str) -> Result<u32> {
    if_nametoindex(name).with_context(|| format!("no network device {name}"))
}

/// A share as netem has it: of all that fits into 32 bits.
fn probability(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32
}

/// `struct tc_netem_qopt`, then attributes. Numbers are in the order of the machine.
fn netem_options(impairment: &Impairment) -> Vec<u8> {
    let gap = u32::from(impairment.reorder > 0.0);
    // Latency in ticks, limit, loss, gap, duplicates, jitter in ticks. The latency in nanoseconds follows.
    let fields = [0, NETEM_LIMIT, probability(impairment.loss), gap, 0, 0];
    let mut options: Vec<u8> = fields
        .iter()
        .flat_map(|field| field.to_ne_bytes())
        .collect();
    let latency = i64::from(impairment.delay) * 1000;
    emit(
        &mut options,
        &DefaultNla::new(TCA_NETEM_LATENCY64, latency.to_ne_bytes().to_vec()),
    );
    if impairment.reorder > 0.0 {
        let reorder = [probability(impairment.reorder), 0];
        emit(
            &mut options,
            &DefaultNla::new(
                TCA_NETEM_REORDER,
                reorder
                    .iter()
                    .flat_map(|field| field.to_ne_bytes())
                    .collect(),
            ),
        );
    }
    options
}

/// Appends an attribute.
fn emit(bytes: &mut Vec<u8>, attribute: &DefaultNla) {
    use netlink_packet_utils::Emitable;
    let start = bytes.len();
    bytes.resize(start + attribute.buffer_len(), 0);
    attribute.emit(&mut bytes[start..]);
    debug_assert!(
        attribute.value_len() % 4 == 0,
        "attributes are aligned to four bytes"
    );
}

/// A request to add an RDMA device to a network device.
struct NewRdmaLink(Vec<DefaultNla>);

impl NetlinkSerializable for NewRdmaLink {
    fn message_type(&self) -> u16 {
        RDMA_NEW_LINK
    }

    fn buffer_len(&self) -> usize {
        netlink_packet_utils::Emitable::buffer_len(&self.0.as_slice())
    }

    fn serialize(&self, buffer: &mut [u8]) {
        netlink_packet_utils::Emitable::emit(&self.0.as_slice(), buffer);
    }
}

/// Adds an RDMA device `name` of this type to a network device of the namespace of this thread.
pub fn add_rdma_link(name: &str, link_type: &str, netdev: &str) -> Result<()> {
    let text = |kind, text: &str| DefaultNla::new(kind, [text.as_bytes(), &[0]].concat());
    let attributes = vec![
        text(RDMA_DEV_NAME, name),
        text(RDMA_LINK_TYPE, link_type),
        text(RDMA_NDEV_NAME, netdev),
    ];
    Netlink::open(NETLINK_RDMA)?
        .request(NewRdmaLink(attributes), 0)
        .with_context(|| format!("cannot add the {link_type} device {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netem_has_its_fields_where_the_kernel_reads_them() {
        let options = netem_options(&Impairment {
            loss: 0.5,
            delay: 2000,
            reorder: 0.0,
        });
        assert_eq!(options.len(), 24 + 12);
        assert_eq!(options[8..12], (u32::MAX / 2).to_ne_bytes());
        assert_eq!(options[12..16], 0u32.to_ne_bytes());
        assert_eq!(options[24..28], [12, 0, 10, 0]);
        assert_eq!(options[28..36], 2_000_000i64.to_ne_bytes());
    }

    #[test]
    fn what_overtakes_has_a_gap_of_one() {
        let options = netem_options(&Impairment {
            loss: 0.0,
            delay: 10,
            reorder: 1.0,
        });
        assert_eq!(options[12..16], 1u32.to_ne_bytes());
        assert_eq!(options[36..40], [12, 0, 3, 0]);
        assert_eq!(options[40..44], u32::MAX.to_ne_bytes());
    }
}
