// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets of the wire, run for a bounded time; see `fuzz::run_bounded` for how long.

use roce_tests::{
    fuzz::{
        parse,
        run_bounded, //
    },
    pcap,
    vectors, //
};

#[test]
fn parse() {
    let mut corpus = vectors::corpus();
    corpus.extend(pcap::packets("rxe-ipv4.pcap"));
    corpus.extend(pcap::packets("rxe-ipv6.pcap"));
    run_bounded(1, &corpus, parse::parse);
}

#[test]
#[should_panic(expected = "found it")]
fn the_driver_reaches_damaged_members_of_the_corpus() {
    let corpus = vectors::corpus();
    run_bounded(1, &corpus, |data| {
        let last_byte_only = |member: &Vec<u8>| {
            let len = member.len() - 1;
            data.len() == member.len() && data[..len] == member[..len] && data != member
        };
        assert!(!corpus.iter().any(last_byte_only), "found it");
    });
}
