// SPDX-License-Identifier: GPL-2.0
/*
 * A ULP that runs its tests when it is loaded, writes the results to the kernel log, and unloads by failing.
 */

#include "bench.h"

#include <linux/module.h>

static char *device = "fr0";
module_param(device, charp, 0);
MODULE_PARM_DESC(device, "device to test");

static int gid = 1;
module_param(gid, int, 0);
MODULE_PARM_DESC(gid, "index of the GID to use");

static int add(struct ib_device *found)
{
	const struct test *lists[] = {
		registration_tests, queue_tests, inline_tests, handled_tests, datagram_tests,
		atomic_tests, end_tests, error_tests, memory_tests,
	};
	const struct test *test;
	int i, count = 0;

	if (strcmp(dev_name(&found->dev), device))
		return -EOPNOTSUPP;
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		for (test = lists[i]; test->name; test++)
			if (num_online_cpus() < test->processors)
				pr_info(SAY "ok %d %s # SKIP it needs %u CPUs\n", ++count,
					test->name, test->processors);
			else if (test->failing && !IS_ENABLED(CONFIG_FAILSLAB))
				pr_info(SAY "ok %d %s # SKIP this kernel has no failslab\n", ++count,
					test->name);
			else if (test->prompt && IS_ENABLED(CONFIG_PREEMPT_RT))
				pr_info(SAY "ok %d %s # SKIP softirqs of this kernel are threads\n", ++count,
					test->name);
			else if (test->prompt && !IS_ENABLED(CONFIG_PREEMPT_COUNT))
				pr_info(SAY "ok %d %s # SKIP this kernel does not count spinlocks\n", ++count,
					test->name);
			else
				pr_info(SAY "%s %d %s\n",
					bench_run(found, gid, test) ? "not ok" : "ok", ++count,
					test->name);
	pr_info(SAY "1..%d\n", count);
	/* The device is not needed any more. */
	return -EOPNOTSUPP;
}

static struct ib_client consumer = {
	.name = "ferroce-test",
	.add = add,
};

static int __init consumer_init(void)
{
	int rc = ib_register_client(&consumer);

	if (rc)
		return rc;
	ib_unregister_client(&consumer);
	/* Fails, so that nothing stays loaded. */
	return -EAGAIN;
}

module_init(consumer_init);
MODULE_DESCRIPTION("Tests of the kernel verbs");
MODULE_LICENSE("GPL");
