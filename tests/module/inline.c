// SPDX-License-Identifier: GPL-2.0
/* Inline data of requests. */

#include "bench.h"

#include <linux/bottom_half.h>
#include <linux/slab.h>

/* More than the device grants. */
#define MOST 4096
#define NO_KEY 0xdead00

/* Posts a request, and overwrites its data before it can be sent. */
static int post_and_spoil(struct end *end, const struct ib_send_wr *wr, u8 *data)
{
	int rc;

	/* A BH work item of this CPU sends the requests of a ULP. */
	local_bh_disable();
	rc = ib_post_send(end->qp, wr, NULL);
	memset(data, 0, MOST);
	local_bh_enable();
	return rc;
}

/* Returns a request of a with these SGEs inline, to b. */
static struct ib_ud_wr message(struct bench *bench, struct ib_sge *pieces, int count)
{
	return (struct ib_ud_wr){
		.wr = {
			.sg_list = pieces,
			.num_sge = count,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
		},
		.ah = bench->a.ah,
		.remote_qpn = bench->b.qp->qp_num,
		.remote_qkey = QKEY,
	};
}

static int granted(struct bench *bench)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int rc = ib_query_qp(bench->a.qp, &attr, IB_QP_CAP, &init);

	return rc ?: init.cap.max_inline_data;
}

/* Sends a message of this length, in three SGEs. */
static int arrives(struct bench *bench, u8 *data, u32 length)
{
	u32 head = bench->a.ah ? GRH : 0, first = length / 3, second = length / 2 - first;
	struct ib_sge pieces[] = {
		{ (uintptr_t)data, first, NO_KEY },
		{ (uintptr_t)data + first, second, NO_KEY },
		{ (uintptr_t)data + first + second, length - first - second, NO_KEY },
	};
	struct ib_ud_wr wr = message(bench, pieces, 3);
	struct ib_wc wc;

	fresh(bench);
	memcpy(data, bench->a.bytes, MOST);
	must(receive(&bench->b, length, head + MOST));
	must(post_and_spoil(&bench->a, &wr.wr, data));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, &wc));
	equal(wc.wr_id, length);
	equal(wc.byte_len, head + length);
	equal(memcmp(bench->b.bytes + head, bench->a.bytes, length), 0);
	equal(memchr_inv(bench->b.bytes + head + length, 0, MOST - length), NULL);
	return 0;
}

static int too_long(struct bench *bench, u8 *data, int most)
{
	struct ib_sge pieces[] = { { (uintptr_t)data, 1, NO_KEY }, { (uintptr_t)data, most, NO_KEY } };
	struct ib_ud_wr wr = message(bench, pieces, 2);
	const struct ib_send_wr *bad = NULL;

	equal(ib_post_send(bench->a.qp, &wr.wr, &bad), -EINVAL);
	equal(bad, &wr.wr);
	pieces[0].length = pieces[1].length = 1U << 31;
	equal(ib_post_send(bench->a.qp, &wr.wr, NULL), -EINVAL);
	return 0;
}

static int sends_of(struct bench *bench, u8 *data)
{
	int most = granted(bench), length;

	equal(most >= 32 * sizeof(struct ib_sge), true);
	equal(most < MOST, true);
	for (length = 0; length < most; length += 1 + length / 2) {
		must(arrives(bench, data, length));
		must(arrives(bench, data, most - length));
		must(too_long(bench, data, most));
	}
	return 0;
}

/* Runs a test with memory that is not mapped for the device. */
static int with_memory(struct bench *bench, int (*run)(struct bench *, u8 *))
{
	u8 *data = kmalloc(MOST, GFP_KERNEL);
	int rc;

	must(data ? 0 : -ENOMEM);
	rc = run(bench, data);
	kfree(data);
	return rc;
}

static int sends(struct bench *bench)
{
	return with_memory(bench, sends_of);
}

static int writes_to(struct bench *bench, u8 *data, struct ib_mr *mr)
{
	struct ib_sge sge = { (uintptr_t)data, 100, NO_KEY };
	struct ib_rdma_wr wr = {
		.wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
		},
		.remote_addr = mr->iova,
		.rkey = mr->rkey,
	};

	memcpy(data, bench->a.bytes, MOST);
	must(receive(&bench->b, 1, 0));
	must(post_and_spoil(&bench->a, &wr.wr, data));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, NULL));
	equal(memcmp(bench->b.bytes + 7, bench->a.bytes, 100), 0);
	sge.length = granted(bench) + 1;
	equal(ib_post_send(bench->a.qp, &wr.wr, NULL), -EINVAL);
	return 0;
}

static int writes_of(struct bench *bench, struct ib_mr *mr)
{
	u8 *data = kmalloc(MOST, GFP_KERNEL);
	int rc;

	must(data ? 0 : -ENOMEM);
	rc = map(&bench->b, mr, 7, PAGE_SIZE, PAGE_SIZE) ?: writes_to(bench, data, mr);
	kfree(data);
	return rc;
}

static int writes(struct bench *bench)
{
	return with_region(bench, writes_of, 2);
}

/* The granted amount is at least the requested one, up to the limit. */
static int asked_for(struct bench *bench)
{
	static const u32 amounts[] = { 0, 1, 17, 200, 512 };
	struct ib_qp_init_attr init = {
		.qp_type = bench->a.qp->qp_type,
		.send_cq = bench->a.cq,
		.recv_cq = bench->a.cq,
	};
	struct ib_qp *qp;
	int i;

	for (i = 0; i < ARRAY_SIZE(amounts); i++) {
		init.cap = (struct ib_qp_cap){ 1, 1, 1, 1, amounts[i] };
		qp = ib_create_qp(bench->pd, &init);
		must(PTR_ERR_OR_ZERO(qp));
		must(ib_destroy_qp(qp));
		equal(init.cap.max_inline_data >= amounts[i], true);
	}
	init.cap = (struct ib_qp_cap){ 1, 1, 1, 1, 513 };
	qp = ib_create_qp(bench->pd, &init);
	equal(PTR_ERR_OR_ZERO(qp), -EINVAL);
	return 0;
}

const struct test inline_tests[] = {
	{ "an RC SEND copies inline data when it is posted", IB_QPT_RC, sends },
	{ "a UC SEND copies inline data when it is posted", IB_QPT_UC, sends },
	{ "a datagram copies inline data when it is posted", IB_QPT_UD, sends },
	{ "an RC WRITE copies inline data when it is posted", IB_QPT_RC, writes },
	{ "a UC WRITE copies inline data when it is posted", IB_QPT_UC, writes },
	{ "RC grants the requested amount of inline data", IB_QPT_RC, asked_for },
	{ "UC grants the requested amount of inline data", IB_QPT_UC, asked_for },
	{ "UD grants the requested amount of inline data", IB_QPT_UD, asked_for },
	{}
};
