// SPDX-License-Identifier: GPL-2.0

//! Arbitrary bytes as a WQE; see `abi_tests::entries`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| abi_tests::entries::entries(data));
