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
    random::Random,
};

/// Long inputs without sense, of which parts are changed and left out.
fn corpus() -> Vec<Vec<u8>> {
    let mut random = Random::new(3);
    (0..100)
        .map(|_| (0..400).map(|_| random.byte()).collect())
        .collect()
}

#[test]
fn a_responder_keeps_its_promises_whatever_comes() {
    run_bounded("responder", 1, &corpus(), responder);
}

#[test]
fn a_requester_keeps_its_promises_whatever_comes() {
    run_bounded("requester", 2, &corpus(), requester);
}

#[test]
fn a_pair_does_everything_once_and_in_order_whatever_the_network_does() {
    run_bounded("pair", 3, &corpus(), pair);
}

#[test]
fn each_request_is_reported_once_whatever_the_states_are() {
    run_bounded("states", 4, &corpus(), states);
}
