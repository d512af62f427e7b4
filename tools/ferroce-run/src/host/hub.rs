// SPDX-License-Identifier: GPL-2.0

//! The wires between machines.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anyhow::Result;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    recv, send, setsockopt, socketpair, sockopt, AddressFamily, MsgFlags, SockFlag, SockType,
};

use super::engine::MachineEngine;
use crate::threads;

/// Bytes that may be on their way in one direction; the system may allow less.
const BUFFER_BYTES: usize = 4 << 20;

/// No frame is longer, not even one that a device would cut.
const LONGEST: usize = 128 << 10;

/// Length of a MAC address, and the bit in its first byte that a group has set.
const MAC: usize = 6;
const GROUP: u8 = 1;

/// Joins so many machines; one end for each.
pub fn join(machines: u32, engine: MachineEngine) -> Result<Vec<OwnedFd>> {
    // QEMU wants datagrams, of which the system lets only a few wait.
    let kind = match engine {
        MachineEngine::Uml => SockType::SeqPacket,
        MachineEngine::Kvm | MachineEngine::Tcg => SockType::Datagram,
    };
    if machines == 2 {
        let (first, second) = wire(kind)?;
        return Ok(vec![first, second]);
    }
    let (ends, ports): (Vec<_>, Vec<_>) = (0..machines)
        .map(|_| wire(kind))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    threads::spawn(move || forward(&ports))?;
    Ok(ends)
}

/// A wire keeps its frames apart and in order.
fn wire(kind: SockType) -> Result<(OwnedFd, OwnedFd)> {
    let (first, second) = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC)?;
    for end in [&first, &second] {
        let _ = setsockopt(end, sockopt::SndBuf, &BUFFER_BYTES);
    }
    Ok((first, second))
}

/// Forwards frames as a switch does, until all machines have gone. It waits for a machine that is slow: a switch would
/// lose the frame, and the sender could not be told that the network is not its own.
fn forward(ports: &[OwnedFd]) {
    let mut known: HashMap<[u8; MAC], usize> = HashMap::new();
    let mut frame = vec![0; LONGEST];
    let mut gone = vec![false; ports.len()];
    loop {
        let here: Vec<usize> = (0..ports.len()).filter(|port| !gone[*port]).collect();
        let mut waiting: Vec<_> = here
            .iter()
            .map(|port| PollFd::new(ports[*port].as_fd(), PollFlags::POLLIN))
            .collect();
        if here.is_empty() || poll(&mut waiting, PollTimeout::NONE).is_err() {
            return;
        }
        let ready: Vec<bool> = waiting
            .iter()
            .map(|port| port.any().unwrap_or(false))
            .collect();
        for (from, _) in here.iter().copied().zip(ready).filter(|(_, ready)| *ready) {
            let Ok(length @ 1..) =
                recv(ports[from].as_raw_fd(), &mut frame, MsgFlags::MSG_DONTWAIT)
            else {
                gone[from] = true;
                continue;
            };
            let frame = &frame[..length];
            let Some((target, rest)) = frame.split_first_chunk::<MAC>() else {
                continue;
            };
            if let Some(source) = rest.first_chunk::<MAC>() {
                known.insert(*source, from);
            }
            let one = known
                .get(target)
                .copied()
                .filter(|_| target[0] & GROUP == 0);
            let targets =
                (0..ports.len()).filter(|to| *to != from && one.is_none_or(|one| one == *to));
            for to in targets.filter(|to| !gone[*to]) {
                let _ = send(ports[to].as_raw_fd(), frame, MsgFlags::MSG_NOSIGNAL);
            }
        }
    }
}
