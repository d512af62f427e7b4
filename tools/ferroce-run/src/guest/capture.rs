// SPDX-License-Identifier: GPL-2.0

//! Copies of the packets that a network device sends and receives.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    recvfrom, setsockopt, socket, sockopt, AddressFamily, LinkAddr, SockFlag, SockProtocol,
    SockType,
};

use super::console::Output;
use crate::channel::message::ToHost;
use crate::threads;

/// Bytes of packets that may wait here.
const BUFFER_BYTES: usize = 64 << 20;

/// No packet is longer, not even one that a device would cut.
const LONGEST: usize = 256 << 10;

/// From now on sends a copy of each packet of the device to `output`.
pub fn start<W: Write + Send + 'static>(netdev: &str, output: Output<W>) -> Result<()> {
    let index =
        if_nametoindex(netdev).with_context(|| format!("no network device {netdev}"))? as usize;
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).context("SO_RCVBUFFORCE")?;
    threads::spawn(move || {
        let mut packet = vec![0; LONGEST];
        while let Ok((length, from)) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut packet) {
            if from.map(|from| from.ifindex()) != Some(index) {
                continue;
            }
            let time = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_nanos() as u64);
            let bytes = packet.get(..length).unwrap_or_default().to_vec();
            if output.send(&ToHost::Packet { time, bytes }).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
