// SPDX-License-Identifier: GPL-2.0

//! A network that changes the order and loses nothing: with reorder buffers nothing is sent twice.

use roce::{
    access::Access,
    rc::{
        reorder::MAX_EARLY_PACKETS,
        requester::FlowLimit, //
    },
    segmentation::mtu::Mtu,
    time::Duration, //
};
use roce_tests::{
    net::{
        Fate,
        Faults,
        Sent, //
    },
    pair::{
        pattern,
        remote,
        Pair,
        Setup,
        A,
        B, //
    }, //
};

const MESSAGE_LEN: usize = 64 << 10;
const MESSAGES: usize = 16;
const WAIT: Duration = Duration::from_micros(200);

/// A transfer of 1 MiB.
struct Transfer {
    pair: Pair,
    /// Address of the bytes at B, and of those at A.
    places: Vec<(u64, u64)>,
    bytes: Vec<u8>,
}

/// What a transfer took.
#[derive(Debug)]
struct Cost {
    time: Duration,
    frames: usize,
    naks: u32,
    retries: u32,
    timeouts: u32,
    kept: u64,
}

/// Returns whether a frame carries data and has this PSN.
fn is_data(sent: &Sent, psn: u32) -> bool {
    sent.psn == psn && sent.payload != 0
}

/// Returns a setup whose network delays some frames.
fn setup(reorder_wait: Option<Duration>, reordering: usize) -> Setup {
    Setup {
        mtu: Mtu::Mtu4096,
        ack_timeout: 12, // sixteen milliseconds
        reorder_wait,
        flow: FlowLimit {
            bytes: 128 << 10,
            packets: 32,
        },
        faults: Faults {
            reordering,
            delay: Duration::from_micros(10),
            jitter: Duration::from_micros(40),
            ..Faults::default()
        },
        ..Setup::default()
    }
}

impl Transfer {
    /// Posts READs or WRITEs of A.
    fn new(setup: Setup, read: bool) -> Self {
        let mut pair = Pair::new(setup);
        pair.record();
        let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
        let bytes = pattern(1, MESSAGE_LEN);
        let places = (0..MESSAGES).map(|_| match read {
            true => {
                let va = pair.hosts[B].memory.store(&bytes);
                let rkey = pair.hosts[B].memory.register(va, MESSAGE_LEN, access);
                (va, pair.read(A, remote(va, rkey), MESSAGE_LEN).1)
            }
            false => {
                let va = pair.hosts[B].memory.alloc(MESSAGE_LEN);
                let rkey = pair.hosts[B].memory.register(va, MESSAGE_LEN, access);
                pair.write(A, remote(va, rkey), &bytes, None);
                (va, 0)
            }
        });
        let places = places.collect();
        Self {
            pair,
            places,
            bytes,
        }
    }

    /// Lets the network lose the first data frame with this PSN.
    fn lose(&mut self, psn: u32) {
        let mut is_lost = false;
        self.pair.net.fault_hook =
            Some(Box::new(move |sent| match is_data(sent, psn) && !is_lost {
                true => {
                    is_lost = true;
                    Fate::Drop
                }
                false => Fate::Pass,
            }));
    }

    /// Runs it to its end, and checks the bytes.
    fn run(&mut self, read: bool) -> Cost {
        let start = self.pair.now;
        self.pair.drive(1_000_000);
        let [a, b] = &mut self.pair.hosts;
        assert_eq!(a.requester.error(), None);
        assert_eq!(a.sent.len(), MESSAGES);
        for &(at_b, at_a) in &self.places {
            let (host, va) = if read { (&*a, at_a) } else { (&*b, at_b) };
            assert!(host.memory.get(va, MESSAGE_LEN) == self.bytes);
        }
        let kept = a.frames_kept() + b.frames_kept();
        let (sent, received) = (a.requester.take_stats(), b.responder.take_stats());
        Cost {
            time: self.pair.now.saturating_since(start),
            frames: self.pair.net.log.as_ref().map_or(0, Vec::len),
            naks: received.sequence_naks,
            retries: sent.retries,
            timeouts: sent.timeouts,
            kept,
        }
    }
}

#[test]
fn a_path_that_changes_the_order_costs_no_retransmission() {
    for read in [false, true] {
        for reordering in [20, 100, 500] {
            let cost = |wait| Transfer::new(setup(wait, reordering), read).run(read);
            let (without, with) = (cost(None), cost(Some(WAIT)));
            eprintln!("read {read}, {reordering} late of 1000: {without:?} -> {with:?}");
            assert!(without.retries > 0 && without.kept == 0, "{without:?}");
            assert!(
                (with.naks, with.retries, with.timeouts) == (0, 0, 0),
                "{with:?}"
            );
            assert!(with.kept > 0 && with.frames < without.frames, "{with:?}");
        }
    }
}

/// Returns the cost of a transfer of which the first data frame with PSN `psn` is lost, and the time from that until it
/// is sent again.
fn with_loss(read: bool, wait: Option<Duration>, psn: u32) -> (Cost, Duration) {
    let mut transfer = Transfer::new(setup(wait, 0), read);
    transfer.lose(psn);
    let cost = transfer.run(read);
    let log = transfer.pair.net.log.expect("a recorded network");
    let mut sent = log
        .iter()
        .filter(|sent| is_data(sent, psn))
        .map(|sent| sent.at);
    let first = sent.next().expect("the frame that is lost");
    let again = sent.next().expect("a retransmission");
    (cost, again.saturating_since(first))
}

#[test]
fn a_loss_is_reported_after_the_wait() {
    for read in [false, true] {
        // Early enough in its message that others follow, late enough in the transfer that few do.
        let psn = 0x10 + (MESSAGES as u32 - 1) * 16 + 10;
        let (at_once, without) = with_loss(read, None, psn);
        let (cost, after) = with_loss(read, Some(WAIT), psn);
        assert!(without < WAIT && at_once.timeouts == 0, "{at_once:?}");
        assert!(after >= WAIT && after < WAIT.saturating_mul(2), "{after:?}");
        assert_eq!((cost.retries, cost.timeouts), (1, 0), "{cost:?}");
        assert_eq!(cost.naks, u32::from(!read));
        // What was kept needs no repetition, but the requester goes back to the gap.
        assert!(cost.kept == 5 && cost.frames <= at_once.frames, "{cost:?}");
    }
}

#[test]
fn a_full_buffer_reports_the_loss_at_once() {
    for read in [false, true] {
        let mut setup = setup(Some(Duration::from_micros(5_000)), 0);
        setup.mtu = Mtu::Mtu256;
        setup.flow.packets = 2 * MAX_EARLY_PACKETS;
        let mut transfer = Transfer::new(setup, read);
        transfer.lose(0x20);
        let cost = transfer.run(read);
        assert!(cost.kept >= u64::from(MAX_EARLY_PACKETS), "{cost:?}");
        assert_eq!((cost.retries, cost.timeouts), (1, 0), "{cost:?}");
        assert!(cost.time < Duration::from_micros(5_000), "{cost:?}");
    }
}

/// Two hosts over a bad network that delivers the first data packet, once, this much later than the others.
fn pair_with_late_first(min_rnr_timer: u8, late: Duration) -> Pair {
    let mut pair = Pair::new(Setup {
        min_rnr_timer,
        faults: Faults {
            delay: Duration::from_micros(10),
            ..Faults::default()
        },
        ..setup(Some(WAIT), 0)
    });
    let mut is_late = false;
    let first = pair.hosts[A].requester.psn().get();
    pair.net.fault_hook = Some(Box::new(move |sent| {
        match is_data(sent, first) && !is_late {
            true => {
                is_late = true;
                Fate::Late(late)
            }
            false => Fate::Pass,
        }
    }));
    pair
}

#[test]
fn a_request_that_is_repeated_causes_one_rnr_nak() {
    // The first packet arrives when its loss was reported, but before it is repeated. There is a receive for its
    // message only. The pause after an RNR NAK is 10 ms.
    let mut pair = pair_with_late_first(20, Duration::from_micros(215));
    let bytes = pattern(1, 1000);
    pair.receive(B, bytes.len());
    for _ in 0..4 {
        pair.send(A, &bytes, None);
    }
    let deadline = pair.now.saturating_add(Duration::from_micros(1_000));
    pair.drive_until(deadline);
    let stats = pair.hosts[B].responder.take_stats();
    assert_eq!((stats.sequence_naks, stats.rnr_naks), (1, 1), "{stats:?}");
    assert_eq!(pair.hosts[B].frames_kept(), 3);
}

#[test]
fn what_is_kept_behind_an_rnr_nak_causes_no_other() {
    // The first packet is late, not lost, and there is a receive for its message only.
    let mut pair = pair_with_late_first(7, Duration::from_micros(50));
    let bytes = pattern(1, 1000);
    for _ in 0..4 {
        pair.send(A, &bytes, None);
    }
    let start = pair.now;
    // There is one more receive when the peer repeats the second message, after 120 us: sooner than a gap is reported.
    for micros in [100, 280] {
        pair.receive(B, bytes.len());
        pair.drive_until(start.saturating_add(Duration::from_micros(micros)));
        let stats = pair.hosts[B].responder.take_stats();
        assert_eq!((stats.sequence_naks, stats.rnr_naks), (0, 1), "{stats:?}");
    }
    assert_eq!(pair.hosts[B].frames_kept(), 3);
}
