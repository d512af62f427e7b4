// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets of the wire format and the unreliable services, run for a bounded time; see
//! `fuzz::run_bounded`.

use roce_tests::{
    fuzz::{
        datagrams::datagrams,
        make_input,
        parse,
        run_bounded,
        unreliable::unreliable, //
    },
    pcap,
    random::Random,
    vectors, //
};

#[test]
fn parse() {
    let mut corpus = vectors::corpus();
    corpus.extend(pcap::packets("rxe-ipv4.pcap"));
    corpus.extend(pcap::packets("rxe-ipv6.pcap"));
    run_bounded("parse", 1, &corpus, parse::parse);
}

#[test]
fn unreliable_connections_deliver_complete_messages_or_none() {
    let mut random = Random::new(7);
    let corpus: Vec<_> = (0..100)
        .map(|_| (0..200).map(|_| random.byte()).collect())
        .collect();
    run_bounded("unreliable", 5, &corpus, unreliable);
}

#[test]
fn datagrams_have_the_requested_headers() {
    run_bounded("datagrams", 6, &vectors::corpus(), datagrams);
}

#[test]
fn the_generator_mutates_members_of_the_corpus() {
    let corpus = vectors::corpus();
    let found = (0..100_000).any(|seed| {
        let data = make_input(&mut Random::new(seed), &corpus);
        let last_byte_only = |member: &Vec<u8>| {
            let len = member.len() - 1;
            data.len() == member.len() && data[..len] == member[..len] && data != *member
        };
        corpus.iter().any(last_byte_only)
    });
    assert!(found);
}
