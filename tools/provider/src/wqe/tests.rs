// SPDX-License-Identifier: GPL-2.0

//! Tests of the encoders, against the offsets of `ferroce-abi.h`.

use super::*;

fn element(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(!0)).collect()
}

/// The bytes of an element, as the kernel reads them.
fn bytes(element: &[AtomicU64]) -> Vec<u8> {
    let words = element.iter().map(|word| word.load(Ordering::Relaxed));
    words.flat_map(u64::to_ne_bytes).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

const HEAD: Head = Head {
    wr_id: 0x0102_0304_0506_0708,
    opcode: opcode::RDMA_WRITE_WITH_IMM,
    flags: 0b010,
    imm_or_key: 0xaabb_ccdd,
};

const RDMA: Target = Target::Rdma {
    remote_addr: 0x1122_3344_5566_7788,
    rkey: 0x99aa_bbcc,
};

#[test]
fn a_list_is_where_the_header_has_it() {
    let element = element(12);
    begin(&element, &HEAD, RDMA).unwrap();
    let sges =
        [(1, 10, 2), (3, 20, 4), (5, 30, 6)].map(|(addr, length, lkey)| Sge { addr, length, lkey });
    assert_eq!(list(&element, &HEAD, &sges), Some(60));
    let bytes = bytes(&element);
    assert_eq!(u64_at(&bytes, 0), HEAD.wr_id);
    assert_eq!(bytes[8..10], [1, 0b010]);
    assert_eq!(bytes[10..12], 3_u16.to_ne_bytes());
    assert_eq!(u32_at(&bytes, 12), HEAD.imm_or_key);
    assert_eq!(u64_at(&bytes, 16), 0x1122_3344_5566_7788);
    assert_eq!(u32_at(&bytes, 24), 0x99aa_bbcc);
    assert_eq!(u32_at(&bytes, 28), 0);
    for (at, sge) in [32, 48, 64].into_iter().zip(&sges) {
        assert_eq!(u64_at(&bytes, at), sge.addr);
        assert_eq!(u32_at(&bytes, at + 8), sge.length);
        assert_eq!(u32_at(&bytes, at + 12), sge.lkey);
    }
}

#[test]
fn a_list_that_is_too_long_is_refused() {
    let element = element(8);
    begin(&element, &HEAD, RDMA).unwrap();
    let sge = Sge {
        addr: 1,
        length: 1,
        lkey: 1,
    };
    assert!(list(&element, &HEAD, &[sge; 2]).is_some());
    assert!(list(&element, &HEAD, &[sge; 3]).is_none());
}

#[test]
fn inline_data_of_several_parts_is_joined() {
    let element = element(8);
    begin(&element, &HEAD, RDMA).unwrap();
    let parts: [&[u8]; 4] = [b"abc", b"", b"defghijklm", b"n"];
    let parts = || parts.into_iter().map(UserBytes::new);
    assert_eq!(inline(&element, &HEAD, parts(), 14), Some(14));
    let bytes = bytes(&element);
    assert_eq!(bytes[9], 0b1010);
    assert_eq!(bytes[10..12], 14_u16.to_ne_bytes());
    assert_eq!(&bytes[32..46], b"abcdefghijklmn");
    assert_eq!(inline(&element, &HEAD, parts(), 13), None);
}

#[test]
fn inline_data_never_leaves_the_element() {
    let element = element(8);
    let data = [7; 33];
    let message = |len| [UserBytes::new(&data[..len])].into_iter();
    assert_eq!(inline(&element, &HEAD, message(32), 1000), Some(32));
    assert_eq!(inline(&element, &HEAD, message(33), 1000), None);
}

#[test]
fn a_datagram_has_an_address_handle() {
    let element = element(8);
    let to = Target::Datagram {
        qpn: 5,
        qkey: 6,
        ah: 7,
    };
    begin(&element, &HEAD, to).unwrap();
    let bytes = bytes(&element);
    assert_eq!([16, 20, 24, 28].map(|at| u32_at(&bytes, at)), [5, 6, 7, 0]);
}

#[test]
fn an_atomic_has_operands_and_a_result() {
    let element = element(8);
    begin(&element, &HEAD, RDMA).unwrap();
    operands(
        &element,
        Operands::Atomic {
            compare_add: 8,
            swap: 9,
        },
    )
    .unwrap();
    result(
        &element,
        &HEAD,
        &Sge {
            addr: 10,
            length: 8,
            lkey: 11,
        },
    )
    .unwrap();
    let bytes = bytes(&element);
    assert_eq!(bytes[10..12], 1_u16.to_ne_bytes());
    assert_eq!([32, 40, 48].map(|at| u64_at(&bytes, at)), [8, 9, 10]);
    assert_eq!([56, 60].map(|at| u32_at(&bytes, at)), [8, 11]);
}

#[test]
fn other_operands_have_no_list() {
    let element = element(8);
    begin(&element, &HEAD, RDMA).unwrap();
    operands(&element, Operands::AtomicWrite { value: 77 }).unwrap();
    assert_eq!(u64_at(&bytes(&element), 32), 77);
    operands(
        &element,
        Operands::Flush {
            length: 4096,
            placement: 2,
            level: 1,
        },
    )
    .unwrap();
    assert_eq!(u32_at(&bytes(&element), 32), 4096);
    assert_eq!(bytes(&element)[36..40], [2, 1, 0, 0]);
    let bind = Operands::Bind {
        length: 1 << 33,
        mr_lkey: 3,
        new_rkey: 4,
        access: 5,
    };
    operands(&element, bind).unwrap();
    let bytes = bytes(&element);
    assert_eq!(u64_at(&bytes, 32), 1 << 33);
    assert_eq!([40, 44, 48, 52].map(|at| u32_at(&bytes, at)), [3, 4, 5, 0]);
}

#[test]
fn a_receive_has_its_list_behind_sixteen_bytes() {
    let element = element(4);
    let sge = Sge {
        addr: 1,
        length: 2,
        lkey: 3,
    };
    assert!(receive(&element, 9, &[sge; 2]).is_none());
    receive(&element, 9, &[sge]).unwrap();
    let bytes = bytes(&element);
    assert_eq!([0, 16].map(|at| u64_at(&bytes, at)), [9, 1]);
    assert_eq!([8, 12, 24, 28].map(|at| u32_at(&bytes, at)), [1, 0, 2, 3]);
}
