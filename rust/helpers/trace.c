// SPDX-License-Identifier: GPL-2.0
/* The tracepoints themselves, and the functions by which Rust reaches them. */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <ferroce/trace.h>
