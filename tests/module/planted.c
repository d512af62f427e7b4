// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate faults: when it is loaded it commits one fault of the list, which the kernel's checkers must
 * find. See scripts/machine/check-planted.sh, which requires that a run with any of them fails.
 */

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static char *fault = "nothing";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "fault to commit");

static noinline void nothing(void)
{
}

static noinline void use_after_free(void)
{
	u8 *bytes = kzalloc(64, GFP_KERNEL);

	/* Hides the pointer, so that the compiler neither rejects nor removes the access. */
	OPTIMIZER_HIDE_VAR(bytes);
	kfree(bytes);
	OPTIMIZER_HIDE_VAR(bytes);
	READ_ONCE(bytes[8]);
}

/* Reads behind the allocation, but in the same mapped page. */
static noinline void vmalloc_out_of_bounds(void)
{
	u8 *bytes = vzalloc(2000);

	if (!bytes)
		return;
	OPTIMIZER_HIDE_VAR(bytes);
	READ_ONCE(bytes[2000]);
	vfree(bytes);
}

static noinline void sleep_in_atomic(void)
{
	static DEFINE_SPINLOCK(lock);
	void *bytes;

	spin_lock(&lock);
	bytes = kmalloc(64, GFP_KERNEL);
	spin_unlock(&lock);
	kfree(bytes);
}

static noinline void lock_order(void)
{
	static DEFINE_MUTEX(one);
	static DEFINE_MUTEX(two);

	mutex_lock(&one);
	mutex_lock(&two);
	mutex_unlock(&two);
	mutex_unlock(&one);
	mutex_lock(&two);
	mutex_lock(&one);
	mutex_unlock(&one);
	mutex_unlock(&two);
}

static DEFINE_SPINLOCK(everywhere);
static DECLARE_COMPLETION(taken);

static void take(struct timer_list *timer)
{
	spin_lock(&everywhere);
	spin_unlock(&everywhere);
	complete(&taken);
}

/* Taken here with softirqs enabled, and in a softirq, too. */
static noinline void lock_context(void)
{
	static DEFINE_TIMER(timer, take);

	spin_lock(&everywhere);
	spin_unlock(&everywhere);
	mod_timer(&timer, jiffies);
	wait_for_completion(&taken);
	timer_delete_sync(&timer);
}

static noinline void read_without_rcu(void)
{
	static int __rcu *pointer;

	rcu_dereference(pointer);
}

static noinline void freed_while_active(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, take, 0);
	mod_timer(timer, jiffies + 3600 * HZ);
	kfree(timer);
}

static noinline void listed_twice(void)
{
	LIST_HEAD(list);
	LIST_HEAD(entry);

	list_add(&entry, &list);
	list_add(&entry, &list);
}

static noinline void reference_to_nothing(void)
{
	refcount_t count = REFCOUNT_INIT(0);

	refcount_inc(&count);
}

static noinline void shift(void)
{
	int by = 40;

	OPTIMIZER_HIDE_VAR(by);
	by = 1 << by;
	OPTIMIZER_HIDE_VAR(by);
}

static noinline void array_index(void)
{
	struct {
		int array[4];
		int behind[4];
	} both = {};
	int index = 5;

	OPTIMIZER_HIDE_VAR(index);
	WRITE_ONCE(both.array[index], 1);
}

/* None of these stays in a register or on a stack for long. */
static noinline void leak(void)
{
	int i;

	for (i = 0; i < 50; i++) {
		void *bytes = kzalloc(200, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(bytes);
	}
}

static noinline void wild_pointer(void)
{
	int *nowhere = NULL;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
}

/* Sleeps for a long time without a wake-up. */
static noinline void hung(void)
{
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_timeout(20 * HZ);
}

/* Keeps this CPU busy for a long time. */
static noinline void stuck(void)
{
	unsigned long end = jiffies + 15 * HZ;

	preempt_disable();
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
}

static int contended;

static noinline void contend(struct work_struct *work)
{
	unsigned long end = jiffies + 3 * HZ;

	while (time_before(jiffies, end)) {
		contended++;
		/*
		 * An access in each iteration, not only one at the end; with preemption the next line is
		 * empty.
		 */
		barrier();
		cond_resched();
	}
}

/* Two CPUs count without synchronization. */
static noinline void race(void)
{
	static DECLARE_WORK(elsewhere, contend);

	schedule_work_on(!raw_smp_processor_id(), &elsewhere);
	contend(NULL);
	flush_work(&elsewhere);
}

#define FAULT(name) { #name, name }
static const struct {
	const char *name;
	void (*plant)(void);
} faults[] = {
	FAULT(nothing), FAULT(use_after_free), FAULT(vmalloc_out_of_bounds), FAULT(sleep_in_atomic),
	FAULT(lock_order), FAULT(lock_context), FAULT(read_without_rcu), FAULT(freed_while_active),
	FAULT(listed_twice), FAULT(reference_to_nothing), FAULT(shift), FAULT(array_index),
	FAULT(leak), FAULT(wild_pointer), FAULT(race), FAULT(hung), FAULT(stuck),
};

static int __init planted_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(faults[i].name, fault))
			continue;
		faults[i].plant();
		return 0;
	}
	return -EINVAL;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("Faults that the kernel's checkers must find");
MODULE_LICENSE("GPL");
