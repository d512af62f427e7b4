// SPDX-License-Identifier: GPL-2.0

//! Reasons: completion status of work requests, NAK codes, drop reasons of packets.

use core::ffi::CStr;

/// Status of a completed work request.
///
/// The numbers are those of the user ABI. C: `enum ibv_wc_status`; `enum ib_wc_status`,
/// `rdma/ib_verbs.h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum WcStatus {
    /// Success.
    Success = 0,
    /// A local buffer or message had an invalid length.
    LocLenErr = 1,
    /// The WR or the state of the QP is invalid.
    LocQpOpErr = 2,
    /// Like [`WcStatus::LocQpOpErr`], for an end-to-end context (RD).
    LocEecOpErr = 3,
    /// A local key does not cover the buffer, or does not grant the required right.
    LocProtErr = 4,
    /// The QP entered the error state before the request completed.
    WrFlushErr = 5,
    /// A memory window was not bound.
    MwBindErr = 6,
    /// The peer sent an invalid response.
    BadRespErr = 7,
    /// An incoming RDMA WRITE with immediate data caused a protection fault.
    LocAccessErr = 8,
    /// NAK from the peer: invalid request.
    RemInvReqErr = 9,
    /// NAK from the peer: remote access error.
    RemAccessErr = 10,
    /// NAK from the peer: operational error, the request cannot be executed.
    RemOpErr = 11,
    /// The peer did not respond before the retries were exhausted.
    RetryExcErr = 12,
    /// The peer sent RNR NAKs until the retries were exhausted.
    RnrRetryExcErr = 13,
    /// Violation of the reliable datagram domain.
    LocRddViolErr = 14,
    /// NAK from the peer: invalid RD request.
    RemInvRdReqErr = 15,
    /// The peer aborted the operation.
    RemAbortErr = 16,
    /// Invalid number of an end-to-end context.
    InvEecnErr = 17,
    /// Invalid state of an end-to-end context.
    InvEecStateErr = 18,
    /// Fatal transport error.
    FatalErr = 19,
    /// The response of a management agent timed out.
    RespTimeoutErr = 20,
    /// Any other error.
    GeneralErr = 21,
}

impl WcStatus {
    /// Returns the value in the user ABI.
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Why a responder sent a NAK.
///
/// IBA: NAK codes of the AETH syndrome. C: `enum ib_wc_status` has the matching results.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum NakCode {
    /// PSN sequence error: a packet is missing. Retransmit from the PSN of the NAK on.
    PsnSequence = 0,
    /// The responder does not support the request.
    InvalidRequest = 1,
    /// A remote key does not grant the requested access.
    RemoteAccess = 2,
    /// The responder cannot execute the request.
    RemoteOperational = 3,
    /// The reliable datagram is invalid.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// Returns the code, the low five bits of a syndrome.
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the NAK with this code; `None` if the code is reserved.
    #[inline]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::PsnSequence),
            1 => Some(Self::InvalidRequest),
            2 => Some(Self::RemoteAccess),
            3 => Some(Self::RemoteOperational),
            4 => Some(Self::InvalidRdRequest),
            _ => None,
        }
    }

    /// Returns the status with which the request completes at the requester; `None` if it must be
    /// retransmitted instead.
    #[must_use]
    pub const fn wc_status(self) -> Option<WcStatus> {
        match self {
            Self::PsnSequence => None,
            Self::InvalidRequest => Some(WcStatus::RemInvReqErr),
            Self::RemoteAccess => Some(WcStatus::RemAccessErr),
            Self::RemoteOperational => Some(WcStatus::RemOpErr),
            Self::InvalidRdRequest => Some(WcStatus::RemInvRdReqErr),
        }
    }
}

/// Declares [`DropReason`] with a counter name for each variant.
macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident = $name:literal,)+) => {
        /// Why a received packet was dropped. Each reason is a counter of the device.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $reason,)+
        }

        impl DropReason {
            /// Every reason, in the order of [`DropReason::index`].
            pub const ALL: &'static [Self] = &[$(Self::$reason,)+];

            /// Returns the name of the counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }

            /// Returns the name of the counter as a C string.
            #[must_use]
            pub const fn c_name(self) -> &'static CStr {
                match self {
                    $(Self::$reason => const {
                        match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => panic!("a NUL in a name"),
                        }
                    },)+
                }
            }
        }
    };
}

drop_reasons! {
    /// The packet is shorter than its headers and ICRC.
    TooShort = "rx_too_short",
    /// The opcode belongs to an unsupported service, or is reserved in an unreliable one.
    UnknownOpcode = "rx_unknown_opcode",
    /// The transport header version is not 0.
    BadVersion = "rx_bad_version",
    /// The pad count exceeds the payload length.
    BadPad = "rx_bad_pad",
    /// The packet has IP options, is a fragment, or is not UDP.
    BadIpHeader = "rx_bad_ip_header",
    /// The ICRC is wrong.
    BadIcrc = "rx_bad_icrc",
    /// The destination address is not one of this device.
    NotOurAddress = "rx_not_our_address",
    /// No QP has this number.
    UnknownQp = "rx_unknown_qp",
    /// The QP has a different service than the opcode.
    WrongService = "rx_wrong_service",
    /// The QP does not receive such packets in its current state.
    WrongQpState = "rx_wrong_qp_state",
    /// The source is not the address to which the QP is connected, or is a different QP of this
    /// host.
    WrongSource = "rx_wrong_source",
    /// The partition key does not match.
    BadPkey = "rx_bad_pkey",
    /// The queue key does not match.
    BadQkey = "rx_bad_qkey",
    /// The packet to QP 1 is not a MAD.
    BadMad = "rx_bad_mad",
    /// No QP is attached to this multicast group.
    NoMulticastMember = "rx_no_multicast_member",
    /// The inbox of the QP is full.
    QueueFull = "rx_queue_full",
    /// An earlier request of an RC QP waits for memory, and the peer was told to send this one again later.
    NotReady = "rx_not_ready",
    /// Memory allocation failed.
    NoMemory = "rx_no_memory",
    /// No receive was posted for an unreliable message.
    NoReceiveBuffer = "rx_no_receive_buffer",
    /// The payload length does not match opcode, path MTU and message length.
    BadLength = "rx_bad_length",
    /// The packet does not continue the current message.
    BadSequence = "rx_bad_sequence",
    /// The request is ahead of the expected PSN, and a NAK was already sent.
    AheadOfSequence = "rx_ahead_of_sequence",
    /// A duplicate request whose response is no longer kept.
    UnknownDuplicate = "rx_unknown_duplicate",
    /// A duplicate response, or a response to no request in flight.
    StaleResponse = "rx_stale_response",
    /// A response is not the next expected one.
    ResponseGap = "rx_response_gap",
    /// The key of an unreliable request does not grant the access.
    AccessDenied = "rx_access_denied",
    /// The syndrome of an ACK is reserved.
    BadSyndrome = "rx_bad_syndrome",
    /// A congestion notification; not acted upon.
    CongestionNotification = "rx_congestion_notification",
}

impl DropReason {
    /// Number of reasons and counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the index of the counter, always below [`DropReason::COUNT`].
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nak_codes_can_be_decoded() {
        for code in 0..=u8::MAX {
            match NakCode::from_code(code) {
                Some(nak) => assert_eq!(nak.code(), code),
                None => assert!(code > 4, "code {code}"),
            }
        }
    }

    #[test]
    fn every_reason_has_its_own_index_and_name() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(reason.c_name().to_str(), Ok(reason.name()));
            let same = |other: &&DropReason| other.name() == reason.name();
            assert_eq!(DropReason::ALL.iter().filter(same).count(), 1, "{reason:?}");
        }
    }

    #[test]
    fn statuses_match_the_abi() {
        use WcStatus::*;
        let in_order = [
            Success,
            LocLenErr,
            LocQpOpErr,
            LocEecOpErr,
            LocProtErr,
            WrFlushErr,
            MwBindErr,
            BadRespErr,
            LocAccessErr,
            RemInvReqErr,
            RemAccessErr,
            RemOpErr,
            RetryExcErr,
            RnrRetryExcErr,
            LocRddViolErr,
            RemInvRdReqErr,
            RemAbortErr,
            InvEecnErr,
            InvEecStateErr,
            FatalErr,
            RespTimeoutErr,
            GeneralErr,
        ];
        for (number, status) in in_order.into_iter().enumerate() {
            assert_eq!(status.code() as usize, number, "{status:?}");
        }
    }

    #[test]
    fn each_nak_has_its_status_and_a_sequence_nak_has_none() {
        assert_eq!(NakCode::PsnSequence.wc_status(), None);
        for (code, status) in [(1, 9), (2, 10), (3, 11), (4, 15)] {
            let nak = NakCode::from_code(code).unwrap();
            assert_eq!(nak.wc_status().map(WcStatus::code), Some(status));
        }
    }
}
