/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two queue pairs of one device, connected unless they send datagrams, with a buffer each, and what tests do
 * with them.
 *
 * Functions return 0 or an error, which they have reported with its line.
 */
#ifndef FERROCE_TEST_BENCH_H
#define FERROCE_TEST_BENCH_H

#include "tap.h"

#include <rdma/ib_verbs.h>

#define BYTES (16 * PAGE_SIZE)
/* What is in front of a received datagram. */
#define GRH sizeof(struct ib_grh)
#define QKEY 0x11111111
#define EVERY_RIGHT \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC)

struct end {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	/* The way to this device, if it sends datagrams. */
	struct ib_ah *ah;
	u8 *bytes;
	u64 dma;
};

struct bench {
	struct ib_device *device;
	int gid;
	struct ib_pd *pd;
	struct end a, b;
	/* Where the receives of b come from, if the test wants a shared queue. */
	struct ib_srq *srq;
	u8 seed;
};

struct test {
	const char *name;
	enum ib_qp_type service;
	int (*run)(struct bench *bench);
	/* Receives that a shared queue of b holds; 0: it has a queue of its own. */
	u32 shared;
	/* Completions are handled as they come, in softirq, those of b on vector 1; otherwise the test polls. */
	bool handled;
	/* Processors that it takes. */
	unsigned int processors;
	/* It makes allocations fail. */
	bool failing;
};

extern const struct test registration_tests[];
extern const struct test queue_tests[];
extern const struct test inline_tests[];
extern const struct test handled_tests[];
extern const struct test datagram_tests[];
extern const struct test atomic_tests[];
extern const struct test end_tests[];
extern const struct test error_tests[];
extern const struct test memory_tests[];

/* Runs the test with queue pairs of its own. */
int bench_run(struct ib_device *device, int gid, const struct test *test);

/* The way to the device itself. */
int way(struct bench *bench, struct rdma_ah_attr *attr);

/* Puts bytes into a's buffer that nobody has put there before, and zeros into b's. */
void fresh(struct bench *bench);

/* The next completion, within some seconds; it must have that status. */
int completes(struct end *end, enum ib_wc_status status, struct ib_wc *wc);

/* A receive of the first bytes of the buffer. */
int receive(struct end *end, u64 wr_id, u32 length);

/* A message of the first 64 bytes to another end; a datagram goes the way of the end. */
int send(struct end *end, const struct end *to, u64 wr_id, int flags);

/* One request whose data is the first bytes of the buffer. */
int request(struct end *end, enum ib_wr_opcode opcode, u32 length, u32 ex);

/* An operation on the peer's memory, and how it ends. */
int rdma(struct end *end, enum ib_wr_opcode opcode, struct ib_sge sge, u64 remote, u32 rkey,
	 enum ib_wc_status status);

/* Runs a test with a region for fast registration of b's. */
int with_region(struct bench *bench, int (*run)(struct bench *, struct ib_mr *), u32 pages);

/* Lists one run of bytes of the end's buffer, and registers it. */
int map(struct end *end, struct ib_mr *mr, u32 offset, u32 length, u32 page_size);

static inline struct ib_sge piece(const struct end *end, u32 offset, u32 length)
{
	return (struct ib_sge){ end->dma + offset, length, end->pd->local_dma_lkey };
}

#endif
