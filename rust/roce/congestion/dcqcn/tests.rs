// SPDX-License-Identifier: GPL-2.0

//! Unit tests of the rate of one sender: CNPs, time and bytes.

use super::*;

const LIMIT: BurstLimit = BurstLimit {
    bytes: 128 << 10,
    packets: 128,
};

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000).saturating_add(Duration::from_micros(micros))
}

fn ten_gigabit() -> Dcqcn {
    Dcqcn::new(DcqcnConfig::new(Rate::from_mbit_s(10_000)))
}

fn mbit_s(sender: &Dcqcn) -> Option<u64> {
    sender.rate().map(|rate| rate.bytes_s() / 125_000)
}

#[test]
fn without_a_cnp_there_is_no_limit() {
    let mut sender = ten_gigabit();
    assert_eq!(sender.burst_limit(at(0), LIMIT), LIMIT);
    sender.on_sent(at(0), 128, 128 << 10);
    assert_eq!(sender.burst_limit(at(0), LIMIT), LIMIT);
    assert_eq!(sender.paused_until(), None);
    assert_eq!(sender.rate(), None);
}

#[test]
fn the_first_cnp_after_a_start_halves_the_rate() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    assert_eq!(mbit_s(&sender), Some(5_000));
}

#[test]
fn cnps_in_quick_succession_count_once() {
    let mut sender = ten_gigabit();
    for micros in [0, 50, 100, 249] {
        sender.on_cnp(at(micros));
    }
    assert_eq!(mbit_s(&sender), Some(5_000));
    sender.on_cnp(at(250));
    let rate = mbit_s(&sender);
    assert!(rate.is_some_and(|rate| rate < 2_600), "{rate:?}");
}

#[test]
fn the_rate_does_not_fall_below_the_minimum() {
    let mut sender = ten_gigabit();
    for n in 0..4_000 {
        let now = at(50 * n);
        sender.on_time(now);
        // It uses the rate.
        for _ in 0..64 {
            if sender.burst_limit(now, LIMIT).packets != 0 {
                sender.on_sent(now, 1, 512);
            }
        }
        sender.on_cnp(now);
        assert!(mbit_s(&sender).is_some_and(|rate| rate >= 10), "{now:?}");
    }
    let rate = mbit_s(&sender);
    assert!(rate.is_some_and(|rate| rate < 20), "{rate:?}");
    let mut sender = Dcqcn {
        current: sender.config.min_rate,
        ..sender
    };
    sender.pacer.stop();
    // A packet that takes longer than a burst still leaves.
    let limit = sender.burst_limit(at(200_000), LIMIT);
    assert_eq!(limit.packets, LIMIT.packets);
    sender.on_sent(at(200_000), 1, 4_096);
    let until = sender.paused_until();
    assert!(until.is_some_and(|until| until < at(204_000)), "{until:?}");
}

#[test]
fn a_rare_cnp_costs_little() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    // A second without a CNP: the rate is that of the line, and `alpha` has fallen.
    let _ = sender.burst_limit(at(1_000_000), LIMIT);
    assert_eq!(sender.rate(), None);
    sender.on_cnp(at(1_000_000));
    let rate = mbit_s(&sender);
    assert!(rate.is_some_and(|rate| rate > 9_900), "{rate:?}");
}

#[test]
fn a_rate_that_is_not_used_does_not_count() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    // 1 Gbit/s: 125 bytes in a microsecond.
    for n in 1..=20u64 {
        sender.on_sent(at(125 * n), 4, 15_625 - 4 * OVERHEAD_BYTES);
    }
    sender.on_cnp(at(2_500));
    let rate = mbit_s(&sender);
    assert!(
        rate.is_some_and(|rate| (500..600).contains(&rate)),
        "{rate:?}"
    );
}

#[test]
fn a_sender_that_was_idle_returns_to_the_rate_that_it_did_not_use() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    // A short message each 5 ms, each marked.
    for n in 1..=20u64 {
        sender.on_sent(at(5_000 * n), 1, 64);
        sender.on_cnp(at(5_000 * n + 20));
    }
    let now = at(100_020);
    assert_eq!(mbit_s(&sender).map(|rate| rate <= 10), Some(true));
    // Fast recovery, 1.5 ms.
    let _ = sender.burst_limit(now.saturating_add(Duration::from_micros(1_500)), LIMIT);
    let rate = mbit_s(&sender);
    assert!(rate.is_some_and(|rate| rate > 5_000), "{rate:?}");
}

#[test]
fn packets_that_are_not_sent_after_all_cost_no_time() {
    let mut sender = ten_gigabit();
    for n in 0..6 {
        sender.on_cnp(at(250 * n));
    }
    let now = at(1_300);
    let (measured, bytes) = (sender.measured_bytes, sender.bytes);
    // More than the millisecond that the pacer makes up for.
    sender.on_sent(now, 8, 30_000);
    assert!(sender.paused_until().is_some());
    sender.on_unsent(8, 30_000);
    sender.on_time(now);
    assert_eq!(sender.paused_until(), None);
    assert_eq!((sender.measured_bytes, sender.bytes), (measured, bytes));
    assert_eq!(sender.burst_limit(now, LIMIT).packets, LIMIT.packets);
}

#[test]
fn fast_recovery_returns_half_way_to_the_target_in_each_step() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    let rates = [1, 2, 3, 4, 5].map(|step| {
        let _ = sender.burst_limit(at(300 * step), LIMIT);
        mbit_s(&sender)
    });
    assert_eq!(rates, [7_500, 8_750, 9_375, 9_687, 9_843].map(Some));
}

#[test]
fn then_the_target_grows_slowly_and_fast_if_bytes_call_for_it() {
    let config = DcqcnConfig {
        line_rate: Rate::from_mbit_s(100_000),
        ..DcqcnConfig::new(Rate::MAX)
    };
    let mut idle = Dcqcn::new(config);
    idle.on_cnp(at(0));
    let mut busy = idle;
    let start = Rate::from_mbit_s(10_000);
    (idle.target, busy.target) = (Rate::from_mbit_s(10_000), Rate::from_mbit_s(10_000));
    for step in 1..=20u64 {
        let _ = idle.burst_limit(at(300 * step), LIMIT);
        let _ = busy.burst_limit(at(300 * step), LIMIT);
        busy.on_sent(at(300 * step), 1, config.step_bytes);
    }
    let growth = |sender: &Dcqcn| (sender.target.bytes_s() - start.bytes_s()) / 125_000;
    // Fifteen steps by time after fast recovery.
    assert_eq!(growth(&idle), 15 * 5);
    // The same, by bytes as well: all but the first of them are fast.
    assert_eq!(growth(&busy), 5 + 29 * 50);
}

#[test]
fn a_sender_at_line_rate_is_unlimited_again() {
    let mut sender = ten_gigabit();
    sender.on_cnp(at(0));
    let limit = sender.burst_limit(at(1), LIMIT);
    sender.on_sent(at(1), 16, limit.bytes);
    let mut now = at(1);
    while sender.is_limited() {
        now = now.saturating_add(Duration::from_micros(300));
        let _ = sender.burst_limit(now, LIMIT);
    }
    assert_eq!(sender.paused_until(), None);
    assert!(now < at(20_000), "{now:?}");
    assert_eq!(sender.burst_limit(now, LIMIT), LIMIT);
}

#[test]
fn a_clock_that_stood_still_for_years_costs_little_time() {
    let mut sender = ten_gigabit();
    for n in 0..20 {
        sender.on_cnp(at(250 * n));
    }
    let _ = sender.burst_limit(Instant::MAX, LIMIT);
    assert_eq!(sender.rate(), None);
}
