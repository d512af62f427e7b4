// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets of the RC transport, run for a bounded time; see `fuzz::run_bounded`.

use roce_tests::{
    fuzz::{
        pair::pair,
        requester::requester,
        responder::responder,
        run_bounded,
        states::states, //
    },
    random::Random, //
};

/// Random inputs, which the generator mutates and truncates.
fn corpus() -> Vec<Vec<u8>> {
    let mut random = Random::new(3);
    (0..100)
        .map(|_| (0..400).map(|_| random.byte()).collect())
        .collect()
}

#[test]
fn a_responder_handles_any_requests() {
    run_bounded("responder", 1, &corpus(), responder);
}

#[test]
fn a_requester_handles_any_responses() {
    run_bounded("requester", 2, &corpus(), requester);
}

#[test]
fn a_pair_executes_requests_once_and_in_order_over_any_network() {
    run_bounded("pair", 3, &corpus(), pair);
}

#[test]
fn each_request_is_reported_once_in_any_state() {
    run_bounded("states", 4, &corpus(), states);
}
