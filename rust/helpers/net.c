// SPDX-License-Identifier: GPL-2.0

#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/ip6_fib.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_verbs.h>

void ferroce_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

struct net *ferroce_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

/* Returns the number of the namespace, as /proc/PID/ns/net shows it. */
unsigned int ferroce_helper_dev_net_inum(const struct net_device *dev)
{
	guard(rcu)();
	return dev_net_rcu(dev)->ns.inum;
}

/* Returns whether no link limits the netdev: it has neither a parent device nor lower netdevs. */
bool ferroce_helper_dev_is_virtual(const struct net_device *dev)
{
	return !dev->dev.parent && list_empty(&dev->adj_list.lower);
}

struct dst_entry *ferroce_helper_dst_check(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

/* The caller holds the RCU read lock. */
bool ferroce_helper_dst_is_local(const struct dst_entry *dst)
{
	return dst_dev_rcu(dst)->flags & IFF_LOOPBACK;
}

/*
 * Returns whether super-packets may be sent on the route. Not if it transforms (IPsec) or encapsulates packets, as that
 * would split them, nor on the loopback device, which does not take them. The netdev must take page fragments in
 * tunnels: otherwise the stack copies a super-packet to one buffer of up to 64 KiB. If unsplit is true, it must also
 * take the super-packet as it is. The caller holds the RCU read lock.
 */
bool ferroce_helper_dst_takes_super_packets(const struct dst_entry *dst, bool unsplit)
{
	const struct net_device *dev = dst_dev_rcu(dst);

	if (dst_xfrm(dst) || dst->lwtstate || (dev->flags & IFF_LOOPBACK) ||
	    !(dev->hw_enc_features & NETIF_F_SG))
		return false;
	return !unsplit || net_gso_ok(dev->features & dev->hw_enc_features,
				      SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_L4 | SKB_GSO_SCTP);
}

u32 ferroce_helper_dst_mtu(const struct dst_entry *dst)
{
	return dst_mtu(dst);
}

/* Returns whether the netdev with that index is dev, or a netdev above it in the same namespace. */
bool ferroce_helper_netdev_carries(struct net_device *dev, int ifindex)
{
	struct net_device *upper;

	if (ifindex == dev->ifindex)
		return true;
	guard(rcu)();
	upper = dev_get_by_index_rcu(dev_net_rcu(dev), ifindex);
	return upper && netdev_has_upper_dev_all_rcu(dev, upper);
}

struct in_device *ferroce_helper_in_dev_get(const struct net_device *dev)
{
	return in_dev_get(dev);
}

void ferroce_helper_in_dev_put(struct in_device *in_dev)
{
	in_dev_put(in_dev);
}

/* ip_mc_inc_group() does not report a failed allocation: look whether the group was added. The caller holds RTNL. */
int ferroce_helper_in_dev_join(struct in_device *in_dev, __be32 group)
{
	const struct ip_mc_list *joined;

	ip_mc_inc_group(in_dev, group);
	for (joined = rtnl_dereference(in_dev->mc_list); joined; joined = rtnl_dereference(joined->next_rcu))
		if (joined->multiaddr == group)
			return 0;
	return -ENOMEM;
}

struct inet6_dev *ferroce_helper_in6_dev_get(const struct net_device *dev)
{
	return in6_dev_get(dev);
}

void ferroce_helper_in6_dev_put(struct inet6_dev *idev)
{
	in6_dev_put(idev);
}

void ferroce_helper_inet_dec_convert_csum(struct sock *sk)
{
	inet_dec_convert_csum(sk);
}

struct net *ferroce_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

bool ferroce_helper_ipv6_mod_enabled(void)
{
	return ipv6_mod_enabled();
}

void ferroce_helper_netdev_hold(struct net_device *dev, netdevice_tracker *tracker)
{
	netdev_hold(dev, tracker, GFP_ATOMIC);
}

void ferroce_helper_netdev_put(struct net_device *dev, netdevice_tracker *tracker)
{
	netdev_put(dev, tracker);
}

bool ferroce_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

bool ferroce_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

void ferroce_helper_put_net(struct net *net)
{
	put_net(net);
}

void *ferroce_helper_rcu_dereference_sk_user_data(struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

u16 ferroce_helper_rdma_get_udp_sport(u32 fl, u32 lqpn, u32 rqpn)
{
	return rdma_get_udp_sport(fl, lqpn, rqpn);
}

u32 ferroce_helper_rt6_get_cookie(const struct dst_entry *dst)
{
	return rt6_get_cookie(dst_rt6_info(dst));
}

/* Returns -1 if dev is no VLAN device. */
int ferroce_helper_vlan_id(const struct net_device *dev)
{
	return is_vlan_dev(dev) ? vlan_dev_vlan_id(dev) : -1;
}

struct net_device *ferroce_helper_rdma_vlan_dev_real_dev(const struct net_device *dev)
{
	return rdma_vlan_dev_real_dev(dev);
}

void ferroce_helper_udp_allow_gso(struct sock *sk)
{
	udp_allow_gso(sk);
}
