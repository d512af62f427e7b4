/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two QPs of one device, connected unless they are UD, with a buffer each, and operations of the tests.
 *
 * Functions return 0 or an error; the failing line is already reported.
 */
#ifndef FERROCE_TEST_BENCH_H
#define FERROCE_TEST_BENCH_H

#include "tap.h"

#include <rdma/ib_verbs.h>

#define BYTES (16 * PAGE_SIZE)
/* Length in front of a received datagram. */
#define GRH sizeof(struct ib_grh)
#define QKEY 0x11111111
#define EVERY_RIGHT \
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
	 IB_ACCESS_REMOTE_ATOMIC)

struct end {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	/* Address handle for this device, of a UD QP. */
	struct ib_ah *ah;
	u8 *bytes;
	u64 dma;
};

struct bench {
	struct ib_device *device;
	int gid;
	struct ib_pd *pd;
	struct end a, b;
	/* The SRQ of b, if the test uses one. */
	struct ib_srq *srq;
	u8 seed;
};

struct test {
	const char *name;
	enum ib_qp_type service;
	int (*run)(struct bench *bench);
	/* Number of receives of b's SRQ; 0: b has its own receive queue. */
	u32 shared;
	/*
	 * Completions are handled as they arrive, in softirq, those of b on vector 1; otherwise the test
	 * polls.
	 */
	bool handled;
	/* Number of CPUs that it needs. */
	unsigned int processors;
	/* Whether it makes allocations fail. */
	bool failing;
	/*
	 * Whether softirqs must run as soon as they are enabled. With PREEMPT_RT a thread may run them later; without
	 * PREEMPT_COUNT nothing tells whether the caller holds a spinlock, so the driver does not run them.
	 */
	bool prompt;
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

/* Runs a test with its own QPs. */
int bench_run(struct ib_device *device, int gid, const struct test *test);

/* Returns the address vector of the device itself. */
int way(struct bench *bench, struct rdma_ah_attr *attr);

/* Fills a's buffer with new bytes, and b's with zeros. */
void fresh(struct bench *bench);

/* Waits some seconds for the next completion, which must have that status. */
int completes(struct end *end, enum ib_wc_status status, struct ib_wc *wc);

/* Posts a receive of the first bytes of the buffer. */
int receive(struct end *end, u64 wr_id, u32 length);

/* Sends the first 64 bytes to another end; a datagram uses the end's address handle. */
int send(struct end *end, const struct end *to, u64 wr_id, int flags);

/* Posts one request with the first bytes of the buffer. */
int request(struct end *end, enum ib_wr_opcode opcode, u32 length, u32 ex);

/* Runs an operation on the peer's memory, and checks its status. */
int rdma(struct end *end, enum ib_wr_opcode opcode, struct ib_sge sge, u64 remote, u32 rkey,
	 enum ib_wc_status status);

/* Runs a test with a fast registration MR of b's domain. */
int with_region(struct bench *bench, int (*run)(struct bench *, struct ib_mr *), u32 pages);

/* Maps a range of the end's buffer, and registers it. */
int map(struct end *end, struct ib_mr *mr, u32 offset, u32 length, u32 page_size);

static inline struct ib_sge piece(const struct end *end, u32 offset, u32 length)
{
	return (struct ib_sge){ end->dma + offset, length, end->pd->local_dma_lkey };
}

#endif
