// SPDX-License-Identifier: GPL-2.0

#include <linux/netdevice.h>

void ferroce_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

bool ferroce_helper_dev_is_registered(const struct net_device *dev)
{
	return dev->reg_state == NETREG_REGISTERED;
}

struct net *ferroce_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

void ferroce_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}
