/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets of the length of RoCE packets from one address to another, all equally long, sent in turns: the
 * same packets in each turn, one or several in a buffer. A packet consists of a transport header, payload
 * from referenced pages, and a trailer.
 *
 * Functions return 0 or an error. Senders have softirqs disabled.
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
	/* Number of the packet in its turn; its IPv4 identification, too. */
	__be32 psn;
	/* As long as a BTH and an extended header. */
	u8 rest[12];
};

struct flow {
	struct net *net;
	struct rtable *rt;
	__be32 from, to;
	/* Payload of a packet: a part of a page. */
	u32 bytes;
	/* Packets of a turn. */
	u32 packets;
	/* The payload of a turn, contiguous. */
	struct page **pages;
	/* Destination of copies. */
	struct page_frag piece;
};

/* The private type of what is inside a UDP header that stands for a run of packets; an experimental Ethertype. */
#define ETH_P_RUN 0x88b5

struct way {
	const char *name;
	/* Maximum number of packets in a buffer. */
	u32 (*most)(const struct flow *flow);
	/* Returns a buffer with n packets, starting with psn. NULL: no memory. */
	struct sk_buff *(*make)(struct flow *flow, u32 psn, u32 n);
	/* The device feature that lets such a buffer pass whole. */
	enum { ANY_DEVICE, TAKES_LISTS, TAKES_SEGMENTS, TAKES_RUNS } device;
};

#define WAYS 6
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

/* Returns the page and offset of a packet's payload. */
struct page *payload(const struct flow *flow, u32 psn, u32 *offset);

/* Header of a packet. */
struct header header_of(u32 psn);

/* Trailer of a packet with this payload: a checksum of it and of the header, as the ICRC is. */
__le32 trailer_of(u32 psn, const void *payload, u32 bytes);

/*
 * A run: one buffer with one header, for several packets, and their payload without trailers. A device that
 * cannot take it has it cut into packets by run_begin's part of the stack.
 */
struct sk_buff *make_run(struct flow *flow, u32 psn, u32 n);
bool is_run(const struct sk_buff *skb);
int run_begin(void);
void run_end(void);

/* Prepends UDP and IP headers. */
void seal(const struct flow *flow, struct sk_buff *skb, u32 psn);

/* Allocates a buffer that begins with a transport header. */
struct sk_buff *begin(u32 psn);

/* Appends a copy of the bytes, in large pieces, as sockets do. */
bool append_copy(struct flow *flow, struct sk_buff *skb, const void *bytes, u32 len);

/*
 * The far end of the flow, in any namespace: receives packets from IP and copies them to its own memory. One
 * flow at a time.
 */
int far_open(u32 bytes, u32 packets);
void far_close(void);

/* Clears the received bytes. */
void far_forget(void);

/* Begins a turn. */
void far_begin(void);

/* Waits until all packets of the turn have arrived; each must be correct. Returns the number of buffers. */
int far_await(u32 *buffers);

/* Returns the received payload of a packet, followed by its trailer. */
u8 *far_bytes(u32 psn);

#endif
