// SPDX-License-Identifier: GPL-2.0

//! The DSCP of a flow, which has another name before 6.18.
//!
//! C header: [`include/net/flow.h`](srctree/include/net/flow.h)

use crate::bindings;

/// Sets the DSCP, which is in the upper six bits of `dscp`; the others are 0.
pub(crate) fn set_dscp(flow: &mut bindings::flowi_common, dscp: u8) {
    #[cfg(has_flow_dscp)]
    {
        flow.flowic_dscp = dscp;
    }
    #[cfg(not(has_flow_dscp))]
    {
        flow.flowic_tos = dscp;
    }
}
