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

/* How the stack is told of a super-packet: rust/rdma/net/super_packet/mod.rs. */
#define SUPER_PACKET (SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_L4 | SKB_GSO_SCTP)

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

/* Appends bytes to the page fragments of packet. */
int ferroce_helper_skb_add_trailer(struct sk_buff *packet, const void *bytes, u32 len)
{
	void *to = netdev_alloc_frag(len);
	struct page *page;

	if (!to)
		return -ENOMEM;
	memcpy(to, bytes, len);
	page = virt_to_head_page(to);
	/* The allocation is rounded up. */
	skb_add_rx_frag(packet, skb_shinfo(packet)->nr_frags, page, to - page_address(page), len,
			SKB_DATA_ALIGN(len));
	return 0;
}

/* Returns whether page fragments of the skb, few enough for another skb, have all of the len bytes at that offset. */
bool ferroce_helper_skb_can_share(const struct sk_buff *skb, u32 at, u32 len)
{
	u32 start = skb_headlen(skb), end = at + len, shared = 0;
	int i;

	if (at < start || skb->pp_recycle)
		return false;
	for (i = 0; i < skb_shinfo(skb)->nr_frags && start < end; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		start += skb_frag_size(frag);
		if (start <= at)
			continue;
		if (!skb_frag_page(frag))
			return false;
		shared++;
	}
	return start >= end && shared < MAX_SKB_FRAGS;
}

/* Appends the len bytes at that offset to packet, which then refers to the pages. The skb can share them. */
void ferroce_helper_skb_share(struct sk_buff *packet, const struct sk_buff *skb, u32 at, u32 len)
{
	u32 start = skb_headlen(skb);
	int i;

	for (i = 0; i < skb_shinfo(skb)->nr_frags && len; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 offset, part, size = skb_frag_size(frag);

		if (start + size > at) {
			offset = at - start;
			part = min(len, size - offset);
			get_page(skb_frag_page(frag));
			skb_add_rx_frag(packet, skb_shinfo(packet)->nr_frags, skb_frag_page(frag),
					skb_frag_off(frag) + offset, part, part);
			at += part;
			len -= part;
		}
		start += size;
	}
	skb_shinfo(packet)->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
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

/* Returns the number of packets in the skb. */
u16 ferroce_helper_skb_packets(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
}

/* Returns the inner protocol of an skb with the GSO types of a super-packet, 0 for another skb. */
__be16 ferroce_helper_skb_super_packet_protocol(const struct sk_buff *skb)
{
	const u32 types = SUPER_PACKET | SKB_GSO_FRAGLIST;

	if (!skb_is_gso(skb) || (skb_shinfo(skb)->gso_type & types) != SUPER_PACKET)
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

/* Returns whether a device with these features takes page fragments. */
bool ferroce_helper_takes_fragments(netdev_features_t features)
{
	return features & NETIF_F_SG;
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

/*
 * Describes a tunnel with an inner packet of that protocol at an offset of the data, of segs packets of at most size
 * bytes. UDP uses up one level of verified checksums; the skb must not look unverified where it is split after that.
 */
void ferroce_helper_skb_set_super_packet(struct sk_buff *skb, __be16 protocol, int inner, u16 size,
					 u16 segs)
{
	skb_set_inner_mac_header(skb, inner);
	skb_set_inner_network_header(skb, inner);
	skb_set_inner_transport_header(skb, inner);
	skb_set_inner_protocol(skb, protocol);
	skb->encapsulation = 1;
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
