// SPDX-License-Identifier: GPL-2.0

//! Widths of attributes that a consumer sets in wider variables.
//!
//! Adapters take the low bits, so programs exist that set more: an RNR timer code of 32, or ten
//! retries. A value that these functions return fits into the field of the QP context (IBA 11.2.5.2).

/// Returns the timer code of RNR NAKs: 5 bits. C: `min_rnr_timer` of `struct ib_qp_attr`.
#[must_use]
pub const fn rnr_timer(value: u8) -> u8 {
    value & 0x1f
}

/// Returns the number of retries, after timeouts or after RNR NAKs: 3 bits. C: `retry_cnt` and
/// `rnr_retry` of `struct ib_qp_attr`.
#[must_use]
pub const fn retry_count(value: u8) -> u8 {
    value & 0x7
}

/// Returns the flow label of an address: 20 bits. C: `flow_label` of `struct ib_global_route`.
#[must_use]
pub const fn flow_label(value: u32) -> u32 {
    value & 0xf_ffff
}

/// Returns the service level of an address: 4 bits. C: `sl` of `struct rdma_ah_attr`.
#[must_use]
pub const fn service_level(value: u8) -> u8 {
    value & 0xf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_within_its_field_is_kept() {
        assert!((0..32).all(|value| rnr_timer(value) == value));
        assert!((0..8).all(|value| retry_count(value) == value));
        assert!([0, 1, 0xf_ffff].map(flow_label) == [0, 1, 0xf_ffff]);
        assert!((0..16).all(|value| service_level(value) == value));
    }

    #[test]
    fn a_wider_value_loses_its_high_bits() {
        assert_eq!([32, 33, 100, 255].map(rnr_timer), [0, 1, 4, 31]);
        assert_eq!([8, 10, 255].map(retry_count), [0, 2, 7]);
        assert_eq!([0x10_0000, u32::MAX].map(flow_label), [0, 0xf_ffff]);
        assert_eq!([16, 23, 255].map(service_level), [0, 7, 15]);
    }
}
