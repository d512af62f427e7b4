// SPDX-License-Identifier: GPL-2.0

#include <linux/notifier.h>

int ferroce_helper_notifier_from_errno(int err)
{
	return notifier_from_errno(err);
}
