// SPDX-License-Identifier: GPL-2.0

#include <linux/bits.h>
#include <linux/bottom_half.h>
#include <linux/cpumask.h>
#include <linux/kconfig.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

/*
 * Returns whether the CPU stays online until the caller leaves RCU: a CPU that goes offline becomes inactive first, and
 * then waits for RCU readers.
 */
bool ferroce_helper_cpu_active(unsigned int cpu)
{
	return cpu_active(cpu);
}

bool ferroce_helper_need_resched(void)
{
	return need_resched();
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

unsigned long ferroce_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

bool ferroce_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void ferroce_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

/*
 * Returns a number that changes whenever the current task has slept, and differs between tasks. Zero where softirqs
 * cannot run when they are enabled: with interrupts, softirqs or preemption disabled. Always zero with PREEMPT_RT: a
 * task is preemptible there within spin_lock_irqsave(), and a softirq that needs the lock would wait for its own task.
 */
u64 ferroce_helper_task_wakeup(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || !preemptible())
		return 0;
	return ((u64)current->pid << 40) + (current->nvcsw & GENMASK_ULL(39, 0));
}
