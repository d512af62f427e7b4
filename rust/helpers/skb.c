// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/route.h>

/* How the stack is told of a super-packet, and of a list that leaves the host: rust/rdma/net/super_packet/mod.rs. */
#define SUPER_PACKET (SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_L4 | SKB_GSO_SCTP)
#define OWN_LIST (SUPER_PACKET | SKB_GSO_FRAGLIST)

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

void ferroce_helper_kfree_skb_list(struct sk_buff *first)
{
	kfree_skb_list(first);
}

u32 ferroce_helper_rt_tos2priority(u8 tos)
{
	return rt_tos2priority(tos);
}

/* Appends bytes of a page to the skb, which then refers to the page. Returns -EMSGSIZE if the skb has no room. */
int ferroce_helper_skb_append_page(struct sk_buff *skb, struct page *page, int offset, int len)
{
	int error = skb_append_pagefrags(skb, page, offset, len, MAX_SKB_FRAGS);

	if (!error)
		skb_len_add(skb, len);
	return error;
}

/* Gives packet the fields of the GSO skb that it is a part of, and the outer_len bytes in front of its data. */
void ferroce_helper_skb_copy_outer(struct sk_buff *packet, const struct sk_buff *skb, u32 outer_len)
{
	skb_copy_header(packet, skb);
	skb_gso_reset(packet);
	packet->encapsulation = 0;
	packet->ip_summed = CHECKSUM_NONE;
	memcpy(packet->data - outer_len, skb->data - outer_len, outer_len);
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

/* Returns the address of a page fragment of the skb and its length. NULL if there is none with this index. */
const void *ferroce_helper_skb_frag(const struct sk_buff *skb, u32 index, u32 *len)
{
	const skb_frag_t *frag = &skb_shinfo(skb)->frags[index];

	if (index >= skb_shinfo(skb)->nr_frags)
		return NULL;
	*len = skb_frag_size(frag);
	return skb_frag_address_safe(frag);
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

/* Returns the inner protocol of an skb with the GSO types of a super-packet, 0 for another skb. */
__be16 ferroce_helper_skb_super_packet_protocol(const struct sk_buff *skb)
{
	if (!skb_is_gso(skb) || (skb_shinfo(skb)->gso_type & OWN_LIST) != SUPER_PACKET)
		return 0;
	return skb->inner_protocol;
}

/* Returns the inner protocol of an skb with the GSO types of a list that leaves the host, 0 for another skb. */
__be16 ferroce_helper_skb_own_list_protocol(const struct sk_buff *skb)
{
	if (!skb_is_gso(skb) || (skb_shinfo(skb)->gso_type & OWN_LIST) != OWN_LIST)
		return 0;
	return skb->inner_protocol;
}

/* Passes the destructor of the last skb on the frag_list of from to another skb, unless another skb shares it. */
void ferroce_helper_skb_move_destructor(struct sk_buff *from, struct sk_buff *to)
{
	struct sk_buff *counted = skb_shinfo(from)->frag_list;

	while (counted && counted->next)
		counted = counted->next;
	if (!counted || skb_cloned(from) || skb_shared(counted))
		return;
	swap(counted->destructor, to->destructor);
	skb_shinfo(to)->destructor_arg = skb_shinfo(counted)->destructor_arg;
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

/* Has our own code split the list: describes a tunnel whose inner packet, of that protocol, follows the UDP header. */
void ferroce_helper_skb_set_own_list(struct sk_buff *skb, __be16 protocol)
{
	int inner = skb_transport_offset(skb) + sizeof(struct udphdr);

	skb_set_inner_mac_header(skb, inner);
	skb_set_inner_network_header(skb, inner);
	skb_set_inner_transport_header(skb, inner);
	skb_set_inner_protocol(skb, protocol);
	skb->encapsulation = 1;
	skb->csum_level = SKB_MAX_CSUM_LEVEL;
	skb_shinfo(skb)->gso_type = OWN_LIST;
}

/* Describes a tunnel whose inner packet begins at the data of the skb. */
void ferroce_helper_skb_set_inner(struct sk_buff *skb, __be16 protocol)
{
	skb_reset_inner_mac_header(skb);
	skb_reset_inner_network_header(skb);
	skb_reset_inner_transport_header(skb);
	skb_set_inner_protocol(skb, protocol);
	skb->encapsulation = 1;
}

/* UDP uses up one level of verified checksums; the skb must not look unverified where it is split after that. */
void ferroce_helper_skb_set_super_packet(struct sk_buff *skb, u16 size, u16 segs)
{
	skb->csum_level = SKB_MAX_CSUM_LEVEL;
	skb_shinfo(skb)->gso_type = SUPER_PACKET;
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = segs;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
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
	/* A transformation of the packet looks at the netdev before IP sets it. */
	skb->dev = dst_dev_rcu(dst);
	skb->protocol = protocol;
	skb->priority = priority;
#if defined(CONFIG_XPS) || defined(CONFIG_NET_RX_BUSY_POLL)
	/* XPS selects the queue by CPU; a flow stays on one queue, whichever CPU sends it. */
	skb->sender_cpu = 1 + reciprocal_scale(hash_32((__force u16)udp_hdr(skb)->source, 32),
					       nr_cpu_ids);
#endif
}

/* Returns the bytes in front of the data of an skb that is being segmented as the inside of a tunnel. */
int ferroce_helper_skb_tnl_header_len(const struct sk_buff *skb)
{
	return skb_tnl_header_len(skb);
}

int ferroce_helper_pskb_trim(struct sk_buff *skb, unsigned int len)
{
	return pskb_trim(skb, len);
}
