// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/sched.h>

bool ferroce_helper_cpu_online(unsigned int cpu)
{
	return cpu_online(cpu);
}

void ferroce_helper_cond_resched(void)
{
	cond_resched();
}

void ferroce_helper_local_bh_disable(void)
{
	local_bh_disable();
}

void ferroce_helper_local_bh_enable(void)
{
	local_bh_enable();
}
