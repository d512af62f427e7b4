// SPDX-License-Identifier: GPL-2.0
/*
 * A run of packets in one buffer: the headers of the first packet, and the payload of all. The buffer is
 * described to the stack as a UDP tunnel with an inner protocol of our own, so the stack itself never cuts it:
 * a device that cannot take it whole makes the stack call cut_run, and the packets are made only then. As
 * only software devices have NETIF_F_GSO_SCTP, no other takes it.
 */

#include "ways.h"

#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/gso.h>

/* UDP gives it whole only to sockets that ask for SKB_GSO_UDP_L4. */
#define RUN (SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_L4 | SKB_GSO_SCTP)

bool is_run(const struct sk_buff *skb)
{
	return skb_is_gso(skb) && skb->encapsulation && (skb_shinfo(skb)->gso_type & RUN) == RUN &&
	       skb->inner_protocol == htons(ETH_P_RUN);
}

struct sk_buff *make_run(struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *skb = begin(psn);
	struct page *page;
	u32 k, offset;

	if (!skb)
		return NULL;
	for (k = 0; k < n; k++) {
		page = payload(flow, psn + k, &offset);
		if (!append_copy(flow, skb, page_address(page) + offset, flow->bytes)) {
			kfree_skb(skb);
			return NULL;
		}
	}
	if (n > 1) {
		skb_reset_inner_mac_header(skb);
		skb_reset_inner_network_header(skb);
		skb_reset_inner_transport_header(skb);
		skb_set_inner_protocol(skb, htons(ETH_P_RUN));
		skb->encapsulation = 1;
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		skb->csum_level = SKB_MAX_CSUM_LEVEL;
		skb_shinfo(skb)->gso_type = RUN;
		skb_shinfo(skb)->gso_size = packet_bytes(flow->bytes);
		skb_shinfo(skb)->gso_segs = n;
	} else {
		__le32 trailer = trailer_of(psn, page_address(page) + offset, flow->bytes);

		if (!append_copy(flow, skb, &trailer, TRAILER)) {
			kfree_skb(skb);
			return NULL;
		}
	}
	seal(flow, skb, psn);
	return skb;
}

/* Makes a packet of a run: its payload is n bytes at an offset of the buffer. */
static struct sk_buff *cut_packet(const struct sk_buff *skb, u32 psn, u32 at, u32 n)
{
	u32 room = skb_headroom(skb), outer = skb_tnl_header_len(skb);
	struct sk_buff *packet = alloc_skb(room + packet_bytes(n), GFP_ATOMIC | __GFP_NOWARN);
	__le32 trailer;
	void *bytes;

	if (!packet)
		return NULL;
	skb_reserve(packet, room);
	skb_copy_header(packet, skb);
	skb_shinfo(packet)->gso_size = 0;
	skb_shinfo(packet)->gso_segs = 0;
	skb_shinfo(packet)->gso_type = 0;
	packet->ip_summed = CHECKSUM_NONE;
	memcpy(packet->data - outer, skb->data - outer, outer);
	*(struct header *)skb_put(packet, sizeof(struct header)) = header_of(psn);
	bytes = skb_put(packet, n);
	if (skb_copy_bits(skb, at, bytes, n)) {
		kfree_skb(packet);
		return NULL;
	}
	trailer = trailer_of(psn, bytes, n);
	skb_put_data(packet, &trailer, TRAILER);
	return packet;
}

/* Called with the data at the first byte after the UDP header. */
static struct sk_buff *cut_run(struct sk_buff *skb, netdev_features_t features)
{
	u32 size = skb_shinfo(skb)->gso_size - packet_bytes(0), at = sizeof(struct header), n, psn;
	struct sk_buff *first = NULL, **end = &first, *packet = NULL;

	if (!pskb_may_pull(skb, sizeof(struct header)))
		return ERR_PTR(-EINVAL);
	psn = ntohl(((struct header *)skb->data)->psn);
	for (; at < skb->len; at += n, psn++) {
		n = min(size, skb->len - at);
		packet = cut_packet(skb, psn, at, n);
		if (!packet) {
			kfree_skb_list(first);
			return ERR_PTR(-ENOMEM);
		}
		*end = packet;
		end = &packet->next;
	}
	if (first)
		first->prev = packet;
	return first;
}

static struct packet_offload offload = {
	.type = htons(ETH_P_RUN),
	.callbacks = { .gso_segment = cut_run },
};

int run_begin(void)
{
	dev_add_offload(&offload);
	return 0;
}

void run_end(void)
{
	dev_remove_offload(&offload);
}
