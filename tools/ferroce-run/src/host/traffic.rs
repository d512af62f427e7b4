// SPDX-License-Identifier: GPL-2.0

//! What the devices of a call have carried, for `--stats` and `--require-rdma`.

use super::options::Options;
use crate::channel::traffic::{DeviceTraffic, PacketCount};

/// Exit code of a call that had to use RDMA and has not.
pub const NO_RDMA: i32 = 123;

/// Calls `say` with what is asked for. `machines` have told what they carried, and `code` is the exit code without
/// this; returns the one with it.
pub fn conclude(
    options: &Options,
    machines: &[Vec<DeviceTraffic>],
    code: i32,
    say: fn(&str),
) -> i32 {
    if options.stats {
        for line in lines(machines) {
            say(&line);
        }
    }
    if !options.require_rdma || carried(machines) {
        return code;
    }
    say("no RDMA: no device has received a packet but for those of the connection manager");
    if code == 0 {
        NO_RDMA
    } else {
        code
    }
}

/// Whether data, or an acknowledgement, has arrived anywhere.
fn carried(machines: &[Vec<DeviceTraffic>]) -> bool {
    machines
        .iter()
        .flatten()
        .any(|device| device.received.data() > 0)
}

/// A line for each device.
fn lines(machines: &[Vec<DeviceTraffic>]) -> Vec<String> {
    let several = machines.len() > 1;
    let mut lines = Vec::new();
    for (number, devices) in machines.iter().enumerate() {
        for device in devices {
            let machine = if several {
                format!("machine {number}: ")
            } else {
                String::new()
            };
            lines.push(format!(
                "{machine}{}: sent {}; received {}",
                device.device,
                words(&device.sent),
                words(&device.received)
            ));
        }
    }
    lines
}

fn words(count: &PacketCount) -> String {
    let bytes = count
        .bytes
        .map_or(String::new(), |bytes| format!(", {bytes} bytes"));
    let connection = match count.connection {
        0 => String::new(),
        messages => format!(", {messages} of the connection manager"),
    };
    format!("{} packets{bytes}{connection}", count.packets)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn machine(received: u64, connection: u64) -> Vec<DeviceTraffic> {
        vec![DeviceTraffic {
            device: "fr0".into(),
            sent: PacketCount::default(),
            received: PacketCount {
                packets: received,
                bytes: Some(100),
                connection,
            },
        }]
    }

    fn quiet(_: &str) {}

    #[test]
    fn only_data_is_rdma() {
        let options = Options::parse_from(["ferroce-run", "--require-rdma", "--", "true"]);
        assert_eq!(conclude(&options, &[machine(3, 3)], 0, quiet), NO_RDMA);
        assert_eq!(conclude(&options, &[Vec::new()], 0, quiet), NO_RDMA);
        assert_eq!(
            conclude(&options, &[machine(3, 3), machine(4, 3)], 0, quiet),
            0
        );
        assert_eq!(conclude(&options, &[machine(0, 0)], 7, quiet), 7);
        let options = Options::parse_from(["ferroce-run", "--", "true"]);
        assert_eq!(conclude(&options, &[machine(0, 0)], 0, quiet), 0);
    }

    #[test]
    fn each_device_has_a_line() {
        assert_eq!(
            lines(&[machine(5, 2)]),
            ["fr0: sent 0 packets; received 5 packets, 100 bytes, 2 of the connection manager"]
        );
        assert!(lines(&[machine(5, 2), machine(1, 0)])[1].starts_with("machine 1: fr0: "));
    }
}
