// SPDX-License-Identifier: GPL-2.0

//! One packet of each format, written by hand from the layouts of the specification, field by
//! field. The tests compare with them in both directions; the fuzz targets start from them.
//!
//! A packet starts at its BTH: opcode; SE M Pad TVer; P_Key; F B and QP; A and PSN. Where the
//! ICRC should be there are four bytes of `ee`.

use crate::hex;

/// SEND First, 4 bytes of payload.
pub const SEND_FIRST: &str = "00 40 ffff 00000011 00fffffe  01020304 eeeeeeee";

/// SEND Last with Immediate, solicited, with 2 bytes of payload and 2 of pad; asks for an
/// acknowledgement.
pub const SEND_LAST_IMM: &str = "03 e0 ffff 00abcdef 80000000  cafef00d 0102 0000 eeeeeeee";

/// SEND Only with Invalidate, without payload.
pub const SEND_ONLY_INVALIDATE: &str = "17 40 8001 00000011 80123456  0000a1b2 eeeeeeee";

/// RDMA WRITE First: 8192 bytes are announced, 4 are here.
pub const WRITE_FIRST: &str = "06 40 ffff 00000011 00000001
    00007f1122334455 00001234 00002000  01020304 eeeeeeee";

/// RDMA WRITE Only with Immediate, 1 byte of payload and 3 of pad.
pub const WRITE_ONLY_IMM: &str = "0b 70 ffff 00000011 80000002
    ffffffffffffffff 89abcdef 00000001  00000007  5a 000000 eeeeeeee";

/// RDMA READ Request for 2^31 bytes.
pub const READ_REQUEST: &str = "0c 40 ffff 00000011 80000003
    0000000000001000 00000042 80000000 eeeeeeee";

/// RDMA READ Response First, acknowledging with credits 31, MSN 7, with 4 bytes of payload.
pub const READ_RESPONSE_FIRST: &str = "0d 40 ffff 00000012 00000003  1f 000007 01020304 eeeeeeee";

/// RDMA READ Response Middle, 4 bytes of payload.
pub const READ_RESPONSE_MIDDLE: &str = "0e 40 ffff 00000012 00000004  05060708 eeeeeeee";

/// Acknowledgement, credits 0, MSN 0xfffffe.
pub const ACKNOWLEDGE: &str = "11 40 ffff 00000012 00000003  00 fffffe eeeeeeee";

/// "Receiver not ready" with timer code 12 (0.64 ms).
pub const RNR_NAK: &str = "11 40 ffff 00000012 00000003  2c 000001 eeeeeeee";

/// Refusal: remote access error.
pub const NAK_REMOTE_ACCESS: &str = "11 40 ffff 00000012 00000003  62 000001 eeeeeeee";

/// Atomic Acknowledge.
pub const ATOMIC_ACKNOWLEDGE: &str = "12 40 ffff 00000012 00000005
    1f 000002 0123456789abcdef eeeeeeee";

/// Compare and Swap: 1 for 2.
pub const COMPARE_SWAP: &str = "13 40 ffff 00000011 80000005
    0000000000002008 00000042 0000000000000001 0000000000000002 eeeeeeee";

/// Fetch and Add: minus 1.
pub const FETCH_ADD: &str = "14 40 ffff 00000011 80000006
    0000000000002010 00000042 ffffffffffffffff 0000000000000000 eeeeeeee";

/// Flush of a whole memory region, global and persistent.
pub const FLUSH: &str = "1c 40 ffff 00000011 80000007
    00000013 0000000000003000 00000042 00000000 eeeeeeee";

/// Atomic Write of 8 bytes.
pub const ATOMIC_WRITE: &str = "1d 40 ffff 00000011 80000008
    0000000000003008 00000042 00000008 1122334455667788 eeeeeeee";

/// UC RDMA WRITE Last with Immediate, 4 bytes of payload.
pub const UC_WRITE_LAST_IMM: &str = "29 40 ffff 00000013 00000009  00000008 01020304 eeeeeeee";

/// UD SEND Only with Immediate to the QP of the connection managers, 4 bytes of payload.
pub const UD_SEND_ONLY_IMM: &str = "65 40 ffff 00000001 0000000a
    80010000 00000001  12345678  01020304 eeeeeeee";

/// Congestion notification: BECN, and 16 reserved bytes.
pub const CNP: &str = "81 00 ffff 40000011 00000000
    00000000000000000000000000000000 eeeeeeee";

/// All of them.
pub const ALL: &[&str] = &[
    SEND_FIRST,
    SEND_LAST_IMM,
    SEND_ONLY_INVALIDATE,
    WRITE_FIRST,
    WRITE_ONLY_IMM,
    READ_REQUEST,
    READ_RESPONSE_FIRST,
    READ_RESPONSE_MIDDLE,
    ACKNOWLEDGE,
    RNR_NAK,
    NAK_REMOTE_ACCESS,
    ATOMIC_ACKNOWLEDGE,
    COMPARE_SWAP,
    FETCH_ADD,
    FLUSH,
    ATOMIC_WRITE,
    UC_WRITE_LAST_IMM,
    UD_SEND_ONLY_IMM,
    CNP,
];

/// IPv4 and UDP header of a packet of 48 bytes.
pub const IPV4_UDP: &str = "45 02 0030 1234 4000 40 11 dead 0a000001 0a000002
    c011 12b7 001c 0000";

/// IPv6 and UDP header of such a packet.
pub const IPV6_UDP: &str = "6 02 abcde 001c 11 40
    fd000000000000000000000000000001 fd000000000000000000000000000002  c011 12b7 001c beef";

/// Where a fuzz target starts from: every packet, by itself and behind IP headers.
#[must_use]
pub fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<_> = ALL.iter().map(|text| hex::bytes(text)).collect();
    for ip in [IPV4_UDP, IPV6_UDP] {
        corpus.push([hex::bytes(ip), hex::bytes(ACKNOWLEDGE)].concat());
    }
    corpus
}
