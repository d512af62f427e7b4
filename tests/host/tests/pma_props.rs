// SPDX-License-Identifier: GPL-2.0

//! Responses of performance management to arbitrary datagrams, compared with a second
//! implementation by offsets.

use proptest::prelude::*;
use roce::pma::{
    response,
    Counts,
    MAD_LEN, //
};

const GET: u8 = 1;
const SET: u8 = 2;
const PERF_MGMT_CLASS: u8 = 4;

/// Random bytes with an often valid header.
fn request() -> impl Strategy<Value = [u8; MAD_LEN]> {
    let byte = |valid: u8| prop_oneof![4 => Just(valid), 1 => any::<u8>()];
    let method = prop_oneof![4 => Just(GET), 1 => Just(SET), 1 => any::<u8>()];
    let attribute = prop_oneof![
        1 => Just(0x01_u16),
        2 => Just(0x12),
        2 => Just(0x1d),
        1 => any::<u16>(),
    ];
    let rest = prop::collection::vec(any::<u8>(), MAD_LEN);
    (
        byte(1),
        byte(PERF_MGMT_CLASS),
        byte(1),
        method,
        attribute,
        byte(1),
        rest,
    )
        .prop_map(|(base, class, version, method, attribute, port, rest)| {
            let mut mad: [u8; MAD_LEN] = rest.try_into().unwrap();
            mad[..4].copy_from_slice(&[base, class, version, method]);
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
            mad[65] = port;
            mad
        })
}

/// Numbers of any size, and numbers near the maximum of a field of 8, 16 or 32 bits, in units or
/// words.
fn count() -> impl Strategy<Value = u64> {
    let full = (prop::sample::select(vec![8, 16, 32, 34]), 0..9_u64);
    prop_oneof![
        (0..64_u32, any::<u64>()).prop_map(|(shift, value)| value >> shift),
        full.prop_map(|(bits, distance)| (1_u64 << bits) - 4 + distance),
    ]
}

prop_compose! {
    fn counts()(counts in [count(), count(), count(), count(), count(), count(), count()]) -> Counts {
        let [sent_bytes, received_bytes, sent_packets, received_packets, send_discards, receive_errors, link_downed] =
            counts;
        Counts {
            sent_bytes, received_bytes, sent_packets, received_packets, send_discards, receive_errors, link_downed,
        }
    }
}

/// Returns `value` as a field of `bytes` bytes, limited to its maximum.
fn capped(value: u64, bytes: usize) -> Vec<u8> {
    let max = u64::MAX >> (64 - 8 * bytes);
    value.min(max).to_be_bytes()[8 - bytes..].to_vec()
}

/// Builds the data of a response from fields and their offsets.
fn data(fields: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut data = vec![0; 192];
    for (at, bytes) in fields {
        data[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    data
}

/// Returns the expected status and data.
fn expected(request: &[u8; MAD_LEN], c: &Counts) -> (u16, Vec<u8>) {
    let attribute = u16::from_be_bytes([request[16], request[17]]);
    let no_data = data(&[]);
    if request[0] != 1 || request[2] != 1 {
        return (0x4, no_data);
    }
    if request[3] == SET {
        return (0x8, no_data);
    }
    match (attribute, request[65]) {
        (0x01, _) => (0, data(&[(0, vec![1, 1, 4, 0, 0, 0, 0, 18])])),
        (0x12 | 0x1d, port) if port != 1 => (0x1c, no_data),
        (0x12, _) => {
            let fields = [
                (1, vec![1]),
                (7, capped(c.link_downed, 1)),
                (8, capped(c.receive_errors, 2)),
                (14, capped(c.send_discards, 2)),
                (24, capped(c.sent_bytes / 4, 4)),
                (28, capped(c.received_bytes / 4, 4)),
                (32, capped(c.sent_packets, 4)),
                (36, capped(c.received_packets, 4)),
            ];
            (0, data(&fields))
        }
        (0x1d, _) => {
            let fields = [
                (1, vec![1]),
                (8, capped(c.sent_bytes / 4, 8)),
                (16, capped(c.received_bytes / 4, 8)),
                (24, capped(c.sent_packets, 8)),
                (32, capped(c.received_packets, 8)),
            ];
            (0, data(&fields))
        }
        _ => (0xc, no_data),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_datagram_gets_the_expected_response_or_none(request in request(), counts in counts()) {
        let asks = request[1] == PERF_MGMT_CLASS && matches!(request[3], GET | SET);
        let found = response(&request, &counts);
        prop_assert_eq!(found.is_some(), asks);
        if let Some(mad) = found {
            let (status, data) = expected(&request, &counts);
            prop_assert_eq!(&mad[..3], &request[..3]);
            prop_assert_eq!(mad[3], 0x81);
            prop_assert_eq!(&mad[4..6], &status.to_be_bytes());
            // The response repeats the rest of the header, and nothing else of the request.
            prop_assert_eq!(&mad[6..24], &request[6..24]);
            prop_assert_eq!(&mad[24..64], &[0; 40]);
            prop_assert_eq!(&mad[64..], data.as_slice());
        }
    }
}
