// SPDX-License-Identifier: GPL-2.0

#include <linux/bottom_half.h>

void ferroce_helper_local_bh_disable(void)
{
	local_bh_disable();
}

void ferroce_helper_local_bh_enable(void)
{
	local_bh_enable();
}
