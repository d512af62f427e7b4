// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>
#include <linux/percpu.h>

u64 __percpu *ferroce_helper_alloc_percpu64(size_t count)
{
	return __alloc_percpu(count * sizeof(u64), __alignof__(u64));
}

void ferroce_helper_this_cpu_add64(u64 __percpu *word, u64 amount)
{
	this_cpu_add(*word, amount);
}

u64 ferroce_helper_percpu_sum64(u64 __percpu *word)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(word, cpu));
	return sum;
}
