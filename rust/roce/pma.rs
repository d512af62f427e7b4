// SPDX-License-Identifier: GPL-2.0

//! Performance management: the response of a port to a MAD that reads its counters.
//!
//! No attribute can be set. Consumers compute the difference of two readings.
//!
//! IBA 13.4 (management datagrams), 16.1 (performance management).

use zerocopy::{
    byteorder::network_endian::{
        U16,
        U32,
        U64, //
    },
    FromBytes,
    IntoBytes, //
};

/// Length of a MAD in bytes.
pub const MAD_LEN: usize = 256;

/// Management class: performance management.
const PERF_MGMT_CLASS: u8 = 0x04;

/// Base version, the first byte of a MAD, and class version.
pub const VERSION: u8 = 1;

/// Values of the method field.
mod method {
    pub(super) const GET: u8 = 0x01;
    pub(super) const SET: u8 = 0x02;
    pub(super) const GET_RESP: u8 = 0x81;
}

/// Values of the attribute field.
mod attribute {
    pub(super) const CLASS_PORT_INFO: u16 = 0x0001;
    pub(super) const PORT_COUNTERS: u16 = 0x0012;
    pub(super) const PORT_COUNTERS_EXTENDED: u16 = 0x001d;
}

/// Values of the status field.
mod status {
    pub(super) const OK: u16 = 0;
    pub(super) const BAD_VERSION: u16 = 0x0004;
    pub(super) const BAD_METHOD: u16 = 0x0008;
    pub(super) const BAD_ATTRIBUTE: u16 = 0x000c;
    pub(super) const BAD_VALUE: u16 = 0x001c;
}

/// Capability: 64-bit counters are supported, except those for unicast and multicast packets.
const EXTENDED_WITHOUT_CASTS: u16 = 1 << 10;

/// Response time: 4.096 us times 2 to this power, about one second.
const RESPONSE_TIME_CODE: u32 = 18;

/// The only port number.
const PORT_NUM: u8 = 1;

/// Wire formats, big endian.
mod layout {
    use zerocopy::byteorder::network_endian::{
        U16,
        U32,
        U64, //
    };
    use zerocopy_derive::{
        FromBytes,
        Immutable,
        IntoBytes,
        KnownLayout,
        Unaligned, //
    };

    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub(super) struct MadHeader {
        pub(super) base_version: u8,
        pub(super) class: u8,
        pub(super) class_version: u8,
        pub(super) method: u8,
        pub(super) status: U16,
        pub(super) class_specific: U16,
        pub(super) transaction: U64,
        pub(super) attribute: U16,
        pub(super) reserved: U16,
        pub(super) modifier: U32,
    }

    #[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
    #[repr(C)]
    pub(super) struct Mad {
        pub(super) header: MadHeader,
        pub(super) reserved: [u8; 40],
        pub(super) data: [u8; 192],
    }

    #[derive(Default, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(super) struct ClassPortInfo {
        pub(super) base_version: u8,
        pub(super) class_version: u8,
        pub(super) capabilities: U16,
        pub(super) capabilities_2_and_response_time: U32,
    }

    #[derive(Default, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(super) struct PortCounters {
        pub(super) reserved: u8,
        pub(super) port_select: u8,
        pub(super) counter_select: U16,
        pub(super) symbol_errors: U16,
        pub(super) link_recoveries: u8,
        pub(super) link_downed: u8,
        pub(super) receive_errors: U16,
        pub(super) remote_physical_errors: U16,
        pub(super) switch_relay_errors: U16,
        pub(super) send_discards: U16,
        pub(super) constraint_errors: [u8; 2],
        pub(super) reserved_2: u8,
        pub(super) overruns: u8,
        pub(super) reserved_3: U16,
        pub(super) vl15_dropped: U16,
        pub(super) sent_words: U32,
        pub(super) received_words: U32,
        pub(super) sent_packets: U32,
        pub(super) received_packets: U32,
        pub(super) send_wait: U32,
    }

    #[derive(Default, Immutable, IntoBytes, Unaligned)]
    #[repr(C)]
    pub(super) struct PortCountersExtended {
        pub(super) reserved: u8,
        pub(super) port_select: u8,
        pub(super) counter_select: U16,
        pub(super) reserved_2: U32,
        pub(super) sent_words: U64,
        pub(super) received_words: U64,
        pub(super) sent_packets: U64,
        pub(super) received_packets: U64,
    }
}

use layout::{
    ClassPortInfo,
    Mad,
    PortCounters,
    PortCountersExtended, //
};

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets that were not sent.
    pub send_discards: u64,
    /// Damaged or invalid packets received.
    pub receive_errors: u64,
    /// Number of times the link went down.
    pub link_downed: u64,
}

/// Returns the response to `request`; `None` if it is not a performance management request.
#[must_use]
pub fn response(request: &[u8; MAD_LEN], counts: &Counts) -> Option<[u8; MAD_LEN]> {
    let request = Mad::read_from_bytes(request).ok()?;
    let header = request.header;
    if header.class != PERF_MGMT_CLASS || !matches!(header.method, method::GET | method::SET) {
        return None;
    }
    let mut reply = Mad { ..request };
    reply.header.method = method::GET_RESP;
    reply.reserved = [0; 40];
    reply.data = [0; 192];
    let status = match header.method {
        _ if header.base_version != VERSION || header.class_version != VERSION => {
            status::BAD_VERSION
        }
        method::SET => status::BAD_METHOD,
        _ => fill(&mut reply, &request, counts),
    };
    reply.header.status = U16::new(status);
    <[u8; MAD_LEN]>::read_from_bytes(reply.as_bytes()).ok()
}

/// Writes the requested attribute. Returns the status.
fn fill(reply: &mut Mad, request: &Mad, counts: &Counts) -> u16 {
    let attribute = request.header.attribute.get();
    if attribute == attribute::CLASS_PORT_INFO {
        write_data(reply, &class_port_info());
        return status::OK;
    }
    let [_, port, ..] = request.data;
    match attribute {
        attribute::PORT_COUNTERS | attribute::PORT_COUNTERS_EXTENDED if port != PORT_NUM => {
            status::BAD_VALUE
        }
        attribute::PORT_COUNTERS => {
            write_data(reply, &port_counters(counts));
            status::OK
        }
        attribute::PORT_COUNTERS_EXTENDED => {
            write_data(reply, &port_counters_extended(counts));
            status::OK
        }
        _ => status::BAD_ATTRIBUTE,
    }
}

/// Writes `value` at the start of the data.
fn write_data(reply: &mut Mad, value: &(impl IntoBytes + zerocopy::Immutable)) {
    let _ = value.write_to_prefix(&mut reply.data);
}

fn class_port_info() -> ClassPortInfo {
    ClassPortInfo {
        base_version: VERSION,
        class_version: VERSION,
        capabilities: U16::new(EXTENDED_WITHOUT_CASTS),
        capabilities_2_and_response_time: U32::new(RESPONSE_TIME_CODE),
    }
}

/// The 32-bit counters, which stop at their maximum value (16.1.3.5).
fn port_counters(counts: &Counts) -> PortCounters {
    let words = |bytes: u64| U32::new(u32::try_from(bytes >> 2).unwrap_or(u32::MAX));
    let packets = |count: u64| U32::new(u32::try_from(count).unwrap_or(u32::MAX));
    let errors = |count: u64| U16::new(u16::try_from(count).unwrap_or(u16::MAX));
    PortCounters {
        port_select: PORT_NUM,
        link_downed: u8::try_from(counts.link_downed).unwrap_or(u8::MAX),
        receive_errors: errors(counts.receive_errors),
        send_discards: errors(counts.send_discards),
        sent_words: words(counts.sent_bytes),
        received_words: words(counts.received_bytes),
        sent_packets: packets(counts.sent_packets),
        received_packets: packets(counts.received_packets),
        ..PortCounters::default()
    }
}

fn port_counters_extended(counts: &Counts) -> PortCountersExtended {
    PortCountersExtended {
        port_select: PORT_NUM,
        sent_words: U64::new(counts.sent_bytes >> 2),
        received_words: U64::new(counts.received_bytes >> 2),
        sent_packets: U64::new(counts.sent_packets),
        received_packets: U64::new(counts.received_packets),
        ..PortCountersExtended::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = Counts {
        sent_bytes: 0x1_2345_6788,
        received_bytes: 404,
        sent_packets: 0x1_0000_0001,
        received_packets: 7,
        send_discards: 3,
        receive_errors: 0x1_0002,
        link_downed: 2,
    };

    fn request(method: u8, attribute: u16, port: u8) -> [u8; MAD_LEN] {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[1, 4, 1, method]);
        mad[8..16].copy_from_slice(&[9, 8, 7, 6, 5, 4, 3, 2]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad[65] = port;
        // The response must not contain these bytes.
        mad[100..].fill(0xee);
        mad
    }

    fn status_of(mad: &[u8]) -> u16 {
        u16::from_be_bytes([mad[4], mad[5]])
    }

    #[test]
    fn the_response_matches_its_request() {
        let mad = response(&request(1, 1, 0), &COUNTS).unwrap();
        assert_eq!(mad[..4], [1, 4, 1, 0x81]);
        assert_eq!(status_of(&mad), 0);
        assert_eq!(mad[8..18], [9, 8, 7, 6, 5, 4, 3, 2, 0, 1]);
        assert_eq!(mad[24..64], [0; 40]);
        // Versions, capabilities, response time.
        assert_eq!(mad[64..72], [1, 1, 0x04, 0, 0, 0, 0, 18]);
        assert_eq!(mad[72..], [0; 184]);
    }

    #[test]
    fn short_counters_stop_at_their_maximum() {
        let mad = response(&request(1, 0x12, 1), &COUNTS).unwrap();
        assert_eq!(status_of(&mad), 0);
        let data = &mad[64..];
        assert_eq!(data[..8], [0, 1, 0, 0, 0, 0, 0, 2]);
        assert_eq!(data[8..10], [0xff, 0xff]);
        assert_eq!(data[14..16], [0, 3]);
        assert_eq!(data[24..28], 0x48d1_59e2u32.to_be_bytes());
        assert_eq!(data[28..32], 101u32.to_be_bytes());
        assert_eq!(data[32..36], [0xff; 4]);
        assert_eq!(data[36..40], 7u32.to_be_bytes());
        assert_eq!(data[40..], [0; 152]);
    }

    #[test]
    fn extended_counters_have_64_bits() {
        let mad = response(&request(1, 0x1d, 1), &COUNTS).unwrap();
        let data = &mad[64..];
        assert_eq!(data[..8], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(data[8..16], 0x48d1_59e2u64.to_be_bytes());
        assert_eq!(data[16..24], 101u64.to_be_bytes());
        assert_eq!(data[24..32], 0x1_0000_0001u64.to_be_bytes());
        assert_eq!(data[32..40], 7u64.to_be_bytes());
        assert_eq!(data[40..], [0; 152]);
    }

    #[test]
    fn invalid_requests_get_an_error_status() {
        let invalid = [
            (request(1, 0x12, 2), 0x1c),
            (request(1, 0x1d, 0), 0x1c),
            (request(1, 0x99, 1), 0x0c),
            (request(2, 0x12, 1), 0x08),
        ];
        for (request, status) in invalid {
            let mad = response(&request, &COUNTS).unwrap();
            assert_eq!((mad[3], status_of(&mad)), (0x81, status));
            assert_eq!(mad[64..], [0; 192]);
        }
        let mut old = request(1, 0x12, 1);
        old[2] = 2;
        assert_eq!(status_of(&response(&old, &COUNTS).unwrap()), 4);
    }

    #[test]
    fn other_datagrams_get_no_response() {
        for (class, method) in [(7, 3), (0x81, 1), (4, 0x81), (4, 3), (3, 2)] {
            let mut mad = request(method, 0x12, 1);
            mad[1] = class;
            assert_eq!(
                response(&mad, &COUNTS),
                None,
                "class {class}, method {method}"
            );
        }
    }
}
