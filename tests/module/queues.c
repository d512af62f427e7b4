// SPDX-License-Identifier: GPL-2.0
/* Queues of a ULP: posted to and polled in any context, shared, and resized. */

#include "bench.h"

#include <linux/delay.h>
#include <linux/spinlock.h>

/* With PREEMPT_RT, where this lock does not disable interrupts, no ULP may post with interrupts off. */
static int in_any_context(struct bench *bench)
{
	static DEFINE_SPINLOCK(lock);
	unsigned long flags;
	struct ib_wc wc;
	int i, rc;

	for (i = 0; i < 100; i++) {
		fresh(bench);
		spin_lock_irqsave(&lock, flags);
		rc = receive(&bench->b, i, 64) ?: request(&bench->a, IB_WR_SEND, 64, 0);
		/* A completion may or may not have arrived yet. */
		if (ib_poll_cq(bench->b.cq, 1, &wc) == 1)
			rc = rc ?: wc.status;
		else
			wc.wr_id = -1ULL;
		spin_unlock_irqrestore(&lock, flags);
		must(rc);
		if (wc.wr_id == -1ULL)
			must(completes(&bench->b, IB_WC_SUCCESS, &wc));
		equal(wc.wr_id, i);
		must(completes(&bench->a, IB_WC_SUCCESS, NULL));
		equal(memcmp(bench->b.bytes, bench->a.bytes, 64), 0);
	}
	return 0;
}

/*
 * What a task posts after it has slept is sent before the post returns. Not if the work item of the last post, which
 * told of its completion, has not ended on another CPU.
 */
static int sent_at_once(struct bench *bench)
{
	int i, prompt = 0;

	for (i = 0; i < 20; i++) {
		fresh(bench);
		must(receive(&bench->b, i, 64));
		msleep(1);
		must(request(&bench->a, IB_WR_SEND, 64, 0));
		prompt += !memcmp(bench->b.bytes, bench->a.bytes, 64);
		must(completes(&bench->a, IB_WC_SUCCESS, NULL) ?: completes(&bench->b, IB_WC_SUCCESS, NULL));
	}
	must(prompt >= 15 ? 0 : -ETIME);
	return 0;
}

/* Sends SGEs in reverse order to as many SGEs at the other end. */
static int most_pieces(struct bench *bench)
{
	struct ib_sge from[32], to[32];
	struct ib_recv_wr recv = { .sg_list = to, .num_sge = 32 };
	struct ib_send_wr send = {
		.sg_list = from,
		.num_sge = 32,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_wc wc;
	int i;

	for (i = 0; i < 32; i++) {
		from[i] = piece(&bench->a, (31 - i) * 2000, 1001);
		to[i] = piece(&bench->b, i * 1500, 1001);
	}
	must(ib_post_recv(bench->b.qp, &recv, NULL));
	must(ib_post_send(bench->a.qp, &send, NULL));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, &wc));
	equal(wc.byte_len, 32 * 1001);
	for (i = 0; i < 32; i++) {
		equal(memcmp(bench->b.bytes + i * 1500, bench->a.bytes + (31 - i) * 2000, 1001), 0);
		equal(memchr_inv(bench->b.bytes + i * 1500 + 1001, 0, 499), NULL);
	}
	/* One more SGE is refused. */
	send.num_sge = 33;
	equal(ib_post_send(bench->a.qp, &send, NULL) != 0, true);
	return 0;
}

static int post(struct bench *bench, u64 wr_id)
{
	struct ib_sge sge = piece(&bench->b, wr_id * 64, 64);
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_srq_recv(bench->srq, &wr, NULL);
}

static int resize(struct bench *bench, u32 max_wr)
{
	struct ib_srq_attr attr = { .max_wr = max_wr };

	return ib_modify_srq(bench->srq, &attr, IB_SRQ_MAX_WR);
}

/* Sends one message, which must use the receive with that number. */
static int arrives(struct bench *bench, u64 wr_id)
{
	struct ib_wc wc;

	must(request(&bench->a, IB_WR_SEND, 64, 0));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, &wc));
	equal(wc.wr_id, wr_id);
	equal(memcmp(bench->b.bytes + wr_id * 64, bench->a.bytes, 64), 0);
	return 0;
}

static int resized_while_in_use(struct bench *bench)
{
	struct ib_srq_attr attr;
	u64 i;

	for (i = 0; i < 4; i++)
		must(post(bench, i));
	equal(post(bench, 4) != 0, true);
	equal(resize(bench, 3), -EINVAL);
	must(resize(bench, 64));
	must(ib_query_srq(bench->srq, &attr));
	equal(attr.max_wr, 64);
	for (i = 4; i < 64; i++)
		must(post(bench, i));
	equal(post(bench, 64) != 0, true);
	must(arrives(bench, 0));
	must(resize(bench, 100));
	for (i = 1; i < 60; i++)
		must(arrives(bench, i));
	/* Shrinks the queue with receives posted; the largest size so far has room for them. */
	must(resize(bench, 5));
	must(post(bench, 64));
	equal(post(bench, 65) != 0, true);
	for (i = 60; i < 65; i++)
		must(arrives(bench, i));
	return 0;
}

const struct test queue_tests[] = {
	{ "queues are posted to and polled with interrupts disabled", IB_QPT_RC, in_any_context },
	{ "a task that has slept sends at once", IB_QPT_RC, sent_at_once, .prompt = true },
	{ "a request and a receive may have the maximum number of SGEs", IB_QPT_RC, most_pieces },
	{ "a shared queue is resized while it is in use", IB_QPT_RC, resized_while_in_use, 4 },
	{}
};
