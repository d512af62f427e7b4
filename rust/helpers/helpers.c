// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of the kernel, made callable from Rust. No logic: ten lines each at
 * most. The files below are named after what they include.
 */

#include <ferroce/helpers.h>

#include "atomic.c"
#include "dma_buf.c"
#include "ib_verbs.c"
#include "lockdep.c"
#include "mm.c"
#include "net.c"
#include "netfilter.c"
#include "netlink.c"
#include "odp.c"
#include "percpu.c"
#include "pmem.c"
#include "sched.c"
#include "skb.c"
#include "trace.c"
