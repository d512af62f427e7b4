// SPDX-License-Identifier: GPL-2.0

#include <linux/module.h>

/* module! has no key for it. */
MODULE_VERSION(FERROCE_VERSION);
