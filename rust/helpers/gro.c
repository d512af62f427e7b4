// SPDX-License-Identifier: GPL-2.0

#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/gro.h>

/*
 * Returns the headers of a packet in gro_receive(): len bytes at the offset of GRO, and the before bytes in front of
 * them, where the result points to. NULL if the packet is shorter.
 */
const void *ferroce_helper_gro_headers(struct sk_buff *skb, u32 before, u32 len)
{
	u32 offset = skb_gro_offset(skb) - before;

	return skb_gro_header(skb, offset + before + len, offset);
}

/* Returns the length of the packet from the offset of GRO on. */
u32 ferroce_helper_gro_len(const struct sk_buff *skb)
{
	return skb_gro_len(skb);
}

/* Returns whether no layer has excluded the packet, and it is one packet. */
bool ferroce_helper_gro_is_plain(const struct sk_buff *skb)
{
	return !NAPI_GRO_CB(skb)->flush && !skb_is_gso(skb) && !skb_has_frag_list(skb);
}

/* Passes the packet on at once. */
void ferroce_helper_gro_set_flush(struct sk_buff *skb)
{
	NAPI_GRO_CB(skb)->flush = 1;
}

/*
 * Has GRO complete the held packet as a list. Clears the mark of a tunnel, without which GRO would ask the socket to
 * complete it.
 */
void ferroce_helper_gro_set_list(struct sk_buff *skb)
{
	NAPI_GRO_CB(skb)->encap_mark = 0;
	NAPI_GRO_CB(skb)->is_flist = 1;
}

bool ferroce_helper_gro_is_list(const struct sk_buff *held)
{
	return NAPI_GRO_CB(held)->is_flist;
}

/* Moves len bytes from the offset of GRO on, and all before them, to the linear part. Returns false if it cannot. */
bool ferroce_helper_gro_pull(struct sk_buff *skb, u32 len)
{
	return pskb_may_pull(skb, skb_gro_offset(skb) + len);
}

/* Returns the first held packet, or the one after held; NULL if there is none. */
struct sk_buff *ferroce_helper_gro_next_held(struct list_head *head, struct sk_buff *held)
{
	struct list_head *next = held ? held->list.next : head->next;

	return list_is_head(next, head) ? NULL : list_entry(next, struct sk_buff, list);
}

bool ferroce_helper_gro_same_flow(const struct sk_buff *held)
{
	return NAPI_GRO_CB(held)->same_flow;
}

u16 ferroce_helper_gro_count(const struct sk_buff *held)
{
	return NAPI_GRO_CB(held)->count;
}

/* Returns the last packet that was joined to held, or NULL. */
struct sk_buff *ferroce_helper_gro_last_joined(struct sk_buff *held)
{
	struct sk_buff *last = NAPI_GRO_CB(held)->last;

	return last == held ? NULL : last;
}

/*
 * Returns the first len bytes after the UDP header of the last packet that was joined to held, or of held itself if
 * last is NULL. Returns NULL if they are not in its linear part.
 */
const void *ferroce_helper_gro_last_payload(const struct sk_buff *held, const struct sk_buff *last, u32 len)
{
	const struct sk_buff *skb = last ?: held;
	u32 offset = last ? 0 : skb_transport_offset(held) + sizeof(struct udphdr);

	return skb_headlen(skb) < offset + len ? NULL : skb->data + offset;
}

/*
 * Returns whether the IP headers allow the packet to be joined to held: what IP changes when it splits them again is as
 * it was. transport is the packet's header that follows its IP header.
 */
bool ferroce_helper_gro_ip_matches(struct sk_buff *held, const void *transport)
{
	return !gro_receive_network_flush(transport, skb_transport_header(held), held);
}

/*
 * Joins skb to held, behind last, if that is not NULL. The data of skb begins at the offset of GRO then. If skb has a
 * socket, GRO has made sure that it is that of held, which takes over what the socket is charged.
 */
void ferroce_helper_gro_join(struct sk_buff *held, struct sk_buff *last, struct sk_buff *skb)
{
	skb->destructor = NULL;
	skb->sk = NULL;
	skb_pull(skb, skb_gro_offset(skb));
	if (last)
		last->next = skb;
	else
		skb_shinfo(held)->frag_list = skb;
	NAPI_GRO_CB(held)->last = skb;
	NAPI_GRO_CB(held)->count++;
	NAPI_GRO_CB(skb)->same_flow = 1;
}

/* Adds the size of skb, which was joined to held. */
void ferroce_helper_gro_account(struct sk_buff *held, const struct sk_buff *skb)
{
	skb_shinfo(held)->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
	if (NAPI_GRO_CB(held)->ip_fixedid & 1)
		skb_shinfo(held)->gso_type |= SKB_GSO_TCP_FIXEDID;
	held->data_len += skb->len;
	held->len += skb->len;
	held->truesize += skb->truesize;
}
