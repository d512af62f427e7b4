/* SPDX-License-Identifier: GPL-2.0 */
#include <ferroce/helpers.h>
#include <ferroce/trace.h>
#include <linux/crc32.h>
#include <linux/dma-buf.h>
#include <linux/etherdevice.h>
#include <linux/hmm.h>
#include <linux/hrtimer.h>
#include <linux/igmp.h>
#include <linux/mmu_notifier.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>
#include <uapi/rdma/ferroce-abi.h>
#include <uapi/rdma/rdma_user_rxe.h>

/* Nodes are charged to the memory cgroup that causes them, also those allocated without sleeping. */
const gfp_t FERROCE_XA_FLAGS_ACCOUNT = XA_FLAGS_ACCOUNT;
