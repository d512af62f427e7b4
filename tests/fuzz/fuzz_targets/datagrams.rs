// SPDX-License-Identifier: GPL-2.0

//! Any datagrams, sent and received; see `roce_tests::fuzz::datagrams`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| roce_tests::fuzz::datagrams::datagrams(data));
