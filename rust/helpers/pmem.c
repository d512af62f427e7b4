// SPDX-License-Identifier: GPL-2.0

#include <asm/barrier.h>
#include <linux/libnvdimm.h>

/* Does nothing if the architecture cannot write back caches; there is no persistent memory then. */
void ferroce_helper_arch_wb_cache_pmem(void *address, size_t size)
{
	arch_wb_cache_pmem(address, size);
}

void ferroce_helper_pmem_wmb(void)
{
	pmem_wmb();
}
