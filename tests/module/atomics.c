// SPDX-License-Identifier: GPL-2.0
/* Atomic operations of a ULP, with results in any number of SGEs of any length. */

#include "bench.h"

#define COUNTER 64
#define RESULT 8
#define UNTOUCHED 0xa5

struct shape {
	u32 pieces, length;
	bool room;
};

/* SGEs longer than the result and than a packet; shorter than the result; and too many. */
static const struct shape shapes[] = {
	{ 1, 8, true }, { 2, 4, true }, { 8, 1, true }, { 3, 3, true }, { 1, 5000, true },
	{ 8, 8, true }, { 32, 2000, true }, { 1, 7, false }, { 7, 1, false }, { 2, 0, false },
	{ 0, 0, false }, { 33, 8, false },
};

/* Returns the offset of a byte of the result; the SGEs are in reverse order. */
static u32 place(const struct shape *shape, u32 byte)
{
	u32 piece = byte / shape->length;

	return (shape->pieces - 1 - piece) * shape->length + byte % shape->length;
}

static int post(struct bench *bench, struct ib_mr *mr, const struct shape *shape, enum ib_wr_opcode opcode,
		u64 compare_add, u64 swap)
{
	struct ib_sge sges[33];
	struct ib_atomic_wr wr = {
		.wr = {
			.sg_list = sges,
			.num_sge = shape->pieces,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = mr->iova + COUNTER,
		.rkey = mr->rkey,
		.compare_add = compare_add,
		.swap = swap,
	};
	u32 i;

	for (i = 0; i < shape->pieces; i++)
		sges[i] = piece(&bench->a, (shape->pieces - 1 - i) * shape->length, shape->length);
	return ib_post_send(bench->a.qp, &wr.wr, NULL);
}

/* Checks that the SGEs hold the old value of the counter, and clears them. */
static int told(struct bench *bench, const struct shape *shape, u64 was)
{
	const u8 *bytes = (const u8 *)&was;
	u32 i;

	for (i = 0; i < RESULT; i++) {
		u32 at = place(shape, i);

		equal(bench->a.bytes[at], bytes[i]);
		bench->a.bytes[at] = UNTOUCHED;
	}
	return 0;
}

/* Runs one operation, which must be executed once or refused. */
static int once(struct bench *bench, struct ib_mr *mr, const struct shape *shape, enum ib_wr_opcode opcode)
{
	bool adds = opcode == IB_WR_ATOMIC_FETCH_AND_ADD;
	u64 *counter = (u64 *)(bench->b.bytes + COUNTER);
	u64 was = READ_ONCE(*counter);
	int rc;

	memset(bench->a.bytes, UNTOUCHED, BYTES);
	rc = post(bench, mr, shape, opcode, adds ? 3 : was, was + 3);
	equal(rc == 0, shape->room);
	if (!rc) {
		must(completes(&bench->a, IB_WC_SUCCESS, NULL));
		must(told(bench, shape, was));
	}
	equal(memchr_inv(bench->a.bytes, UNTOUCHED, BYTES), NULL);
	equal(READ_ONCE(*counter), rc ? was : was + 3);
	return 0;
}

/* The next request uses the next PSN, and no duplicate completion is left. */
static int in_step(struct bench *bench)
{
	struct ib_wc wc;

	must(receive(&bench->b, 5, COUNTER));
	must(request(&bench->a, IB_WR_SEND, COUNTER, 0));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, &wc));
	equal(wc.wr_id, 5);
	equal(ib_poll_cq(bench->a.cq, 1, &wc), 0);
	equal(ib_poll_cq(bench->b.cq, 1, &wc), 0);
	return 0;
}

static int any_pieces_of(struct bench *bench, struct ib_mr *mr)
{
	u64 *counter = (u64 *)(bench->b.bytes + COUNTER);
	u64 wanted = 0x0123456789abcdefULL;
	int i;

	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	WRITE_ONCE(*counter, wanted);
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		must(once(bench, mr, &shapes[i], IB_WR_ATOMIC_FETCH_AND_ADD));
		must(in_step(bench));
		must(once(bench, mr, &shapes[i], IB_WR_ATOMIC_CMP_AND_SWP));
		must(in_step(bench));
		wanted += shapes[i].room ? 6 : 0;
		equal(READ_ONCE(*counter), wanted);
	}
	return 0;
}

static int any_pieces(struct bench *bench)
{
	return with_region(bench, any_pieces_of, 1);
}

/* Several operations at once, without waiting, with SGEs longer than a packet in total. */
static int many_at_once_of(struct bench *bench, struct ib_mr *mr)
{
	const struct shape shape = { 4, 700, true };
	u64 *counter = (u64 *)(bench->b.bytes + COUNTER);
	int i;

	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	WRITE_ONCE(*counter, 0);
	for (i = 0; i < 50; i++)
		must(post(bench, mr, &shape, IB_WR_ATOMIC_FETCH_AND_ADD, 1, 0));
	for (i = 0; i < 50; i++)
		must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(in_step(bench));
	equal(READ_ONCE(*counter), 50);
	return 0;
}

static int many_at_once(struct bench *bench)
{
	return with_region(bench, many_at_once_of, 1);
}

const struct test atomic_tests[] = {
	{ "an atomic operation executes once with any valid SGEs, and is refused with others", IB_QPT_RC, any_pieces },
	{ "many atomic operations in flight execute once each", IB_QPT_RC, many_at_once },
	{}
};
