// SPDX-License-Identifier: GPL-2.0

//! Arbitrary requests, responses and timeouts of a requester; see `roce_tests::fuzz::requester`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::requester::requester(data));
