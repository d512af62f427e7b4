// SPDX-License-Identifier: GPL-2.0
/* Defines the tracepoints, and the functions through which Rust calls them. */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <ferroce/trace.h>

/* Before 6.13 the kernel defines no functions for Rust. A disabled tracepoint is skipped before the call. */
#ifndef DEFINE_RUST_DO_TRACE
void rust_do_trace_ferroce_packet_in(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes)
{
	trace_ferroce_packet_in(dest_qpn, opcode, psn, bytes);
}

void rust_do_trace_ferroce_packet_out(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes)
{
	trace_ferroce_packet_out(dest_qpn, opcode, psn, bytes);
}

void rust_do_trace_ferroce_packet_drop(const char *reason)
{
	trace_ferroce_packet_drop(reason);
}

void rust_do_trace_ferroce_qp_state(u32 qpn, u32 from, u32 to)
{
	trace_ferroce_qp_state(qpn, from, to);
}
#endif
