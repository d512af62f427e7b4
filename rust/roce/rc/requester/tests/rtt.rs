// SPDX-License-Identifier: GPL-2.0

//! How much is in flight to a peer that is far away.

use super::*;

/// One that may have four packets in flight to a peer that is near, and has sent a message of a hundred.
fn far() -> Bench {
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
    /// How many packets are sent now.
    fn count(&mut self) -> usize {
        self.transmit().len()
    }

    /// At each time, in microseconds, everything up to a PSN is acknowledged, and then so many packets are sent.
    fn acks<const N: usize>(&mut self, steps: [(u64, u32, usize); N]) {
        for (time, last, count) in steps {
            self.now = micros(time);
            self.receive(ack(last)).unwrap();
            assert_eq!(self.count(), count, "{time}");
        }
    }
}

#[test]
fn what_is_in_flight_grows_to_what_a_round_trip_needs() {
    let mut bench = far();
    assert_eq!(bench.count(), 4);
    bench.acks([(3_500, 103, 8), (7_000, 111, 12), (10_500, 123, 12)]);
    assert_eq!(bench.requester.flight().bytes, 3 * 1024);
}

#[test]
fn it_is_no_more_to_one_that_is_or_was_near() {
    let mut bench = far();
    assert_eq!(bench.count(), 4);
    bench.acks([(900, 103, 4), (9_000, 107, 4)]);
}

#[test]
fn a_loss_halves_it() {
    let mut bench = far();
    assert_eq!(bench.count(), 4);
    bench.acks([(8_500, 103, 8)]);
    bench.receive(aeth_packet(106, SEQUENCE)).unwrap();
    assert_eq!(bench.requester.flight().packets, 0);
    assert_eq!(bench.count(), 4);
}

#[test]
fn the_first_data_of_a_read_tells_how_far_the_peer_is() {
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
