// SPDX-License-Identifier: GPL-2.0

//! Tracepoints, in `events/ferroce` of tracefs.
//!
//! Each function costs an instruction that does nothing until somebody switches its event on, and
//! nothing at all in a kernel without tracepoints.
//!
//! C header: `include/ferroce/trace.h`

#[cfg(not(CONFIG_TRACEPOINTS))]
pub use none::*;
#[cfg(CONFIG_TRACEPOINTS)]
pub use some::*;

/// A packet, as its tracepoints show it.
#[derive(Clone, Copy, Debug)]
pub struct TracedPacket {
    /// The queue pair it is for.
    pub dest_qpn: u32,
    /// The operation code of its base transport header.
    pub opcode: u8,
    /// Its packet sequence number.
    pub psn: u32,
    /// Bytes of UDP payload.
    pub bytes: usize,
}

#[cfg(CONFIG_TRACEPOINTS)]
mod some {
    use crate::{
        bindings,
        ib::{
            qp_attr::IbQpState,
            trace::TracedPacket, //
        }, //
    };
    use kernel::{
        bindings::tracepoint,
        jump_label::static_branch_unlikely,
        prelude::*, //
    };

    /// Defines the function of a tracepoint that shows a packet.
    macro_rules! shows_packet {
        ($(#[$doc:meta])* $name:ident, $tracepoint:ident, $call:ident) => {
            $(#[$doc])*
            #[inline]
            pub fn $name(packet: impl FnOnce() -> Option<TracedPacket>) {
                // SAFETY: A tracepoint that C has defined.
                if unsafe { static_branch_unlikely!(bindings::$tracepoint, tracepoint, key) } {
                    if let Some(TracedPacket { dest_qpn, opcode, psn, bytes }) = packet() {
                        // CAST: At most 64 KiB. SAFETY: Numbers.
                        unsafe { bindings::$call(dest_qpn, opcode, psn, bytes as u32) };
                    }
                }
            }
        };
    }

    shows_packet! {
        /// A packet has come in.
        packet_in, __tracepoint_ferroce_packet_in, rust_do_trace_ferroce_packet_in
    }

    shows_packet! {
        /// A packet is about to be sent.
        packet_out, __tracepoint_ferroce_packet_out, rust_do_trace_ferroce_packet_out
    }

    /// A packet that has come in was dropped.
    #[inline]
    pub fn packet_drop(reason: &CStr) {
        // SAFETY: A tracepoint that C has defined.
        if unsafe {
            static_branch_unlikely!(bindings::__tracepoint_ferroce_packet_drop, tracepoint, key)
        } {
            // SAFETY: C copies the string.
            unsafe { bindings::rust_do_trace_ferroce_packet_drop(reason.as_char_ptr()) };
        }
    }

    /// A queue pair goes from one state to another.
    #[inline]
    pub fn qp_state(qpn: u32, from: IbQpState, to: IbQpState) {
        // SAFETY: A tracepoint that C has defined.
        if unsafe {
            static_branch_unlikely!(bindings::__tracepoint_ferroce_qp_state, tracepoint, key)
        } {
            // SAFETY: Numbers.
            unsafe { bindings::rust_do_trace_ferroce_qp_state(qpn, from as u32, to as u32) };
        }
    }
}

#[cfg(not(CONFIG_TRACEPOINTS))]
mod none {
    use crate::ib::qp_attr::IbQpState;
    use crate::ib::trace::TracedPacket;
    use kernel::prelude::*;

    /// A packet has come in.
    #[inline]
    pub fn packet_in(_packet: impl FnOnce() -> Option<TracedPacket>) {}

    /// A packet is about to be sent.
    #[inline]
    pub fn packet_out(_packet: impl FnOnce() -> Option<TracedPacket>) {}

    /// A packet that has come in was dropped.
    #[inline]
    pub fn packet_drop(_reason: &CStr) {}

    /// A queue pair goes from one state to another.
    #[inline]
    pub fn qp_state(_qpn: u32, _from: IbQpState, _to: IbQpState) {}
}
