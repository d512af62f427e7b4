// SPDX-License-Identifier: GPL-2.0
/* Defines the tracepoints, and the functions through which Rust calls them. */

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <ferroce/trace.h>
