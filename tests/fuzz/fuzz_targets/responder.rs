// SPDX-License-Identifier: GPL-2.0

//! Arbitrary requests to a responder; see `roce_tests::fuzz::responder`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::responder::responder(data));
