// SPDX-License-Identifier: GPL-2.0
/*
 * An adapter, as far as the driver looks for one: an RDMA device that speaks RoCEv2 on an existing interface and
 * belongs to a device on a bus. It has no other function. See tests/vm/life/64-reports.sh.
 */

#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

static char *netdev = "v0";
module_param(netdev, charp, 0);
MODULE_PARM_DESC(netdev, "interface of the adapter");

static struct platform_device *parent;
static struct ib_device *adapter;

static int query_device(struct ib_device *dev, struct ib_device_attr *attr, struct ib_udata *udata)
{
	return 0;
}

static int query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->gid_tbl_len = 16;
	attr->pkey_tbl_len = 1;
	return 0;
}

static int query_pkey(struct ib_device *dev, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *dev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* No connection management, for which the core would create queue pairs. */
static int get_port_immutable(struct ib_device *dev, u32 port, struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
	immutable->gid_tbl_len = 16;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX5,
	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_link_layer = get_link_layer,
	.get_port_immutable = get_port_immutable,
};

/* The container of an ib_device starts with it. */
struct container {
	struct ib_device ib;
};

static int add_adapter(struct net_device *dev)
{
	struct container *made = ib_alloc_device(container, ib);
	int err;

	if (!made)
		return -ENOMEM;
	adapter = &made->ib;
	ib_set_device_ops(adapter, &ops);
	adapter->node_type = RDMA_NODE_IB_CA;
	adapter->phys_port_cnt = 1;
	adapter->num_comp_vectors = 1;
	adapter->dev.parent = &parent->dev;
	err = ib_device_set_netdev(adapter, dev, 1);
	if (!err)
		err = ib_register_device(adapter, "adapter%d", NULL);
	if (err)
		ib_dealloc_device(adapter);
	return err;
}

static int __init adapter_init(void)
{
	struct net_device *dev = dev_get_by_name(&init_net, netdev);
	int err;

	if (!dev)
		return -ENODEV;
	parent = platform_device_register_simple("ferroce-adapter", 7, NULL, 0);
	err = PTR_ERR_OR_ZERO(parent);
	if (!err) {
		err = add_adapter(dev);
		if (err)
			platform_device_unregister(parent);
	}
	dev_put(dev);
	return err;
}

static void __exit adapter_exit(void)
{
	ib_unregister_device(adapter);
	ib_dealloc_device(adapter);
	platform_device_unregister(parent);
}

module_init(adapter_init);
module_exit(adapter_exit);
MODULE_DESCRIPTION("An adapter without functions, for tests");
MODULE_LICENSE("GPL");
