// SPDX-License-Identifier: GPL-2.0

//! Every operation, with every path MTU and with boundary lengths, over a network without faults.

use roce::{
    access::Access,
    rc::requester::FlowLimit,
    segmentation::mtu::Mtu,
    status::WcStatus,
    wire::opcode::Operation,
    wr::{
        Imm,
        WcOpcode, //
    }, //
};
use roce_tests::pair::{
    pattern,
    remote,
    Pair,
    Setup,
    A,
    B, //
};

/// Flow limit in bytes: small, so that messages need several windows.
const WINDOW_BYTES: u32 = 16 << 10;

fn setup(mtu: Mtu) -> Setup {
    Setup {
        mtu,
        flow: FlowLimit {
            bytes: WINDOW_BYTES,
            packets: 32,
        },
        ..Setup::default()
    }
}

fn sizes(mtu: Mtu) -> Vec<usize> {
    let mtu = mtu.bytes() as usize;
    let window = WINDOW_BYTES as usize;
    vec![
        0,
        1,
        2,
        3,
        4,
        5,
        mtu - 1,
        mtu,
        mtu + 1,
        2 * mtu - 1,
        2 * mtu,
        2 * mtu + 1,
        window,
        window + 1,
        5 * window + 3,
    ]
}

fn every_mtu_and_size(check: impl Fn(Mtu, usize)) {
    for mtu in Mtu::ALL {
        for size in sizes(mtu) {
            check(mtu, size);
        }
    }
}

#[test]
fn send_fills_a_receive() {
    every_mtu_and_size(|mtu, size| {
        for imm in [None, Some(Imm([1, 2, 3, 4]))] {
            let mut pair = Pair::new(setup(mtu));
            let bytes = pattern(size as u64, size);
            let (receive, va) = pair.receive(B, size + 8);
            let wr_id = pair.send(A, &bytes, imm);
            pair.drive(10_000);

            let sent = pair.hosts[A].sent[0];
            assert_eq!((sent.wr_id, sent.status), (wr_id, WcStatus::Success));
            assert_eq!(
                (sent.opcode, sent.byte_len as usize),
                (WcOpcode::Send, size)
            );
            let (received, _) = pair.hosts[B].received[0];
            assert_eq!(
                (received.wr_id, received.status),
                (receive, WcStatus::Success)
            );
            assert_eq!((received.opcode, received.imm), (WcOpcode::Recv, imm));
            assert_eq!(received.byte_len as usize, size);
            assert_eq!(pair.hosts[B].memory.get(va, size), bytes);
            assert_eq!(pair.hosts[B].memory.get(va + size as u64, 8), [0xaa; 8]);
            assert_eq!(
                (pair.hosts[A].sent.len(), pair.hosts[B].received.len()),
                (1, 1)
            );
        }
    });
}

#[test]
fn write_changes_only_its_target() {
    every_mtu_and_size(|mtu, size| {
        for imm in [None, Some(Imm([4, 3, 2, 1]))] {
            let mut pair = Pair::new(setup(mtu));
            let va = pair.hosts[B].memory.alloc(size + 16);
            let rkey = pair.hosts[B]
                .memory
                .register(va + 8, size, Access::REMOTE_WRITE);
            let bytes = pattern(size as u64, size);
            let (receive, _) = pair.receive(B, 0);
            let wr_id = pair.write(A, remote(va + 8, rkey), &bytes, imm);
            pair.drive(10_000);

            let sent = pair.hosts[A].sent[0];
            assert_eq!((sent.wr_id, sent.status), (wr_id, WcStatus::Success));
            assert_eq!(sent.opcode, WcOpcode::RdmaWrite);
            let memory = &pair.hosts[B].memory;
            assert_eq!(memory.get(va, 8), [0xaa; 8]);
            assert_eq!(memory.get(va + 8, size), bytes);
            assert_eq!(memory.get(va + 8 + size as u64, 8), [0xaa; 8]);
            match imm {
                None => assert_eq!(pair.hosts[B].received, []),
                Some(_) => {
                    let (received, _) = pair.hosts[B].received[0];
                    assert_eq!(received.wr_id, receive);
                    assert_eq!(received.opcode, WcOpcode::RecvRdmaWithImm);
                    assert_eq!((received.byte_len as usize, received.imm), (size, imm));
                }
            }
        }
    });
}

#[test]
fn read_copies_the_remote_memory() {
    every_mtu_and_size(|mtu, size| {
        let mut pair = Pair::new(setup(mtu));
        let bytes = pattern(size as u64, size);
        let va = pair.hosts[B].memory.store(&bytes);
        let rkey = pair.hosts[B].memory.register(va, size, Access::REMOTE_READ);
        let (wr_id, local) = pair.read(A, remote(va, rkey), size);
        let guard = pair.hosts[A].memory.alloc(8);
        pair.drive(10_000);

        let sent = pair.hosts[A].sent[0];
        assert_eq!((sent.wr_id, sent.status), (wr_id, WcStatus::Success));
        assert_eq!(
            (sent.opcode, sent.byte_len as usize),
            (WcOpcode::RdmaRead, size)
        );
        assert_eq!(pair.hosts[A].memory.get(local, size), bytes);
        assert_eq!(pair.hosts[A].memory.get(guard, 8), [0xaa; 8]);
        assert_eq!(pair.hosts[B].received, []);
    });
}

#[test]
fn both_directions_are_independent() {
    let mut pair = Pair::new(setup(Mtu::Mtu512));
    let bytes: Vec<_> = (0..20).map(|n| pattern(n, n as usize * 300)).collect();
    let mut expected = [Vec::new(), Vec::new()];
    for bytes in &bytes {
        for at in [A, B] {
            let (_, va) = pair.receive(at, bytes.len());
            expected[at].push(va);
            pair.send(1 - at, bytes, None);
        }
    }
    pair.drive(10_000);
    for at in [A, B] {
        assert_eq!(pair.hosts[at].sent.len(), 20);
        assert_eq!(pair.hosts[at].received.len(), 20);
        for (va, bytes) in expected[at].iter().zip(&bytes) {
            assert_eq!(pair.hosts[at].memory.get(*va, bytes.len()), bytes);
        }
    }
}

#[test]
fn each_packet_is_sent_once_without_faults() {
    let mut pair = Pair::new(setup(Mtu::Mtu1024));
    pair.record();
    let va = pair.hosts[B].memory.alloc(100_000);
    let access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let rkey = pair.hosts[B].memory.register(va, 100_000, access);
    for _ in 0..4 {
        pair.write(A, remote(va, rkey), &[7; 50_000], None);
        pair.read(A, remote(va, rkey), 50_000);
    }
    pair.drive(10_000);
    assert_eq!(pair.hosts[A].sent.len(), 8);
    let count = |operation| {
        let log = pair.net.log.iter().flatten();
        log.filter(|sent| sent.operation == operation).count()
    };
    assert_eq!(count(Operation::RdmaWrite), 4 * 49);
    // A READ is split into quarters of the window, as the peer serves four at a time.
    let parts = 50_000_usize.div_ceil(WINDOW_BYTES as usize / 4);
    assert_eq!(count(Operation::ReadRequest), 4 * parts);
    assert_eq!(count(Operation::ReadResponse), 4 * 49);
    let acks = count(Operation::Acknowledge);
    assert!((4..40).contains(&acks), "{acks}");
    let stats = pair.hosts[A].requester.take_stats();
    assert_eq!((stats.retries, stats.stale_responses), (0, 0), "{stats:?}");
    assert_eq!(pair.hosts[A].dropped, []);
    assert_eq!(pair.hosts[B].dropped, []);
}
