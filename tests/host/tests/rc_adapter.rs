// SPDX-License-Identifier: GPL-2.0

//! This driver connected to a model of an RDMA adapter: what one tells the other, what each keeps, and recovery over a
//! network with faults.

use roce::{
    rc::responder::Fatal,
    segmentation::mtu::Mtu,
    status::{
        NakCode,
        WcStatus, //
    },
    time::Duration,
    wire::{
        aeth::Syndrome,
        icrc::Icrc,
        ip::{
            Ipv4Pseudo,
            Masked,
            UdpPseudo, //
        },
        opcode::Operation, //
    }, //
};
use roce_tests::{
    adapter::{
        link::{
            AdapterLink,
            SHARED_BYTES, //
        },
        requester::AdapterWork,
        Profile,
        BNXT,
        HNS,
        IRDMA,
        MLX5,
        PROFILES, //
    },
    crc::Fast,
    net::{
        Fate,
        Faults,
        Sent, //
    },
    pair::{
        Setup,
        A,
        B, //
    },
    random::Random,
    spec, //
};

/// Number of connections over a network with faults, for each family.
const SEEDS: u64 = 150;

/// A connection without faults.
fn connect(profile: Profile) -> AdapterLink {
    with(profile, |_| {})
}

fn with(profile: Profile, change: impl FnOnce(&mut Setup)) -> AdapterLink {
    let mut setup = Setup {
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        ..Setup::default()
    };
    change(&mut setup);
    AdapterLink::new(profile, setup)
}

/// A connection determined by a seed, with faults, and its requests.
fn random_link(profile: Profile, seed: u64) -> AdapterLink {
    let mut random = Random::new(seed);
    let reads = 1 + random.below(16) as u8;
    let mut link = with(profile, |setup| {
        setup.mtu = Mtu::ALL[random.below(Mtu::ALL.len())];
        setup.first_psn = 0x100_0000 - 1 - random.below(200) as u32;
        setup.max_rd_atomic = reads;
        setup.ack_timeout = [8, 12][random.below(2)];
        setup.super_packets = random.below(2) == 0;
        setup.sparse_ack_requests = random.below(2) == 0;
        setup.seed = seed;
        setup.faults = Faults {
            loss: random.below(30),
            duplication: random.below(30),
            corruption: random.below(10),
            reordering: random.below(60),
            delay: Duration::from_micros(random.below(20) as u64),
            jitter: Duration::from_micros(1 + random.below(100) as u64),
        };
    });
    for _ in 0..random.below(40) {
        let from = random.below(2);
        let len = [0, 1, 300, 3000, 9000][random.below(5)] + random.below(64);
        let signaled = random.below(3) != 0;
        match random.below(5) {
            0 | 1 => link.send(from, len, signaled),
            2 => link.write(from, len, false, signaled),
            3 => link.write(from, len, true, signaled),
            _ => link.read(from, random.below(SHARED_BYTES / 2 - len), len),
        }
    }
    link
}

/// Runs a connection. A receive is posted at each end every few steps.
fn run(link: &mut AdapterLink, seed: u64) {
    let interval = 1 + seed as usize % 20;
    let mut receives = 80;
    for step in 0.. {
        assert!(step < 400_000, "does not terminate");
        let busy = link.step();
        if !busy && receives == 0 {
            break;
        }
        if receives != 0 && (step % interval == 0 || !busy) {
            receives -= 1;
            link.receive(A, 10_000);
            link.receive(B, 10_000);
        }
    }
    link.check();
}

#[test]
fn requests_complete_over_a_network_with_faults() {
    for profile in PROFILES {
        for seed in 0..SEEDS {
            let result = std::panic::catch_unwind(|| {
                let mut link = random_link(profile, seed);
                run(&mut link, seed);
            });
            assert!(result.is_ok(), "{}, seed {seed}", profile.name);
        }
    }
}

#[test]
fn a_small_receive_queue_is_not_overrun() {
    for profile in [MLX5, HNS] {
        let mut link = connect(profile);
        (0..6).for_each(|_| link.receive(B, 100));
        link.send(A, 10, true);
        link.drive();
        for _ in 0..60 {
            link.send(A, 10, true);
        }
        let mut posted = 6;
        while posted < 61 {
            if link.adapter.responder.received.len() + 2 >= posted {
                link.receive(B, 100);
                posted += 1;
            }
            link.step();
        }
        link.drive();
        link.check();
        let counts = link.adapter.responder.counts;
        assert_eq!(
            counts.rnr_naks, 0,
            "{}: receives come in time",
            profile.name
        );

        link.send(A, 10, true);
        link.send(A, 10, true);
        for _ in 0..200 {
            link.step();
        }
        let counts = link.adapter.responder.counts;
        assert!(counts.rnr_naks > 0, "one message goes without credit");
        assert_eq!(counts.beyond_probe, 0, "{}: no other one", profile.name);
        (0..2).for_each(|_| link.receive(B, 100));
        link.drive();
        link.check();
    }
}

#[test]
fn credits_of_a_deep_queue_hold_nothing_back() {
    let mut link = with(IRDMA, |setup| setup.slots = 256);
    (0..200).for_each(|_| link.receive(B, 100));
    link.send(A, 10, true);
    link.drive();
    let start = link.now;
    for _ in 0..100 {
        link.send(A, 10, true);
    }
    link.drive();
    link.check();
    let elapsed = link.now.as_nanos() - start.as_nanos();
    assert!(elapsed < 2_000_000, "a few round trips: {elapsed} ns");
}

#[test]
fn a_nak_with_a_notification_costs_one_retransmission() {
    let mut link = connect(MLX5);
    (0..9).for_each(|_| link.receive(B, 9000));
    link.net
        .record_and_drop(|sent| sent.from == A && sent.number == 2);
    link.send(A, 9000, true);
    link.drive();
    link.check();
    let notified = |sent: &&Sent| sent.operation == Operation::Cnp;
    assert_eq!(link.net.log.iter().flatten().filter(notified).count(), 1);
    assert_eq!(link.adapter.responder.counts.sequence_naks, 1);
    assert_eq!(link.host.requester.take_stats().retries, 1);
}

#[test]
fn sixteen_reads_are_in_flight_at_most() {
    let mut link = connect(MLX5);
    for _ in 0..64 {
        link.read(A, 0, 3000);
    }
    link.drive();
    link.check();

    let mut link = with(MLX5, |setup| setup.max_rd_atomic = 64);
    for _ in 0..64 {
        link.read(A, 0, 3000);
    }
    link.drive();
    assert_eq!(link.adapter.responder.failed, Some(NakCode::InvalidRequest));
    assert_eq!(
        link.host.requester.error(),
        Some(WcStatus::RemInvReqErr),
        "the consumer set the limit too high"
    );
}

#[test]
fn a_long_read_in_parts_is_repeated_from_the_first_missing_packet() {
    for profile in PROFILES {
        let mut link = connect(profile);
        link.net
            .record_and_drop(|sent| sent.from == B && sent.number % 40 == 20);
        link.read(A, 0, SHARED_BYTES / 2);
        link.drive();
        link.check();
        assert!(link.adapter.responder.counts.repeated_reads > 0);
        let lengths = link
            .net
            .log
            .iter()
            .flatten()
            .filter_map(|sent| sent.reth_len);
        assert!(lengths.max() < Some(SHARED_BYTES as u32 / 2), "in parts");
    }
}

#[test]
fn an_adapter_asks_again_from_the_first_missing_packet() {
    for profile in PROFILES {
        let mut link = connect(profile);
        link.net
            .record_and_drop(|sent| sent.from == A && sent.number % 30 == 15);
        link.read(B, 0, 100_000);
        link.read(B, 64, 100_000);
        link.drive();
        link.check();
        assert!(link.adapter.requester.reread > 0, "{}", profile.name);
    }
}

#[test]
fn a_lost_response_is_not_completed_by_the_msn_of_an_ack() {
    let mut link = connect(BNXT);
    (0..20).for_each(|_| link.receive(A, 100));
    link.net.record_and_drop(|sent| {
        sent.from == A && sent.operation == Operation::ReadResponse && sent.number % 5 == 0
    });
    for _ in 0..10 {
        link.send(B, 10, true);
        link.read(B, 0, 20_000);
        link.send(B, 10, true);
    }
    link.drive();
    link.check();
}

#[test]
fn an_adapter_acknowledges_only_what_asks_for_it() {
    let mut link = connect(HNS);
    (0..4).for_each(|_| link.receive(A, 9000));
    link.net.log = Some(Vec::new());
    (0..4).for_each(|_| link.send(B, 9000, true));
    link.drive();
    link.check();
    let sent: Vec<_> = link.net.log.iter().flatten().collect();
    let acks = sent.iter().filter(|sent| sent.syndrome.is_some()).count();
    let asked = sent.iter().filter(|sent| sent.ack_request).count();
    assert_eq!(asked, 8, "the first and the last packet of each message");
    assert!(acks <= asked, "{acks} ACKs for {asked} requests");
    let plain = Some(Syndrome::ACK_UNLIMITED);
    assert!(sent
        .iter()
        .all(|sent| sent.syndrome.is_none() || sent.syndrome == plain));
}

#[test]
fn a_stream_behind_a_read_is_acknowledged_without_a_mistaken_duplicate() {
    for profile in PROFILES {
        let mut link = with(profile, |setup| setup.ack_timeout = 14);
        (0..60).for_each(|_| link.receive(B, 100));
        link.send(A, 10, true);
        link.drive();
        let start = link.now;
        link.read(A, 0, 5000);
        (0..4).for_each(|_| link.send(A, 10, false));
        link.drive();
        link.check();
        let counts = link.adapter.responder.counts;
        assert_eq!(counts.mistaken_duplicates, 0, "{}", profile.name);
        assert_eq!(
            counts.duplicates, 1,
            "{}: one packet asks for the ACK",
            profile.name
        );
        let elapsed = link.now.as_nanos() - start.as_nanos();
        assert!(elapsed < 5_000_000, "no timeout: {elapsed} ns");
    }
}

#[test]
fn a_vendor_opcode_ends_the_connection_at_once() {
    let mut link = connect(MLX5);
    link.receive(A, 100);
    link.send(B, 10, true);
    link.adapter
        .requester
        .post(AdapterWork::Vendor { opcode: 0x15 });
    link.drive();
    assert_eq!(link.adapter.requester.failed, Some(NakCode::InvalidRequest));
    assert_eq!(link.host.fatal, Some(Fatal::RequestError));
    assert_eq!(link.host.received.len(), 1, "what came before is executed");
    assert_eq!(link.adapter.requester.retransmissions, 0);
}

#[test]
fn any_source_port_is_covered_by_the_icrc() {
    for sport in [0_u16, 0x45, 0x48, 0xc000] {
        let ip = Ipv4Pseudo {
            total_len: 48,
            id: 0,
            frag: 0x4000,
            saddr: [10, 0, 0, 1],
            daddr: [10, 0, 0, 2],
        };
        let udp = UdpPseudo {
            sport,
            dport: 4791,
            len: 28,
        };
        let masked = Masked::ipv4(&ip, &udp);
        let bth = [
            4, 0x40, 0xff, 0xff, 0x10, 0, 0, 1, 0x80, 0, 0, 9, 1, 2, 3, 4,
        ];
        let mut packet = masked.as_bytes().to_vec();
        packet.extend_from_slice(&bth);
        assert_eq!(
            Icrc::<Fast>::headers(&masked, &bth).finish(),
            spec::icrc(&packet)
        );
    }
}

/// Faults that a test chooses.
trait ChosenFaults {
    /// Logs all frames, and drops those that `lost` chooses, each once.
    fn record_and_drop(&mut self, lost: impl Fn(&Sent) -> bool + 'static);
}

impl ChosenFaults for roce_tests::net::Net {
    fn record_and_drop(&mut self, lost: impl Fn(&Sent) -> bool + 'static) {
        self.log = Some(Vec::new());
        self.fault_hook = Some(Box::new(move |sent| match lost(sent) {
            true => Fate::Drop,
            false => Fate::Pass,
        }));
    }
}
