// SPDX-License-Identifier: GPL-2.0
/*
 * The receiving end: the last netfilter hook before UDP, in every namespace, as in the driver. It sees
 * buffers as they arrive, split or not.
 */

#include "ways.h"

#include <linux/ip.h>
#include <linux/mm.h>
#include <linux/netfilter_ipv4.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/net_namespace.h>

static struct {
	u8 *slots;
	u32 bytes, packets;
	/* Counted in this turn. */
	u32 got, buffers, wrong;
} far;

u8 *far_bytes(u32 psn)
{
	return far.slots + (size_t)psn * (far.bytes + TRAILER);
}

/* Takes a packet that begins at an offset of the buffer. */
static void take(const struct sk_buff *skb, u32 at, u32 len, u32 psn)
{
	const struct header wanted = header_of(psn);
	struct header header;

	if (len != packet_bytes(far.bytes) || psn >= far.packets ||
	    skb_copy_bits(skb, at, &header, sizeof(header)) ||
	    memcmp(&header, &wanted, sizeof(header)) ||
	    skb_copy_bits(skb, at + sizeof(header), far_bytes(psn), far.bytes + TRAILER))
		far.wrong++;
	WRITE_ONCE(far.got, far.got + 1);
}

/* A run has the header of its first packet, and no trailers: they are made here, for the comparison. */
static void take_run(const struct sk_buff *skb, u32 at, u32 psn)
{
	const struct header wanted = header_of(psn);
	struct header header;
	u32 n = (skb->len - at - sizeof(header)) / far.bytes;
	bool wrong = skb_copy_bits(skb, at, &header, sizeof(header)) ||
		     memcmp(&header, &wanted, sizeof(header)) || psn + n > far.packets;

	for (at += sizeof(header); n && !wrong; n--, psn++, at += far.bytes) {
		wrong = skb_copy_bits(skb, at, far_bytes(psn), far.bytes);
		WRITE_ONCE(far.got, far.got + 1);
	}
	far.wrong += wrong;
}

static void take_all(struct sk_buff *skb, u32 at)
{
	u32 psn = ntohs(ip_hdr(skb)->id), size = skb_shinfo(skb)->gso_size;
	struct sk_buff *next;

	far.buffers++;
	if (is_run(skb)) {
		take_run(skb, at, psn);
	} else if (!skb_is_gso(skb)) {
		take(skb, at, skb->len - at, psn);
	} else if (skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST) {
		take(skb, at, skb_pagelen(skb) - at, psn);
		skb_walk_frags(skb, next)
			take(next, 0, next->len, ++psn);
	} else {
		for (; at < skb->len; at += size)
			take(skb, at, min(size, skb->len - at), psn++);
	}
}

static unsigned int hook(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	u32 at = ip_hdrlen(skb);
	struct udphdr header, *udp;

	if (ip_hdr(skb)->protocol != IPPROTO_UDP || ip_is_fragment(ip_hdr(skb)))
		return NF_ACCEPT;
	udp = skb_header_pointer(skb, at, sizeof(header), &header);
	if (!udp || udp->dest != htons(PORT) || udp->source != htons(PORT))
		return NF_ACCEPT;
	take_all(skb, at + sizeof(*udp));
	consume_skb(skb);
	return NF_STOLEN;
}

static const struct nf_hook_ops hooks = {
	.hook = hook,
	.pf = NFPROTO_IPV4,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

static int net_begins(struct net *net)
{
	return nf_register_net_hook(net, &hooks);
}

static void net_ends(struct net *net)
{
	nf_unregister_net_hook(net, &hooks);
}

static struct pernet_operations every_net = { .init = net_begins, .exit = net_ends };

int far_open(u32 bytes, u32 packets)
{
	int rc;

	far.bytes = bytes;
	far.packets = packets;
	far.slots = kvcalloc(packets, bytes + TRAILER, GFP_KERNEL);
	if (!far.slots)
		return -ENOMEM;
	rc = register_pernet_subsys(&every_net);
	if (rc)
		kvfree(far.slots);
	return rc;
}

void far_close(void)
{
	unregister_pernet_subsys(&every_net);
	/* Waits for hooks in progress. */
	synchronize_net();
	kvfree(far.slots);
}

void far_forget(void)
{
	memset(far.slots, 0, (size_t)far.packets * (far.bytes + TRAILER));
}

void far_begin(void)
{
	far.got = 0;
	far.buffers = 0;
	far.wrong = 0;
}

int far_await(u32 *buffers)
{
	unsigned long end = jiffies + 5 * HZ;

	/* They arrived when softirqs were enabled, or ksoftirqd still handles them. */
	while (READ_ONCE(far.got) < far.packets) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		schedule_timeout_uninterruptible(1);
	}
	*buffers = far.buffers;
	return far.wrong || far.got != far.packets ? -EBADMSG : 0;
}
