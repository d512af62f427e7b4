// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the cost of sending packets in each of several ways, alternately, to the far end of a flow. Runs
 * when it is loaded, on the CPU of the loader, writes results to the kernel log, and unloads by failing.
 *
 * It measures a turn: all packets of a turn are created and passed to IP with softirqs disabled, as the
 * driver does. On a virtual link, softirqs then receive and copy them when they are enabled.
 */

#include "tap.h"
#include "ways.h"

#include <linux/inet.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <net/ip.h>
#include <net/route.h>

#define MOST_ROUNDS 31

static char *to = "10.0.0.2";
module_param(to, charp, 0);
MODULE_PARM_DESC(to, "IPv4 address of the far end, in any namespace");
static uint bytes = 4096;
module_param(bytes, uint, 0);
MODULE_PARM_DESC(bytes, "payload of a packet");
static uint packets = 120;
module_param(packets, uint, 0);
MODULE_PARM_DESC(packets, "packets of a turn");
static uint turns = 300;
module_param(turns, uint, 0);
MODULE_PARM_DESC(turns, "turns of a round");
static uint rounds = 5;
module_param(rounds, uint, 0);
MODULE_PARM_DESC(rounds, "rounds");
static uint lists;
module_param(lists, uint, 0);
MODULE_PARM_DESC(lists, "whether the path takes lists of packets: 0 no, 1 yes, 2 perhaps");
static uint runs;
module_param(runs, uint, 0);
MODULE_PARM_DESC(runs, "whether the path takes runs of packets");
static uint segments;
module_param(segments, uint, 0);
MODULE_PARM_DESC(segments, "whether the path takes packets to be segmented");

/* In nanoseconds. */
struct times {
	u64 sent, all;
};

/* Results of a way: the median turn of each round. */
struct found {
	u64 sent[MOST_ROUNDS], all[MOST_ROUNDS];
	u32 buffers;
	int rc;
};

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int by_sent(const void *a, const void *b)
{
	return by_size(&((const struct times *)a)->sent, &((const struct times *)b)->sent);
}

static int by_all(const void *a, const void *b)
{
	return by_size(&((const struct times *)a)->all, &((const struct times *)b)->all);
}

/* A list of skbs, one for each packet. */
static int send(const struct flow *flow, struct sk_buff *skb)
{
	int rc;

	rcu_read_lock();
	skb_dst_set_noref(skb, &flow->rt->dst);
	skb->protocol = htons(ETH_P_IP);
	/* XFRM has buffers cut before IP sets their device, and the cutting of tunnels looks at it. */
	skb->dev = flow->rt->dst.dev;
	rc = ip_local_out(flow->net, NULL, skb);
	rcu_read_unlock();
	return rc ? -EIO : 0;
}

static int send_all(struct flow *flow, const struct way *way)
{
	u32 psn, n, most = way->most(flow);
	struct sk_buff *skb;
	int rc = 0;

	for (psn = 0; psn < flow->packets && !rc; psn += n) {
		n = min(most, flow->packets - psn);
		skb = way->make(flow, psn, n);
		rc = skb ? send(flow, skb) : -ENOMEM;
	}
	return rc;
}

static int turn(struct flow *flow, const struct way *way, struct times *times, u32 *buffers)
{
	u64 began;
	int rc;

	far_begin();
	local_bh_disable();
	began = ktime_get_ns();
	rc = send_all(flow, way);
	times->sent = ktime_get_ns() - began;
	local_bh_enable();
	must(rc);
	must(far_await(buffers));
	times->all = ktime_get_ns() - began;
	return 0;
}

/* Checks that all packets have arrived with the bytes that were sent. */
static int verify(const struct flow *flow, const struct way *way, u32 buffers)
{
	/* A run that came whole has none. */
	bool trailers = way->device != TAKES_RUNS || buffers == flow->packets;
	struct page *page;
	u32 psn, offset;
	__le32 trailer;

	for (psn = 0; psn < flow->packets; psn++) {
		page = payload(flow, psn, &offset);
		trailer = trailer_of(psn, page_address(page) + offset, flow->bytes);
		equal(memcmp(far_bytes(psn), page_address(page) + offset, flow->bytes), 0);
		if (trailers)
			equal(memcmp(far_bytes(psn) + flow->bytes, &trailer, TRAILER), 0);
	}
	return 0;
}

/* The measured case includes whether the device had to split the buffers. */
static int came_as_expected(const struct flow *flow, const struct way *way, u32 buffers)
{
	uint whole = way->device == TAKES_LISTS ? lists :
		     way->device == TAKES_SEGMENTS ? segments :
		     way->device == TAKES_RUNS ? runs : 0;

	if (whole == 2)
		return 0;
	equal(buffers, whole ? DIV_ROUND_UP(flow->packets, way->most(flow)) : flow->packets);
	return 0;
}

static int one_round(struct flow *flow, const struct way *way, struct times *times, struct found *found,
		     uint number)
{
	uint i;

	far_forget();
	for (i = 0; i < turns; i++) {
		must(turn(flow, way, &times[i], &found->buffers));
		must(came_as_expected(flow, way, found->buffers));
		cond_resched();
	}
	must(verify(flow, way, found->buffers));
	sort(times, turns, sizeof(*times), by_sent, NULL);
	found->sent[number] = times[turns / 2].sent / flow->packets;
	sort(times, turns, sizeof(*times), by_all, NULL);
	found->all[number] = times[turns / 2].all / flow->packets;
	return 0;
}

static void tell(struct found *found, const struct way *way, uint number)
{
	sort(found->all, rounds, sizeof(u64), by_size, NULL);
	sort(found->sent, rounds, sizeof(u64), by_size, NULL);
	if (!found->rc)
		pr_info(SAY "# %-16s %4u buffers, ns a packet: %5llu (%llu to %llu), to send it %5llu (%llu to %llu)\n",
			way->name, found->buffers, found->all[rounds / 2], found->all[0],
			found->all[rounds - 1], found->sent[rounds / 2], found->sent[0],
			found->sent[rounds - 1]);
	pr_info(SAY "%s %u %s: every byte arrives\n", found->rc ? "not ok" : "ok", number, way->name);
}

/* Checks that all references to the payload pages are dropped. */
static int all_is_home(const struct flow *flow)
{
	u32 i;

	for (i = 0; i < payload_pages(flow); i++)
		equal(page_count(flow->pages[i]), 1);
	return 0;
}

static void alternate(struct flow *flow, struct times *times, struct found *found)
{
	uint round, i;

	/* The first round warms up. */
	for (i = 0; i < WAYS; i++)
		found[i].rc = one_round(flow, &ways[i], times, &found[i], 0);
	for (round = 0; round < rounds; round++)
		for (i = 0; i < WAYS; i++)
			if (!found[i].rc)
				found[i].rc = one_round(flow, &ways[i], times, &found[i], round);
	for (i = 0; i < WAYS; i++)
		tell(&found[i], &ways[i], i + 1);
	pr_info(SAY "%s %u no page keeps a reference\n", all_is_home(flow) ? "not ok" : "ok", ++i);
	pr_info(SAY "1..%u\n", i);
}

static int flow_open(struct flow *flow)
{
	struct flowi4 key = { .daddr = in_aton(to), .flowi4_proto = IPPROTO_UDP };
	u32 i;

	flow->net = current->nsproxy->net_ns;
	flow->bytes = bytes;
	flow->packets = packets;
	flow->pages = kcalloc(payload_pages(flow), sizeof(*flow->pages), GFP_KERNEL);
	must(flow->pages ? 0 : -ENOMEM);
	for (i = 0; i < payload_pages(flow); i++) {
		flow->pages[i] = alloc_page(GFP_KERNEL);
		must(flow->pages[i] ? 0 : -ENOMEM);
		get_random_bytes(page_address(flow->pages[i]), PAGE_SIZE);
	}
	flow->rt = ip_route_output_key(flow->net, &key);
	must(PTR_ERR_OR_ZERO(flow->rt));
	flow->from = key.saddr;
	flow->to = key.daddr;
	return 0;
}

static void flow_close(struct flow *flow)
{
	u32 i;

	if (!IS_ERR_OR_NULL(flow->rt))
		ip_rt_put(flow->rt);
	for (i = 0; flow->pages && i < payload_pages(flow); i++)
		if (flow->pages[i])
			put_page(flow->pages[i]);
	kfree(flow->pages);
	if (flow->piece.page)
		put_page(flow->piece.page);
}

static int run(struct flow *flow)
{
	struct times *times = kvcalloc(turns, sizeof(*times), GFP_KERNEL);
	struct found *found = kcalloc(WAYS, sizeof(*found), GFP_KERNEL);
	int rc = times && found ? flow_open(flow) : -ENOMEM;

	if (!rc)
		alternate(flow, times, found);
	flow_close(flow);
	kfree(found);
	kvfree(times);
	return rc;
}

static int __init segments_init(void)
{
	struct flow flow = {};
	int rc;

	if (!bytes || PAGE_SIZE % bytes || !packets || packets > U16_MAX || !turns || !rounds ||
	    rounds > MOST_ROUNDS)
		return -EINVAL;
	rc = far_open(bytes, packets);
	if (rc)
		return rc;
	rc = run_begin();
	if (!rc) {
		rc = run(&flow);
		run_end();
	}
	far_close();
	/* Fails, so that nothing stays loaded. */
	return rc ?: -EAGAIN;
}

module_init(segments_init);
MODULE_DESCRIPTION("Cost of sending packets in several ways");
MODULE_LICENSE("GPL");
