// SPDX-License-Identifier: GPL-2.0

//! The network of a machine, its RDMA devices, and what the command is told of them.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use nix::mount::{mount, MsFlags};
use nix::sched::{setns, unshare, CloneFlags};

use super::files;
use super::netlink::{add_rdma_link, Links};
use crate::channel::job::{Job, Network, Topology};
use crate::threads;

/// The network device of the machine, and its peer in [`NAMESPACE`].
pub const NETDEV: &str = "eth0";
const PEER_NETDEV: &str = "eth1";

/// The name that the kernel gives to the wire between machines.
const WIRE: &str = "vec0";

/// The second namespace of [`Topology::Netns`], under the name that `ip netns` knows.
pub const NAMESPACE: &str = "peer";

/// Where `ip netns` looks for namespaces.
const NAMESPACES: &str = "/run/netns";

/// Prefixes of the addresses of all devices.
const PREFIX4: u8 = 24;
const PREFIX6: u8 = 64;

/// How long the core may take to fill in a GID.
const GID_TIMEOUT: Duration = Duration::from_secs(20);

/// The file of a network namespace that `ip netns` has, or we have, made.
pub fn namespace(name: &str) -> std::path::PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// The addresses of the device with this number.
pub fn addresses(number: u32) -> (Ipv4Addr, Ipv6Addr) {
    let low = number as u16 + 1;
    (
        Ipv4Addr::new(10, 77, (low >> 8) as u8, low as u8),
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, low),
    )
}

/// The name of a machine.
pub fn host_name(job: &Job, node: u32) -> String {
    match job.network.topology {
        Topology::Nodes => format!("node{node}"),
        _ => "ferroce".into(),
    }
}

/// Environment variables.
type Variables = Vec<(String, String)>;

/// Makes the network. Returns what the command is told.
pub fn set_up(job: &Job) -> Result<Variables> {
    let network = &job.network;
    for name in ["accept_dad", "router_solicitations"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), "0");
    }
    load_driver(network)?;
    let mut links = Links::open()?;
    links.up("lo", None)?;
    let mut variables = vec![
        (
            "FERROCE_TOPOLOGY".into(),
            format!("{:?}", network.topology).to_lowercase(),
        ),
        ("FERROCE_DRIVER".into(), network.driver.link_type().into()),
        ("FERROCE_NODE".into(), job.node.to_string()),
        ("FERROCE_NODES".into(), job.nodes.to_string()),
    ];
    let peer = match network.topology {
        Topology::Single => {
            links.add_veth(NETDEV, PEER_NETDEV)?;
            links.up(PEER_NETDEV, Some(network.mtu))?;
            None
        }
        Topology::Netns => {
            links.add_veth(NETDEV, PEER_NETDEV)?;
            Some(set_up_namespace(network, &mut links)?)
        }
        Topology::Nodes => {
            let wire = if files::on_user_mode() { WIRE } else { NETDEV };
            links.rename(
                wire,
                NETDEV,
                [0x02, 0x77, 0, 0, (job.node >> 8) as u8, job.node as u8],
            )?;
            let hosts = (0..job.nodes)
                .map(|node| host_name(job, node))
                .collect::<Vec<_>>()
                .join(" ");
            variables.push(("FERROCE_HOSTS".into(), hosts));
            None
        }
    };
    let device = &network.devices[0];
    let indices = add_device(network, &mut links, device, NETDEV, job.node)?;
    let own = describe(device, NETDEV, job.node, indices);
    // A machine alone is its own peer; of two, each is the other's; of more, each is that of the one before it.
    let peer =
        peer.unwrap_or_else(|| describe(device, NETDEV, (job.node + 1) % job.nodes, indices));
    variables.extend(
        own.into_iter()
            .map(|(name, value)| (format!("FERROCE_{name}"), value)),
    );
    variables.extend(
        peer.into_iter()
            .map(|(name, value)| (format!("FERROCE_PEER_{name}"), value)),
    );
    Ok(variables)
}

fn load_driver(network: &Network) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let file = network.driver.module();
    files::load_module(Path::new(&format!(
        "/lib/modules/{}/updates/{file}",
        release.trim()
    )))
}

/// Makes the namespace of the peer, with a device in it.
fn set_up_namespace(network: &Network, links: &mut Links) -> Result<Variables> {
    let file = namespace(NAMESPACE);
    fs::create_dir_all(NAMESPACES)?;
    File::create(&file)?;
    let network = network.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (moved, wait) = std::sync::mpsc::channel();
    let made = file.clone();
    let thread = threads::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let none: Option<&str> = None;
        mount(
            Some("/proc/thread-self/ns/net"),
            &made,
            none,
            MsFlags::MS_BIND,
            none,
        )?;
        sender.send(())?;
        wait.recv()?;
        let mut links = Links::open()?;
        links.up("lo", None)?;
        let device = &network.devices[1];
        let indices = add_device(&network, &mut links, device, PEER_NETDEV, 1)?;
        Ok::<_, anyhow::Error>(describe(device, PEER_NETDEV, 1, indices))
    })?;
    if receiver.recv().is_ok() {
        links.move_to(PEER_NETDEV, &File::open(&file)?)?;
        let _ = moved.send(());
    }
    thread
        .join()
        .map_err(|_| anyhow!("a thread has ended early"))?
        .context("the namespace of the peer")
}

/// Switches a network device on and adds an RDMA device to it, both of the namespace of this thread. Returns the
/// indices of the GIDs of its addresses, IPv4's first.
fn add_device(
    network: &Network,
    links: &mut Links,
    device: &str,
    netdev: &str,
    number: u32,
) -> Result<[u32; 2]> {
    let (ipv4, ipv6) = addresses(number);
    links.up(netdev, Some(network.mtu))?;
    links.add_address(netdev, IpAddr::V4(ipv4), PREFIX4)?;
    links.add_address(netdev, IpAddr::V6(ipv6), PREFIX6)?;
    if network.impairment.is_some() {
        links.impair(netdev, &network.impairment)?;
    }
    add_rdma_link(device, network.driver.link_type(), netdev)?;
    Ok([
        gid_index(device, ipv4.to_ipv6_mapped())?,
        gid_index(device, ipv6)?,
    ])
}

/// What the command is told of a device.
fn describe(device: &str, netdev: &str, number: u32, indices: [u32; 2]) -> Variables {
    let (ipv4, ipv6) = addresses(number);
    let [index4, index6] = indices.map(|index| index.to_string());
    vec![
        ("DEVICE".into(), device.into()),
        ("NETDEV".into(), netdev.into()),
        ("ADDRESS".into(), ipv4.to_string()),
        ("ADDRESS6".into(), ipv6.to_string()),
        ("GID_INDEX".into(), index4),
        ("GID_INDEX6".into(), index6),
    ]
}

/// Waits for the GID of an address, which the core fills in later, and returns its index.
fn gid_index(device: &str, address: Ipv6Addr) -> Result<u32> {
    let end = Instant::now() + GID_TIMEOUT;
    let wanted = address
        .segments()
        .map(|part| format!("{part:04x}"))
        .join(":");
    while Instant::now() < end {
        for index in 0..8 {
            let gid = fs::read_to_string(format!(
                "/sys/class/infiniband/{device}/ports/1/gids/{index}"
            ));
            if gid.is_ok_and(|gid| gid.trim() == wanted) {
                return Ok(index);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!(
        "{device} has no GID for {address} after {} s",
        GID_TIMEOUT.as_secs()
    )
}

/// Makes this thread one of another network namespace.
pub fn enter(name: &str) -> Result<()> {
    let file = File::open(namespace(name)).with_context(|| format!("no namespace {name}"))?;
    setns(file, CloneFlags::CLONE_NEWNET).context("setns")
}
