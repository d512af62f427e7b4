// SPDX-License-Identifier: GPL-2.0
/* The ways of putting packets into buffers. */

#include "ways.h"

#include <linux/crc32.h>
#include <linux/ip.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/udp.h>

/* As in rust/rdma/net/tx/skb.rs. */
#define ROOM (LL_MAX_HEADER + 48 + 48)
#define MOST 64
#define MAGIC 0x0a110e57
#define GFP (GFP_ATOMIC | __GFP_NOWARN)

struct header header_of(u32 psn)
{
	return (struct header){ .magic = htonl(MAGIC), .psn = htonl(psn) };
}

__le32 trailer_of(u32 psn, const void *payload, u32 bytes)
{
	struct header header = header_of(psn);

	return cpu_to_le32(~crc32_le(crc32_le(~0, (u8 *)&header, sizeof(header)), payload, bytes));
}

void seal(const struct flow *flow, struct sk_buff *skb, u32 psn)
{
	u16 len = skb->len + sizeof(struct udphdr);
	struct udphdr *udp = skb_push(skb, sizeof(*udp));
	struct iphdr *ip = skb_push(skb, sizeof(*ip));

	*udp = (struct udphdr){
		.source = htons(PORT),
		.dest = htons(PORT),
		.len = htons(len),
	};
	*ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.id = htons(psn),
		.frag_off = htons(IP_DF),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = flow->from,
		.daddr = flow->to,
	};
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, sizeof(*ip));
}

/* The packets are segments of the buffer. */
static void seal_segments(const struct flow *flow, struct sk_buff *skb, u32 psn, u32 n)
{
	struct udphdr *udp;

	seal(flow, skb, psn);
	udp = udp_hdr(skb);
	udp->check = ~udp_v4_check(ntohs(udp->len), flow->from, flow->to, 0);
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	skb->ip_summed = CHECKSUM_PARTIAL;
	if (n == 1)
		return;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_size = packet_bytes(flow->bytes);
	skb_shinfo(skb)->gso_segs = n;
}

struct sk_buff *begin(u32 psn)
{
	struct sk_buff *skb = alloc_skb(ROOM + sizeof(struct header), GFP);

	if (!skb)
		return NULL;
	skb_reserve(skb, ROOM);
	*(struct header *)skb_put(skb, sizeof(struct header)) = header_of(psn);
	return skb;
}

struct page *payload(const struct flow *flow, u32 psn, u32 *offset)
{
	u32 at = psn * flow->bytes;

	*offset = offset_in_page(at);
	return flow->pages[at >> PAGE_SHIFT];
}

static void lend(const struct flow *flow, struct sk_buff *skb, u32 psn)
{
	u32 offset;
	struct page *page = payload(flow, psn, &offset);

	get_page(page);
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, offset, flow->bytes, flow->bytes);
}

/* Appends the trailer of a packet and, unless it is the last one, the header of the next. */
static bool part(const struct flow *flow, struct sk_buff *skb, u32 psn, bool last)
{
	u32 offset, len = TRAILER + (last ? 0 : sizeof(struct header));
	struct page *page = payload(flow, psn, &offset);
	__le32 trailer = trailer_of(psn, page_address(page) + offset, flow->bytes);
	struct header next = header_of(psn + 1);
	u8 *bytes = netdev_alloc_frag(len);

	if (!bytes)
		return false;
	memcpy(bytes, &trailer, TRAILER);
	if (!last)
		memcpy(bytes + TRAILER, &next, sizeof(next));
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, virt_to_page(bytes), offset_in_page(bytes), len,
			len);
	return true;
}

static struct sk_buff *make_plain(struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *skb = begin(psn);

	if (!skb)
		return NULL;
	lend(flow, skb, psn);
	if (!part(flow, skb, psn, true)) {
		kfree_skb(skb);
		return NULL;
	}
	seal(flow, skb, psn);
	return skb;
}

/* A packet whose payload is copied into its own memory. */
static struct sk_buff *make_plain_copied(struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *skb = alloc_skb(ROOM + packet_bytes(flow->bytes), GFP);
	u32 offset;
	struct page *page = payload(flow, psn, &offset);
	__le32 trailer;
	void *bytes;

	if (!skb)
		return NULL;
	skb_reserve(skb, ROOM);
	*(struct header *)skb_put(skb, sizeof(struct header)) = header_of(psn);
	bytes = skb_put_data(skb, page_address(page) + offset, flow->bytes);
	trailer = trailer_of(psn, bytes, flow->bytes);
	skb_put_data(skb, &trailer, TRAILER);
	seal(flow, skb, psn);
	return skb;
}

typedef struct sk_buff *(*make_fn)(struct flow *flow, u32 psn, u32 n);

static struct sk_buff *make_list_of(make_fn make, struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *first = make(flow, psn, 1), **end, *skb;
	u32 k;

	if (!first || n == 1)
		return first;
	end = &skb_shinfo(first)->frag_list;
	for (k = 1; k < n; k++) {
		skb = make(flow, psn + k, 1);
		if (!skb) {
			kfree_skb(first);
			return NULL;
		}
		skb_pull(skb, sizeof(struct iphdr) + sizeof(struct udphdr));
		*end = skb;
		end = &skb->next;
		first->len += skb->len;
		first->data_len += skb->len;
		first->truesize += skb->truesize;
	}
	skb_shinfo(first)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	skb_shinfo(first)->gso_size = packet_bytes(flow->bytes);
	skb_shinfo(first)->gso_segs = n;
	first->ip_summed = CHECKSUM_UNNECESSARY;
	udp_hdr(first)->len = htons(sizeof(struct udphdr) + n * packet_bytes(flow->bytes));
	return first;
}

static struct sk_buff *make_list(struct flow *flow, u32 psn, u32 n)
{
	return make_list_of(make_plain, flow, psn, n);
}

static struct sk_buff *make_list_copied(struct flow *flow, u32 psn, u32 n)
{
	return make_list_of(make_plain_copied, flow, psn, n);
}

static struct sk_buff *make_lent(struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *skb = begin(psn);
	u32 k;

	if (!skb)
		return NULL;
	for (k = 0; k < n; k++) {
		lend(flow, skb, psn + k);
		if (!part(flow, skb, psn + k, k + 1 == n)) {
			kfree_skb(skb);
			return NULL;
		}
	}
	seal_segments(flow, skb, psn, n);
	return skb;
}

bool append_copy(struct flow *flow, struct sk_buff *skb, const void *bytes, u32 len)
{
	struct page_frag *piece = &flow->piece;
	u32 n;
	int i;

	for (; len; len -= n, bytes += n) {
		if (!skb_page_frag_refill(32, piece, GFP))
			return false;
		n = min(len, piece->size - piece->offset);
		memcpy(page_address(piece->page) + piece->offset, bytes, n);
		i = skb_shinfo(skb)->nr_frags;
		if (skb_can_coalesce(skb, i, piece->page, piece->offset)) {
			skb_coalesce_rx_frag(skb, i - 1, n, n);
		} else if (i < MAX_SKB_FRAGS) {
			get_page(piece->page);
			skb_add_rx_frag(skb, i, piece->page, piece->offset, n, n);
		} else {
			return false;
		}
		piece->offset += n;
	}
	return true;
}

static bool copy_packet(struct flow *flow, struct sk_buff *skb, u32 psn)
{
	struct header header = header_of(psn);
	u32 offset;
	struct page *page = payload(flow, psn, &offset);
	void *bytes = page_address(page) + offset;
	__le32 trailer = trailer_of(psn, bytes, flow->bytes);

	return append_copy(flow, skb, &header, sizeof(header)) &&
	       append_copy(flow, skb, bytes, flow->bytes) &&
	       append_copy(flow, skb, &trailer, TRAILER);
}

static struct sk_buff *make_copied(struct flow *flow, u32 psn, u32 n)
{
	struct sk_buff *skb = alloc_skb(ROOM, GFP);
	u32 k;

	if (!skb)
		return NULL;
	skb_reserve(skb, ROOM);
	for (k = 0; k < n; k++) {
		if (!copy_packet(flow, skb, psn + k)) {
			kfree_skb(skb);
			return NULL;
		}
	}
	seal_segments(flow, skb, psn, n);
	return skb;
}

static u32 one(const struct flow *flow)
{
	return 1;
}

/* Limited by the length field of an IPv4 packet. */
static u32 by_length(const struct flow *flow)
{
	u32 room = U16_MAX - sizeof(struct iphdr) - sizeof(struct udphdr);

	return min(MOST, room / packet_bytes(flow->bytes));
}

/* Each packet takes one fragment for its payload, and one for its trailer. */
static u32 by_fragments(const struct flow *flow)
{
	return min(by_length(flow), MAX_SKB_FRAGS / 2);
}

const struct way ways[WAYS] = {
	{ "one by one", one, make_plain, ANY_DEVICE },
	{ "list", by_length, make_list, TAKES_LISTS },
	{ "list, copied", by_length, make_list_copied, TAKES_LISTS },
	{ "segments, lent", by_fragments, make_lent, TAKES_SEGMENTS },
	{ "segments, copied", by_length, make_copied, TAKES_SEGMENTS },
	{ "one header", by_length, make_run, TAKES_RUNS },
};
