// SPDX-License-Identifier: GPL-2.0
/*
 * The helpers of the modules in `modules`, out of the kernel's rust/helpers. Replaces its rust/helpers/helpers.c.
 */

#include <linux/compiler_types.h>
#define __rust_helper

#include <linux/dma-mapping.h>
#include "compat.c"

#include "atomic.c"
#include "atomic_ext.c"
#include "barrier.c"
#include "bug.c"
#include "build_assert.c"
#include "build_bug.c"
#include "completion.c"
#include "cpu.c"
#include "cpumask.c"
#include "cred.c"
#include "err.c"
#include "fs.c"
#include "jump_label.c"
#include "mm.c"
#include "mutex.c"
#include "page.c"
#include "pid_namespace.c"
#include "processor.c"
#include "rcu.c"
#include "refcount.c"
#include "scatterlist.c"
#include "signal.c"
#include "slab.c"
#include "spinlock.c"
#include "string.c"
#include "sync.c"
#include "task.c"
#include "time.c"
#include "uaccess.c"
#include "vmalloc.c"
#include "wait.c"
#include "workqueue.c"
#include "xarray.c"
