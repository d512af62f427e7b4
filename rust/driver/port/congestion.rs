// SPDX-License-Identifier: GPL-2.0

//! Settings of congestion control, which the QPs of a port share: the parameters of the module.

use roce::{
    congestion::{
        dcqcn::DcqcnConfig,
        notification::CnpInterval,
        pacer::Rate,
        Algorithm, //
    },
    time::Duration, //
};

/// ECN field of a sender that reacts to marks: ECT(0).
const ECT_0: u8 = 0b10;

/// The bits of a traffic class that are the ECN field.
const ECN_MASK: u8 = 0b11;

/// Returns the traffic class of a packet that a queue marks: congestion experienced, if the packet is ECN-capable.
pub(crate) const fn marked(traffic_class: u8) -> u8 {
    match traffic_class & ECN_MASK {
        0 => traffic_class,
        _ => traffic_class | ECN_MASK,
    }
}

/// Settings of congestion control.
#[derive(Clone, Copy)]
pub(crate) struct CongestionSettings {
    /// DCQCN is on: packets of connected QPs are marked as ECN-capable, marks cause CNPs, and CNPs reduce rates.
    pub(crate) dcqcn: bool,
    /// The lowest rate, and the growth in a step of additive and of hyper increase, in Mbit/s.
    pub(crate) rates_mbit_s: [u32; 3],
    /// Time between two steps, in microseconds.
    pub(crate) step_us: u32,
    /// Bytes between two steps.
    pub(crate) step_bytes: u32,
    /// Time between two CNPs of a QP, in microseconds.
    pub(crate) cnp_interval_us: u32,
    /// DSCP of CNPs.
    pub(crate) cnp_dscp: u8,
}

impl CongestionSettings {
    /// Returns the congestion control of a QP whose port has this rate in Mbit/s.
    pub(crate) fn algorithm(&self, line_rate_mbit_s: u32) -> Algorithm {
        if !self.dcqcn {
            return Algorithm::Window;
        }
        let line_rate = Rate::from_mbit_s(line_rate_mbit_s);
        let [min_rate, additive_increase, hyper_increase] =
            self.rates_mbit_s.map(Rate::from_mbit_s);
        Algorithm::Dcqcn(DcqcnConfig {
            line_rate,
            min_rate: min_rate.min(line_rate),
            additive_increase,
            hyper_increase,
            step_time: Duration::from_micros(self.step_us.into()),
            step_bytes: self.step_bytes,
        })
    }

    /// Returns the traffic class of packets of a connected QP, for the one that the consumer asked for. Its ECN field
    /// is not the consumer's: it says whether the QP reacts to marks.
    pub(crate) fn traffic_class(&self, asked: u8) -> u8 {
        let ecn = match self.dcqcn {
            true => ECT_0,
            false => 0,
        };
        asked & !ECN_MASK | ecn
    }

    /// Returns the traffic class of CNPs.
    pub(crate) fn cnp_traffic_class(&self) -> u8 {
        self.cnp_dscp.wrapping_shl(2) | ECT_0
    }

    /// Returns the time between two CNPs of a QP.
    pub(crate) fn cnp_interval(&self) -> CnpInterval {
        CnpInterval(Duration::from_micros(self.cnp_interval_us.into()))
    }
}
