// SPDX-License-Identifier: GPL-2.0

//! Tracepoints, in `events/ferroce` of tracefs.
//!
//! A disabled tracepoint costs one no-op instruction; a kernel without tracepoints has none. Any context.
//!
//! C header: `include/ferroce/trace.h`

#[cfg(not(CONFIG_TRACEPOINTS))]
pub use disabled::*;
#[cfg(CONFIG_TRACEPOINTS)]
pub use enabled::*;

/// Fields of a packet that the tracepoints show.
#[derive(Clone, Copy, Debug)]
pub struct TracedPacket {
    /// Destination QP number.
    pub dest_qpn: u32,
    /// BTH opcode.
    pub opcode: u8,
    /// PSN.
    pub psn: u32,
    /// UDP payload length in bytes.
    pub bytes: usize,
}

#[cfg(CONFIG_TRACEPOINTS)]
mod enabled {
    use crate::{
        bindings,
        compat::static_branch::static_branch_unlikely,
        ib::{
            qp_attr::IbQpState,
            trace::TracedPacket, //
        }, //
    };
    use kernel::{
        bindings::tracepoint,
        prelude::*, //
    };

    /// Defines the function of a tracepoint for packets. `packet` is called only if the tracepoint is enabled.
    macro_rules! shows_packet {
        ($(#[$doc:meta])* $name:ident, $tracepoint:ident, $call:ident) => {
            $(#[$doc])*
            #[inline]
            pub fn $name(packet: impl FnOnce() -> Option<TracedPacket>) {
                // SAFETY: `helpers/trace.c` defines the tracepoint, whose static key is valid as long as the module
                // is loaded.
                if unsafe { static_branch_unlikely!(bindings::$tracepoint, tracepoint, key) } {
                    if let Some(TracedPacket { dest_qpn, opcode, psn, bytes }) = packet() {
                        // CAST: A UDP payload is at most 64 KiB.
                        // SAFETY: The arguments are integers, and C copies them.
                        unsafe { bindings::$call(dest_qpn, opcode, psn, bytes as u32) };
                    }
                }
            }
        };
    }

    shows_packet! {
        /// A packet was received.
        packet_in, __tracepoint_ferroce_packet_in, rust_do_trace_ferroce_packet_in
    }

    shows_packet! {
        /// A packet is about to be sent.
        packet_out, __tracepoint_ferroce_packet_out, rust_do_trace_ferroce_packet_out
    }

    /// A received packet was dropped.
    #[inline]
    pub fn packet_drop(reason: &CStr) {
        // SAFETY: `helpers/trace.c` defines the tracepoint, whose static key is valid as long as the module is
        // loaded.
        if unsafe {
            static_branch_unlikely!(bindings::__tracepoint_ferroce_packet_drop, tracepoint, key)
        } {
            // SAFETY: The string is valid for the call, and C copies it.
            unsafe { bindings::rust_do_trace_ferroce_packet_drop(reason.as_char_ptr()) };
        }
    }

    /// A QP changes its state.
    #[inline]
    pub fn qp_state(qpn: u32, from: IbQpState, to: IbQpState) {
        // SAFETY: `helpers/trace.c` defines the tracepoint, whose static key is valid as long as the module is
        // loaded.
        if unsafe {
            static_branch_unlikely!(bindings::__tracepoint_ferroce_qp_state, tracepoint, key)
        } {
            // SAFETY: The arguments are integers, and C copies them.
            unsafe { bindings::rust_do_trace_ferroce_qp_state(qpn, from as u32, to as u32) };
        }
    }
}

#[cfg(not(CONFIG_TRACEPOINTS))]
mod disabled {
    use crate::ib::qp_attr::IbQpState;
    use crate::ib::trace::TracedPacket;
    use kernel::prelude::*;

    /// A packet was received.
    #[inline]
    pub fn packet_in(_packet: impl FnOnce() -> Option<TracedPacket>) {}

    /// A packet is about to be sent.
    #[inline]
    pub fn packet_out(_packet: impl FnOnce() -> Option<TracedPacket>) {}

    /// A received packet was dropped.
    #[inline]
    pub fn packet_drop(_reason: &CStr) {}

    /// A QP changes its state.
    #[inline]
    pub fn qp_state(_qpn: u32, _from: IbQpState, _to: IbQpState) {}
}
