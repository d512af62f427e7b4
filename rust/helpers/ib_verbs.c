// SPDX-License-Identifier: GPL-2.0

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

const char *ferroce_helper_dev_bus_name(const struct device *dev)
{
	return dev_bus_name(dev);
}

const char *ferroce_helper_dev_name(const struct device *dev)
{
	return dev_name(dev);
}

bool ferroce_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

void ferroce_helper_ib_mark_name_assigned_by_user(struct ib_device *dev)
{
	ib_mark_name_assigned_by_user(dev);
}

/*
 * Waits until the core has unregistered the device, if the device has no users any more. The core holds the lock for
 * the whole unregistration. While the device has users, that takes unlimited time, for example until a page fault of a
 * process that registers memory completes, so this does not wait then.
 */
void ferroce_helper_ib_wait_for_unregistration(struct ib_device *dev)
{
	if (refcount_read(&dev->refcount))
		return;
	mutex_lock(&dev->unregistration_lock);
	mutex_unlock(&dev->unregistration_lock);
}

struct ib_ucontext *ferroce_helper_rdma_udata_to_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

bool ferroce_helper_udata_has_attr(struct ib_udata *udata, unsigned int id)
{
	return uverbs_attr_is_valid(rdma_udata_to_uverbs_attr_bundle(udata), id);
}

bool ferroce_helper_rdma_protocol_roce_udp_encap(const struct ib_device *dev, u32 port)
{
	return rdma_protocol_roce_udp_encap(dev, port);
}
