// SPDX-License-Identifier: GPL-2.0

//! Data in flight to a distant peer.

use super::*;

/// A requester with a flow limit of four packets for a nearby peer, and a message of 100 packets.
fn with_distant_peer() -> Bench {
    let mut bench = Bench::with(|config| {
        config.flow = FlowLimit {
            bytes: 1024,
            packets: 8,
        };
        config.ack_timeout = 14;
    });
    bench.post(SEND, 25600);
    bench
}

impl Bench {
    /// Sends all packets and returns their number.
    fn transmit_count(&mut self) -> usize {
        self.transmit().len()
    }

    /// Each step: time in microseconds, PSN of an ACK, number of packets sent then.
    fn acks<const N: usize>(&mut self, steps: [(u64, u32, usize); N]) {
        for (time, last, packets) in steps {
            self.now = micros(time);
            self.receive(ack(last)).unwrap();
            assert_eq!(self.transmit_count(), packets, "{time}");
        }
    }
}

#[test]
fn the_window_grows_to_the_bandwidth_delay_product() {
    let mut bench = with_distant_peer();
    assert_eq!(bench.transmit_count(), 4);
    bench.acks([(3_500, 103, 8), (7_000, 111, 12), (10_500, 123, 12)]);
    assert_eq!(bench.requester.flight().bytes, 3 * 1024);
}

#[test]
fn the_window_of_a_nearby_peer_does_not_grow() {
    let mut bench = with_distant_peer();
    assert_eq!(bench.transmit_count(), 4);
    bench.acks([(900, 103, 4), (9_000, 107, 4)]);
}

#[test]
fn a_loss_reduces_the_window() {
    let mut bench = with_distant_peer();
    assert_eq!(bench.transmit_count(), 4);
    bench.acks([(8_500, 103, 8)]);
    bench.receive(aeth_packet(106, SEQUENCE)).unwrap();
    assert_eq!(bench.requester.flight().packets, 0);
    assert_eq!(bench.transmit_count(), 4);
}

#[test]
fn the_first_data_of_a_read_is_an_rtt_sample() {
    let mut bench = Bench::with(|config| {
        config.flow.bytes = 1024;
        config.max_rd_atomic = 3;
    });
    for _ in 0..3 {
        bench.post(READ, 1024);
    }
    assert_eq!(psns(&bench.transmit()), [100, 102]);
    bench.now = micros(3_100);
    bench.receive_data(100, 256).unwrap();
    assert_eq!(psns(&bench.transmit()), [104]);
}
