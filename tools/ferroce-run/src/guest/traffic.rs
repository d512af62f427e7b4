// SPDX-License-Identifier: GPL-2.0

//! Tells the launcher what the RDMA devices of this machine carry.
//!
//! A device may go before the command ends, and a machine may be stopped before its own: so the counters are read while
//! the command runs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use super::console::Output;
use crate::channel::message::ToHost;
use crate::channel::traffic::{DeviceTraffic, PacketCount};
use crate::threads;

/// Where the devices are.
const DEVICES: &str = "/sys/class/infiniband";
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// The kernel shows counters that are up to 10 ms old.
const AGE: Duration = Duration::from_millis(20);

/// What all devices have carried. One that is made anew starts at zero again, and is another: it has another inode.
#[derive(Default)]
struct SeenDevices(BTreeMap<(String, u64), [PacketCount; 2]>);

impl SeenDevices {
    /// Reads the counters of those that are there.
    fn look(&mut self, place: &Path) {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let Ok(inode) = fs::metadata(entry.path()).map(|data| data.ino()) else {
                continue;
            };
            let Ok(ports) = fs::read_dir(entry.path().join("ports")) else {
                continue;
            };
            let counts = ports
                .flatten()
                .fold([PacketCount::default(); 2], |sum, port| {
                    let [sent, received] = port_counts(&port.path());
                    [sum[0].plus(sent), sum[1].plus(received)]
                });
            let name = entry.file_name().to_string_lossy().into_owned();
            self.0.insert((name, inode), counts);
        }
    }

    fn traffic(&self) -> Vec<DeviceTraffic> {
        let mut all: Vec<DeviceTraffic> = Vec::new();
        for ((name, _), [sent, received]) in &self.0 {
            match all.last_mut().filter(|last| last.device == *name) {
                Some(last) => {
                    last.sent = last.sent.plus(*sent);
                    last.received = last.received.plus(*received);
                }
                None => all.push(DeviceTraffic {
                    device: name.clone(),
                    sent: *sent,
                    received: *received,
                }),
            }
        }
        all
    }
}

/// What a port has sent and received.
fn port_counts(port: &Path) -> [PacketCount; 2] {
    [("sent", "cm_tx_msgs"), ("rcvd", "cm_rx_msgs")].map(|(counted, messages)| PacketCount {
        packets: number(&port.join(format!("hw_counters/{counted}_pkts"))).unwrap_or(0),
        bytes: number(&port.join(format!("hw_counters/{counted}_bytes"))),
        connection: fs::read_dir(port.join(messages))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|file| number(&file.path()))
            .sum(),
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A thread that looks at the devices.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Tells `output` from now on.
    pub fn start<W: Write + Send + 'static>(output: Output<W>) -> Result<Watch> {
        let (stop, stopped) = channel();
        let thread = threads::spawn(move || {
            let mut devices = SeenDevices::default();
            let mut told = None;
            loop {
                let last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                if last {
                    thread::sleep(AGE);
                }
                devices.look(Path::new(DEVICES));
                let traffic = devices.traffic();
                if told.as_ref() != Some(&traffic) {
                    // If the launcher has gone, the machine ends.
                    let _ = output.send(&ToHost::Traffic(traffic.clone()));
                    told = Some(traffic);
                }
                if last {
                    return;
                }
            }
        })?;
        Ok(Watch { stop, thread })
    }

    /// Looks a last time.
    pub fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn devices_that_go_or_come_again_stay_counted() {
        let place = std::env::temp_dir().join(format!("ferroce-traffic-{}", std::process::id()));
        let port = place.join("fr0/ports/1");
        write(&port.join("hw_counters/sent_pkts"), "7\n");
        write(&port.join("hw_counters/rcvd_pkts"), "9\n");
        write(&port.join("hw_counters/rcvd_bytes"), "900\n");
        write(&port.join("cm_rx_msgs/req"), "1\n");
        write(&port.join("cm_rx_msgs/rtu"), "2\n");
        let mut devices = SeenDevices::default();
        devices.look(&place);
        // Kept, so that the next directory is another inode.
        fs::rename(place.join("fr0"), place.join("../ferroce-traffic-gone")).unwrap();
        devices.look(&place);
        write(&port.join("hw_counters/rcvd_pkts"), "1\n");
        devices.look(&place);
        let traffic = devices.traffic();
        fs::remove_dir_all(place.join("../ferroce-traffic-gone")).unwrap();
        fs::remove_dir_all(&place).unwrap();
        let [device] = traffic.as_slice() else {
            panic!("{traffic:?}")
        };
        assert_eq!(device.sent.packets, 7);
        assert_eq!(device.sent.bytes, None);
        assert_eq!(device.received.packets, 10);
        assert_eq!(device.received.bytes, Some(900));
        assert_eq!(device.received.data(), 7);
    }
}
