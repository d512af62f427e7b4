// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>
#include <linux/mutex.h>
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

/* Sections that each CPU has entered and left, of two phases. */
static DEFINE_PER_CPU_ALIGNED(u64 [4], ferroce_sections);

/* Serialises the waits for sections. */
static DEFINE_MUTEX(ferroce_section_turn);

void ferroce_helper_section_enter(u32 word)
{
	this_cpu_inc(ferroce_sections[word]);
	/* The count is visible before the section reads: a wait that finds it 0 began before. */
	smp_mb();
}

void ferroce_helper_section_leave(u32 word)
{
	/* What the section has read was read before the count is visible: it may be freed then. */
	smp_mb();
	this_cpu_inc(ferroce_sections[word]);
}

u64 ferroce_helper_section_sum(u32 word)
{
	return ferroce_helper_percpu_sum64(&ferroce_sections[word]);
}

void ferroce_helper_section_lock(void)
{
	mutex_lock(&ferroce_section_turn);
}

void ferroce_helper_section_unlock(void)
{
	mutex_unlock(&ferroce_section_turn);
}
