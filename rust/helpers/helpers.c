// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers that make inline functions and macros of the kernel callable from Rust. Ten lines each at most, without
 * logic. Each file below is named after the subsystem whose headers it includes.
 */

#include <ferroce/helpers.h>

#include "atomic.c"
#include "comp_cntr.c"
#include "dma_buf.c"
#include "ib_verbs.c"
#include "lockdep.c"
#include "mm.c"
#include "module.c"
#include "net.c"
#include "netfilter.c"
#include "netlink.c"
#include "notifier.c"
#include "odp.c"
#include "percpu.c"
#include "pmem.c"
#include "sched.c"
#include "skb.c"
#include "trace.c"
