// SPDX-License-Identifier: GPL-2.0
/*
 * Guarantees once a consumer has learned that a QP failed, whatever another CPU does for the QP at that time.
 */

#include "bench.h"

#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define ROUNDS 60
#define RECEIVES 32
/* Each finds a receive, and one is left for the last send. */
#define SENDS 31
/* Above the numbers of the other sends. */
#define LAST 1000
/* More than any way of counting accepts. */
#define MANY 250

/* Sends posted by another CPU. */
struct sending {
	struct work_struct work;
	struct end *end, *to;
	int flags, rc;
};

static void send_all(struct work_struct *work)
{
	struct sending *all = container_of(work, struct sending, work);
	int i;

	for (i = 0; i < SENDS && !all->rc; i++)
		all->rc = send(all->end, all->to, i, all->flags);
}

static void begin(struct sending *all)
{
	INIT_WORK_ONSTACK(&all->work, send_all);
	schedule_work_on(!raw_smp_processor_id(), &all->work);
}

/* All sends are posted when this returns, but the send engine may still run. */
static int finish(struct sending *all)
{
	flush_work(&all->work);
	destroy_work_on_stack(&all->work);
	return all->rc;
}

static int sent_elsewhere(struct bench *bench)
{
	struct sending all = { .end = &bench->a, .to = &bench->b, .flags = IB_SEND_SIGNALED };

	begin(&all);
	return finish(&all);
}

/* The last send is unsignaled, so only a flush reports it: drains depend on that. */
static int flushes_last(struct end *end, struct end *to)
{
	struct ib_wc wc;
	int tries = 0;

	must(send(end, to, LAST, 0));
	while (tries < 1000) {
		if (ib_poll_cq(end->cq, 1, &wc) != 1) {
			usleep_range(100, 2000);
			tries++;
		} else if (wc.wr_id == LAST) {
			equal(wc.status, IB_WC_WR_FLUSH_ERR);
			return 0;
		}
	}
	return -ETIMEDOUT;
}

static int taken_to_error(struct bench *bench)
{
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	int i;

	for (i = 0; i < RECEIVES; i++)
		must(receive(&bench->b, i, 128));
	must(sent_elsewhere(bench));
	must(ib_modify_qp(bench->a.qp, &error, IB_QP_STATE));
	return flushes_last(&bench->a, &bench->b);
}

/* Waits for a completion with an error; all before it must be successes. */
static int awaits_error(struct end *end)
{
	unsigned long until = jiffies + 20 * HZ;
	struct ib_wc wc;

	/* Without sleeping, so that the next step follows as soon as possible. */
	while (time_before(jiffies, until)) {
		if (ib_poll_cq(end->cq, 1, &wc) != 1)
			cond_resched();
		else if (wc.status != IB_WC_SUCCESS)
			return 0;
	}
	return -ETIMEDOUT;
}

/* The tenth receive of b has an invalid key. */
static int receives_badly(struct bench *bench)
{
	struct ib_sge sge = piece(&bench->b, 0, 128);
	struct ib_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	int i;

	sge.lkey ^= 0x5a5a00;
	for (i = 0; i < RECEIVES; i++)
		must(i == 9 ? ib_post_recv(bench->b.qp, &wr, NULL) : receive(&bench->b, i, 128));
	return 0;
}

static int is_in_error(struct end *end)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	must(ib_query_qp(end->qp, &attr, IB_QP_STATE, &init));
	equal(attr.qp_state, IB_QPS_ERR);
	return 0;
}

static int told_of_error(struct bench *bench)
{
	must(receives_badly(bench));
	must(sent_elsewhere(bench));
	must(awaits_error(&bench->b));
	return is_in_error(&bench->b);
}

/* A send that b posts right after the error is flushed, even while its send engine runs. */
static int posts_after_error(struct bench *bench)
{
	/* Unsignaled: the send queue has room for all of them. */
	struct sending own = { .end = &bench->b, .to = &bench->a };
	int rc, posted;

	must(receives_badly(bench));
	must(sent_elsewhere(bench));
	begin(&own);
	rc = awaits_error(&bench->b) ?: flushes_last(&bench->b, &bench->a);
	posted = finish(&own);
	return rc ?: posted ?: is_in_error(&bench->b);
}

static int repeated(struct bench *bench, const struct test *services, int count)
{
	int i, rc = 0;

	migrate_disable();
	for (i = 0; i < ROUNDS && !rc; i++)
		rc = bench_run(bench->device, bench->gid, &services[i % count]);
	migrate_enable();
	if (rc)
		pr_info(SAY "# %s, round %d\n", services[(i - 1) % count].name, i);
	return rc;
}

static int after_modify(struct bench *bench)
{
	const struct test services[] = {
		{ "RC", IB_QPT_RC, taken_to_error },
		{ "UC", IB_QPT_UC, taken_to_error },
		{ "UD", IB_QPT_UD, taken_to_error },
	};

	return repeated(bench, services, ARRAY_SIZE(services));
}

static int after_completion(struct bench *bench)
{
	const struct test services[] = {
		{ "RC", IB_QPT_RC, told_of_error },
		{ "UC", IB_QPT_UC, told_of_error },
		{ "UD", IB_QPT_UD, told_of_error },
		{ "RC, and posts", IB_QPT_RC, posts_after_error },
		{ "UC, and posts", IB_QPT_UC, posts_after_error },
		{ "UD, and posts", IB_QPT_UD, posts_after_error },
	};

	return repeated(bench, services, ARRAY_SIZE(services));
}

/*
 * The QP accepts more requests than can be in progress at a time. Those in progress wait for receives, and
 * then complete all at once; the others must begin at that time.
 */
static int many_accepted(struct bench *bench)
{
	struct ib_qp_attr patient = { .min_rnr_timer = 24 }; /* 41 ms */
	struct ib_sge sge = piece(&bench->b, 0, 64);
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ib_wc wc;
	int i, accepted = 0;

	must(ib_modify_qp(bench->b.qp, &patient, IB_QP_MIN_RNR_TIMER));
	for (; accepted < 64; accepted++)
		must(send(&bench->a, &bench->b, accepted, IB_SEND_SIGNALED));
	usleep_range(1000, 2000);
	while (accepted < MANY && !send(&bench->a, &bench->b, accepted, IB_SEND_SIGNALED))
		accepted++;
	equal(accepted < MANY, true);
	for (i = 0; i < accepted; i++)
		must(ib_post_srq_recv(bench->srq, &wr, NULL));
	for (i = 0; i < accepted; i++) {
		must(completes(&bench->a, IB_WC_SUCCESS, &wc));
		equal(wc.wr_id, i);
	}
	return 0;
}

const struct test error_tests[] = {
	{ "a send posted in the error state is flushed, even while the engine sends", IB_QPT_RC, after_modify,
	  .processors = 2 },
	{ "a completion with an error implies the error state", IB_QPT_RC, after_completion, .processors = 2 },
	{ "all accepted sends complete", IB_QPT_RC, many_accepted, .shared = MANY },
	{}
};
