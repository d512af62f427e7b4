// SPDX-License-Identifier: GPL-2.0

//! Arbitrary bytes as a entry of the ABI of the own provider; see `abi_tests::direct_entries`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| abi_tests::direct_entries::direct_entries(data));
