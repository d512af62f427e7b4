/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints for packets (received, sent, dropped) and for QP state changes. rust/rdma/ib/trace.rs has a Rust function
 * for each. In tracefs they are in events/ferroce.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ferroce

#if !defined(FERROCE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FERROCE_TRACE_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(ferroce_packet,
	TP_PROTO(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes),
	TP_ARGS(dest_qpn, opcode, psn, bytes),
	TP_STRUCT__entry(
		__field(u32, dest_qpn)
		__field(u32, psn)
		__field(u32, bytes)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->dest_qpn = dest_qpn;
		__entry->psn = psn;
		__entry->bytes = bytes;
		__entry->opcode = opcode;
	),
	TP_printk("dest_qpn=%u opcode=0x%02x psn=0x%06x bytes=%u",
		  __entry->dest_qpn, __entry->opcode, __entry->psn, __entry->bytes)
);

DEFINE_EVENT(ferroce_packet, ferroce_packet_in,
	TP_PROTO(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes),
	TP_ARGS(dest_qpn, opcode, psn, bytes)
);

DEFINE_EVENT(ferroce_packet, ferroce_packet_out,
	TP_PROTO(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes),
	TP_ARGS(dest_qpn, opcode, psn, bytes)
);

TRACE_EVENT(ferroce_packet_drop,
	TP_PROTO(const char *reason),
	TP_ARGS(reason),
	TP_STRUCT__entry(
		__string(reason, reason)
	),
	TP_fast_assign(
		__assign_str(reason);
	),
	TP_printk("reason=%s", __get_str(reason))
);

TRACE_EVENT(ferroce_qp_state,
	TP_PROTO(u32 qpn, u32 from, u32 to),
	TP_ARGS(qpn, from, to),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("qpn=%u from=%s to=%s", __entry->qpn,
		  __print_symbolic(__entry->from, { 0, "RESET" }, { 1, "INIT" }, { 2, "RTR" },
				   { 3, "RTS" }, { 4, "SQD" }, { 5, "SQE" }, { 6, "ERR" }),
		  __print_symbolic(__entry->to, { 0, "RESET" }, { 1, "INIT" }, { 2, "RTR" },
				   { 3, "RTS" }, { 4, "SQD" }, { 5, "SQE" }, { 6, "ERR" }))
);

/* See rust/helpers/trace.c. */
#ifndef DEFINE_RUST_DO_TRACE
void rust_do_trace_ferroce_packet_in(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes);
void rust_do_trace_ferroce_packet_out(u32 dest_qpn, u8 opcode, u32 psn, u32 bytes);
void rust_do_trace_ferroce_packet_drop(const char *reason);
void rust_do_trace_ferroce_qp_state(u32 qpn, u32 from, u32 to);
#endif

#endif /* FERROCE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ferroce
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
