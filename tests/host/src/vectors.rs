// SPDX-License-Identifier: GPL-2.0

//! A handwritten packet of each format, from the layouts of the specification. The tests compare
//! them with parser and builder; the fuzz targets start from them.
//!
//! A packet starts at its BTH: opcode; SE M Pad TVer; P_Key; F B and QP; A and PSN. The four bytes
//! `ee` are in place of the ICRC.

use crate::hex;

/// SEND First, 4 bytes of payload.
pub const SEND_FIRST: &str = "00 40 ffff 00000011 00fffffe  01020304 eeeeeeee";

/// SEND Last with Immediate, solicited, AckReq, 2 bytes of payload and 2 of pad.
pub const SEND_LAST_IMM: &str = "03 e0 ffff 00abcdef 80000000  cafef00d 0102 0000 eeeeeeee";

/// SEND Only with Invalidate, without payload.
pub const SEND_ONLY_INVALIDATE: &str = "17 40 8001 00000011 80123456  0000a1b2 eeeeeeee";

/// RDMA WRITE First of 8192 bytes, 4 bytes of payload.
pub const WRITE_FIRST: &str = "06 40 ffff 00000011 00000001
    00007f1122334455 00001234 00002000  01020304 eeeeeeee";

/// RDMA WRITE Only with Immediate, 1 byte of payload and 3 of pad.
pub const WRITE_ONLY_IMM: &str = "0b 70 ffff 00000011 80000002
    ffffffffffffffff 89abcdef 00000001  00000007  5a 000000 eeeeeeee";

/// RDMA READ Request for 2^31 bytes.
pub const READ_REQUEST: &str = "0c 40 ffff 00000011 80000003
    0000000000001000 00000042 80000000 eeeeeeee";

/// RDMA READ Response First: ACK with credits 31, MSN 7, 4 bytes of payload.
pub const READ_RESPONSE_FIRST: &str = "0d 40 ffff 00000012 00000003  1f 000007 01020304 eeeeeeee";

/// RDMA READ Response Middle, 4 bytes of payload.
pub const READ_RESPONSE_MIDDLE: &str = "0e 40 ffff 00000012 00000004  05060708 eeeeeeee";

/// ACK, credits 0, MSN 0xfffffe.
pub const ACKNOWLEDGE: &str = "11 40 ffff 00000012 00000003  00 fffffe eeeeeeee";

/// RNR NAK with timer code 12 (0.64 ms).
pub const RNR_NAK: &str = "11 40 ffff 00000012 00000003  2c 000001 eeeeeeee";

/// NAK: remote access error.
pub const NAK_REMOTE_ACCESS: &str = "11 40 ffff 00000012 00000003  62 000001 eeeeeeee";

/// Atomic Acknowledge.
pub const ATOMIC_ACKNOWLEDGE: &str = "12 40 ffff 00000012 00000005
    1f 000002 0123456789abcdef eeeeeeee";

/// Compare and Swap: replaces 2 by 1.
pub const COMPARE_SWAP: &str = "13 40 ffff 00000011 80000005
    0000000000002008 00000042 0000000000000001 0000000000000002 eeeeeeee";

/// Fetch and Add of -1.
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

/// UD SEND Only with Immediate to QP 1, 4 bytes of payload.
pub const UD_SEND_ONLY_IMM: &str = "65 40 ffff 00000001 0000000a
    80010000 00000001  12345678  01020304 eeeeeeee";

/// Congestion notification with BECN and 16 reserved bytes.
pub const CNP: &str = "81 00 ffff 40000011 00000000
    00000000000000000000000000000000 eeeeeeee";

/// All vectors.
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

/// IPv4 and UDP headers of a packet of 48 bytes.
pub const IPV4_UDP: &str = "45 02 0030 1234 4000 40 11 dead 0a000001 0a000002
    c011 12b7 001c 0000";

/// IPv6 and UDP headers of the same packet.
pub const IPV6_UDP: &str = "6 02 abcde 001c 11 40
    fd000000000000000000000000000001 fd000000000000000000000000000002  c011 12b7 001c beef";

/// Initial corpus of the fuzz targets: each packet alone and after IP headers.
#[must_use]
pub fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<_> = ALL.iter().map(|text| hex::bytes(text)).collect();
    for ip in [IPV4_UDP, IPV6_UDP] {
        corpus.push([hex::bytes(ip), hex::bytes(ACKNOWLEDGE)].concat());
    }
    corpus
}
