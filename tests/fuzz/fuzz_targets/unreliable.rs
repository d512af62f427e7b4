// SPDX-License-Identifier: GPL-2.0

//! Arbitrary messages over an unreliable connection, and arbitrary packets; see `roce_tests::fuzz::unreliable`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::unreliable::unreliable(data));
