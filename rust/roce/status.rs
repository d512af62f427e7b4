// SPDX-License-Identifier: GPL-2.0

//! Why something ended: completions, refusals by the peer, packets dropped.
//!
//! Says why, never how: no state changes here, and nothing is counted here.

use core::ffi::CStr;

/// Status of a completed work request.
///
/// The numbers are those of the user ABI. C: `enum ibv_wc_status`; `enum ib_wc_status`,
/// `rdma/ib_verbs.h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum WcStatus {
    /// Done.
    Success = 0,
    /// A local buffer or a message had the wrong length.
    LocLenErr = 1,
    /// The work request or the state of the QP made no sense.
    LocQpOpErr = 2,
    /// As [`WcStatus::LocQpOpErr`], for the context of a reliable datagram.
    LocEecOpErr = 3,
    /// A local key does not cover the buffer, or not with the right that was needed.
    LocProtErr = 4,
    /// The QP entered the error state before the request was done.
    WrFlushErr = 5,
    /// A memory window could not be bound.
    MwBindErr = 6,
    /// The peer sent an answer that no request asks for.
    BadRespErr = 7,
    /// A remote write with immediate data met a protection fault.
    LocAccessErr = 8,
    /// The peer refused: invalid request.
    RemInvReqErr = 9,
    /// The peer refused: remote access.
    RemAccessErr = 10,
    /// The peer refused: it could not carry out the operation.
    RemOpErr = 11,
    /// The peer did not answer, however often it was asked.
    RetryExcErr = 12,
    /// The peer was never ready to receive.
    RnrRetryExcErr = 13,
    /// A reliable datagram left its domain.
    LocRddViolErr = 14,
    /// The peer refused: invalid reliable datagram.
    RemInvRdReqErr = 15,
    /// The peer aborted the operation.
    RemAbortErr = 16,
    /// No end-to-end context has that number.
    InvEecnErr = 17,
    /// The end-to-end context is in the wrong state.
    InvEecStateErr = 18,
    /// The transport cannot go on.
    FatalErr = 19,
    /// An answer of the management agent did not come in time.
    RespTimeoutErr = 20,
    /// Any other error.
    GeneralErr = 21,
}

impl WcStatus {
    /// Returns the number that user space sees.
    #[inline]
    #[must_use]
    #[expect(clippy::as_conversions, reason = "reads the discriminant")]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// Why a responder refused a request for good, or asks for it again.
///
/// IBA: NAK codes of the AETH syndrome. C: `enum ib_wc_status` has the matching results.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing; send again from the PSN of the NAK on.
    PsnSequence = 0,
    /// The request is not one that this responder can serve.
    InvalidRequest = 1,
    /// A remote key does not cover what was asked for.
    RemoteAccess = 2,
    /// The responder could not carry out the request.
    RemoteOperational = 3,
    /// The reliable datagram is invalid.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// Returns the code as it is sent in the low five bits of a syndrome.
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

    /// Returns the status with which the refused request completes at the requester; `None` if
    /// the request is to be sent again instead.
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

/// Declares [`DropReason`], so that a variant cannot exist without its name and its counter.
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

            /// Returns the name of the counter, ended by a NUL as C wants it.
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
    /// The packet ends before its headers and its ICRC do.
    TooShort = "rx_too_short",
    /// No opcode of a service that exists here has this number.
    UnknownOpcode = "rx_unknown_opcode",
    /// The transport header version is not 0.
    BadVersion = "rx_bad_version",
    /// More pad bytes are announced than there are bytes of payload.
    BadPad = "rx_bad_pad",
    /// The IP header has options, is a fragment, or does not announce UDP.
    BadIpHeader = "rx_bad_ip_header",
    /// The invariant CRC is wrong.
    BadIcrc = "rx_bad_icrc",
    /// The destination address is not one of this device.
    NotOurAddress = "rx_not_our_address",
    /// No QP has this number.
    UnknownQp = "rx_unknown_qp",
    /// The QP is of another type than the opcode's service.
    WrongService = "rx_wrong_service",
    /// The QP is not in a state in which it receives such packets.
    WrongQpState = "rx_wrong_qp_state",
    /// The packet does not come from the address the QP is connected to, or on this machine from another QP.
    WrongSource = "rx_wrong_source",
    /// The partition key does not match.
    BadPkey = "rx_bad_pkey",
    /// The queue key does not match.
    BadQkey = "rx_bad_qkey",
    /// What came to QP 1 is no management datagram.
    BadMad = "rx_bad_mad",
    /// No QP is attached to this multicast group.
    NoMulticastMember = "rx_no_multicast_member",
    /// Too many packets already wait for this QP.
    QueueFull = "rx_queue_full",
    /// Memory ran out.
    NoMemory = "rx_no_memory",
    /// An unreliable message found no receive work request.
    NoReceiveBuffer = "rx_no_receive_buffer",
    /// The payload has not the length that opcode, path MTU and message ask for.
    BadLength = "rx_bad_length",
    /// The packet does not continue the message before it.
    BadSequence = "rx_bad_sequence",
    /// The request is later than the one expected, and that was reported already.
    AheadOfSequence = "rx_ahead_of_sequence",
    /// An old request came again, and its answer is no longer kept.
    UnknownDuplicate = "rx_unknown_duplicate",
    /// An answer came again, or to no request in flight.
    StaleResponse = "rx_stale_response",
    /// An answer is not the next one that is due.
    ResponseGap = "rx_response_gap",
    /// An unreliable request asked for memory that its key does not open.
    AccessDenied = "rx_access_denied",
    /// The syndrome of an acknowledgement is reserved.
    BadSyndrome = "rx_bad_syndrome",
    /// A congestion notification, on which nothing acts.
    CongestionNotification = "rx_congestion_notification",
}

impl DropReason {
    /// Number of reasons, and so of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the place of the reason's counter, always below [`DropReason::COUNT`].
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
    fn nak_codes_survive_the_wire() {
        for code in 0..=u8::MAX {
            match NakCode::from_code(code) {
                Some(nak) => assert_eq!(nak.code(), code),
                None => assert!(code > 4, "code {code}"),
            }
        }
    }

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        for (place, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), place);
            assert_eq!(reason.c_name().to_str(), Ok(reason.name()));
            let same = |other: &&DropReason| other.name() == reason.name();
            assert_eq!(DropReason::ALL.iter().filter(same).count(), 1, "{reason:?}");
        }
    }

    #[test]
    fn statuses_have_the_numbers_of_the_abi() {
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
    fn refusals_complete_with_their_status_and_a_gap_with_none() {
        assert_eq!(NakCode::PsnSequence.wc_status(), None);
        for (code, status) in [(1, 9), (2, 10), (3, 11), (4, 15)] {
            let nak = NakCode::from_code(code).unwrap();
            assert_eq!(nak.wc_status().map(WcStatus::code), Some(status));
        }
    }
}
