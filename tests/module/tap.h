/* SPDX-License-Identifier: GPL-2.0 */
/* Results of tests in the kernel: lines of the kernel log, which scripts turn into KTAP. */
#ifndef FERROCE_TEST_TAP_H
#define FERROCE_TEST_TAP_H

#include <linux/printk.h>

#define SAY "ferroce-test: "

/* Reports the line and returns from the function if the call fails. */
#define must(call)							\
	do {								\
		int rc_ = (call);					\
		if (rc_) {						\
			pr_info(SAY "# %s:%d: %d\n", __func__, __LINE__, rc_); \
			return rc_;					\
		}							\
	} while (0)
#define equal(found, wanted) must((found) == (wanted) ? 0 : -EBADE)

#endif
