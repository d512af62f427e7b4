// SPDX-License-Identifier: GPL-2.0

//! Sent datagrams and arbitrary bytes; see `roce_tests::fuzz::datagrams`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::datagrams::datagrams(data));
