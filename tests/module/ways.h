/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets as long as RoCE packets that go from one address to another, all equally long, in turns: the same ones
 * each turn, in buffers of one or several. A packet is a transport header, payload from memory that is lent, and a
 * trailer.
 *
 * Functions return 0 or an error. Senders have softirqs switched off.
 */
#ifndef FERROCE_TEST_WAYS_H
#define FERROCE_TEST_WAYS_H

#include <linux/math.h>
#include <linux/mm_types.h>
#include <linux/types.h>

struct net;
struct rtable;
struct sk_buff;

#define PORT 4799
#define TRAILER 4

struct header {
	__be32 magic;
	/* Which packet of its turn; its IPv4 identification, too. */
	__be32 psn;
	/* As long as BTH and what else a packet may have. */
	u8 rest[12];
};

struct flow {
	struct net *net;
	struct rtable *rt;
	__be32 from, to;
	/* Payload of a packet: a part of a page. */
	u32 bytes;
	/* Of a turn. */
	u32 packets;
	/* The payload of a turn, one behind the other. */
	struct page **pages;
	/* Where copies go. */
	struct page_frag piece;
};

struct way {
	const char *name;
	/* Packets that go into a buffer at most. */
	u32 (*most)(const struct flow *flow);
	/* A buffer with n packets, from one on. NULL: no memory. */
	struct sk_buff *(*make)(struct flow *flow, u32 psn, u32 n);
	/* What a device says of itself that takes such a buffer whole. */
	enum { ANY_DEVICE, TAKES_LISTS, TAKES_SEGMENTS } device;
};

#define WAYS 4
extern const struct way ways[WAYS];

static inline u32 packet_bytes(u32 bytes)
{
	return sizeof(struct header) + bytes + TRAILER;
}

/* Pages of the payload of a turn. */
static inline u32 payload_pages(const struct flow *flow)
{
	return DIV_ROUND_UP(flow->packets * flow->bytes, PAGE_SIZE);
}

/* What the payload of a packet lies in, and where. */
struct page *payload(const struct flow *flow, u32 psn, u32 *offset);

/* Header and trailer of a packet. */
struct header header_of(u32 psn);
__le32 trailer_of(u32 psn);

/*
 * The far end of the flow, in whatever namespace that is: takes packets from IP and copies them to memory of its
 * own. One flow at a time.
 */
int far_open(u32 bytes, u32 packets);
void far_close(void);

/* Forgets the bytes it has. */
void far_forget(void);

/* A turn begins. */
void far_begin(void);

/* Until all packets of the turn have come; each must have been what it should be. Tells the buffers they came in. */
int far_await(u32 *buffers);

/* The payload of a packet as it has come, and its trailer behind it. */
u8 *far_bytes(u32 psn);

#endif
