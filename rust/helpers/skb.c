// SPDX-License-Identifier: GPL-2.0

#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/route.h>

void ferroce_helper_consume_skb(struct sk_buff *skb)
{
	consume_skb(skb);
}

int ferroce_helper_ip_local_out(struct sk_buff *skb)
{
	return ip_local_out(skb_dst_dev_net_rcu(skb), NULL, skb);
}

int ferroce_helper_ip6_local_out(struct sk_buff *skb)
{
	return ip6_local_out(skb_dst_dev_net_rcu(skb), NULL, skb);
}

u32 ferroce_helper_rt_tos2priority(u8 tos)
{
	return rt_tos2priority(tos);
}

/* Releases the socket, route, conntrack entry, extensions and netdev of the skb. */
void ferroce_helper_skb_detach(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_dst_drop(skb);
	nf_reset_ct(skb);
	skb_ext_reset(skb);
	skb->dev = NULL;
}

/* Makes the skb a single packet for the stack. If that fails for lack of memory, frees the skb and returns false. */
bool ferroce_helper_skb_forget_gso(struct sk_buff *skb)
{
	if (!skb_is_gso(skb))
		return true;
	if (skb_unclone(skb, GFP_ATOMIC)) {
		kfree_skb_reason(skb, SKB_DROP_REASON_NOMEM);
		return false;
	}
	skb_gso_reset(skb);
	return true;
}

void *ferroce_helper_skb_destructor_arg(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->destructor_arg;
}

struct net_device *ferroce_helper_skb_dev(const struct sk_buff *skb)
{
	return skb->dev;
}

int ferroce_helper_skb_iif(const struct sk_buff *skb)
{
	return skb->skb_iif;
}

u16 ferroce_helper_skb_gso_size(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->gso_size;
}

/* Returns the packets after the first one. NULL if the skb is not GSO: its frag_list may hold IP fragments then. */
const struct sk_buff *ferroce_helper_skb_packet_list(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->frag_list : NULL;
}

/* Returns the number of packets in the skb. */
u16 ferroce_helper_skb_packets(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
}

unsigned int ferroce_helper_skb_pagelen(const struct sk_buff *skb)
{
	return skb_pagelen(skb);
}

/* Returns whether the skb is a GSO list: one packet per skb on the frag_list. */
bool ferroce_helper_skb_is_list(const struct sk_buff *skb)
{
	return skb_is_gso(skb) && (skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST);
}

void *ferroce_helper_skb_network_header(const struct sk_buff *skb)
{
	return skb_network_header(skb);
}

/* Appends skb to the frag_list of head; last is the last one on it, or NULL. */
void ferroce_helper_skb_list_add(struct sk_buff *head, struct sk_buff *last, struct sk_buff *skb)
{
	if (last)
		last->next = skb;
	else
		skb_shinfo(head)->frag_list = skb;
	head->len += skb->len;
	head->data_len += skb->len;
	head->truesize += skb->truesize;
}

void ferroce_helper_skb_queue_head_init(struct sk_buff_head *list)
{
	skb_queue_head_init(list);
}

u32 ferroce_helper_skb_queue_len_lockless(const struct sk_buff_head *list)
{
	return skb_queue_len_lockless(list);
}

void ferroce_helper_skb_reserve(struct sk_buff *skb, int len)
{
	skb_reserve(skb, len);
}

void ferroce_helper_skb_set_destructor(struct sk_buff *skb,
				       void (*destructor)(struct sk_buff *), void *arg)
{
	skb_shinfo(skb)->destructor_arg = arg;
	skb->destructor = destructor;
}

void ferroce_helper_skb_set_gso_list(struct sk_buff *skb, u16 size, u16 segs, __be16 udp_len)
{
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = segs;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	udp_hdr(skb)->len = udp_len;
}

void ferroce_helper_skb_set_headers(struct sk_buff *skb, int transport_offset)
{
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, transport_offset);
}

void ferroce_helper_skb_set_output(struct sk_buff *skb, struct dst_entry *dst, __be16 protocol,
				   u32 priority)
{
	skb_dst_set_noref(skb, dst);
	skb->protocol = protocol;
	skb->priority = priority;
}
