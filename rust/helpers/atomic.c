// SPDX-License-Identifier: GPL-2.0

#include <linux/atomic.h>
#include <linux/types.h>

u64 ferroce_helper_cmpxchg64(u64 *word, u64 old, u64 new)
{
	return cmpxchg64(word, old, new);
}

u64 ferroce_helper_fetch_add64(u64 *word, u64 add)
{
	/* On 64 bits an atomic64_t consists of one aligned u64. */
	return atomic64_fetch_add(add, (atomic64_t *)word);
}

void ferroce_helper_smp_store_release64(u64 *word, u64 value)
{
	/* The caller says with which load it pairs. */
	smp_store_release(word, value);
}
