// SPDX-License-Identifier: GPL-2.0
/* Destruction of QPs and completion queues with work in progress. */

#include "bench.h"

#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

/* Rounds for each address family. Without KASAN, more rounds find little. */
#define RECLAIM_ROUNDS (IS_ENABLED(CONFIG_KASAN) ? 40 : 20)
#define FREE_ROUNDS (IS_ENABLED(CONFIG_KASAN) ? 500 : 50)
#define RECEIVES 16

struct ending {
	struct work_struct work;
	struct bench *bench;
};

static void destroy_both(struct work_struct *work)
{
	struct bench *bench = container_of(work, struct ending, work)->bench;

	ib_destroy_qp(bench->a.qp);
	bench->a.qp = NULL;
	ib_destroy_qp(bench->b.qp);
	bench->b.qp = NULL;
}

static struct workqueue_struct *reclaim;

/*
 * Posts more messages than receives, longer than a packet, in both directions: both ends are busy and wait
 * for receives.
 */
static int destroyed_at_work(struct bench *bench)
{
	struct ending ending = { .bench = bench };
	int i;

	for (i = 0; i < 20; i++)
		must(receive(&bench->a, i, BYTES) ?: receive(&bench->b, i, BYTES));
	for (i = 0; i < 40; i++)
		must(request(&bench->a, IB_WR_SEND, 20000, 0) ?: request(&bench->b, IB_WR_SEND, 20000, 0));
	udelay(get_random_u32_below(300));
	INIT_WORK_ONSTACK(&ending.work, destroy_both);
	queue_work(reclaim, &ending.work);
	flush_work(&ending.work);
	destroy_work_on_stack(&ending.work);
	return 0;
}

/*
 * A memory reclaim work item must not wait for a work item that may wait for memory: the kernel warns if an
 * item of a WQ_MEM_RECLAIM queue flushes an item of another queue that is queued at that time.
 */
static int reclaimed(struct bench *bench)
{
	const struct test services[] = {
		{ "RC", IB_QPT_RC, destroyed_at_work }, { "UC", IB_QPT_UC, destroyed_at_work },
	};
	int i, rc = 0;

	reclaim = alloc_workqueue("ferroce-test", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	must(reclaim ? 0 : -ENOMEM);
	for (i = 0; i < RECLAIM_ROUNDS && !rc; i++)
		rc = bench_run(bench->device, bench->gid, &services[i % 2]);
	destroy_workqueue(reclaim);
	return rc;
}

/* Freed after its completion queue, so that a later completion handler uses freed memory. */
struct receiver {
	struct ib_cqe cqe;
	atomic_t done;
	struct work_struct hold;
};

static void done(struct ib_cq *cq, struct ib_wc *wc)
{
	atomic_inc(&container_of(wc->wr_cqe, struct receiver, cqe)->done);
}

/* Delays the softirqs of this CPU, which handle completions. */
static void hold(struct work_struct *work)
{
	local_bh_disable();
	udelay(get_random_u32_below(300));
	local_bh_enable();
}

/* Posts receives of a QP without a peer: all complete at once when it fails. */
static int fail_receives(struct bench *bench, struct ib_qp *qp, struct receiver *receiver)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ib_sge sge = piece(&bench->a, 0, 64);
	struct ib_recv_wr wr = { .wr_cqe = &receiver->cqe, .sg_list = &sge, .num_sge = 1 };
	int i;

	must(ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY));
	for (i = 0; i < RECEIVES; i++)
		must(ib_post_recv(qp, &wr, NULL));
	attr.qp_state = IB_QPS_ERR;
	return ib_modify_qp(qp, &attr, IB_QP_STATE);
}

static int free_round(struct bench *bench, struct receiver *receiver, int round, int *told)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_UD,
		.cap = { 1, RECEIVES, 1, 1, 0, 0 },
	};
	int rc, vector = round % 2;
	struct ib_cq *cq = ib_alloc_cq(bench->device, NULL, 2 * RECEIVES, vector, IB_POLL_WORKQUEUE);
	struct ib_qp *qp;

	must(PTR_ERR_OR_ZERO(cq));
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(bench->pd, &init);
	rc = PTR_ERR_OR_ZERO(qp);
	if (!rc) {
		schedule_work_on(vector, &receiver->hold);
		rc = fail_receives(bench, qp, receiver);
		/* A destroyed queue pair takes its completions along, mostly before they are handled. */
		if (round % 8 == 0)
			usleep_range(1000, 2000);
		ib_destroy_qp(qp);
	}
	ib_free_cq(cq);
	*told += atomic_read(&receiver->done);
	flush_work(&receiver->hold);
	return rc;
}

/* No completion handler runs after its queue is freed, on any CPU. */
static int freed(struct bench *bench)
{
	int i, rc = 0, told = 0;

	for (i = 0; i < FREE_ROUNDS && !rc; i++) {
		struct receiver *receiver = kzalloc(sizeof(*receiver), GFP_KERNEL);

		must(receiver ? 0 : -ENOMEM);
		receiver->cqe.done = done;
		INIT_WORK(&receiver->hold, hold);
		rc = free_round(bench, receiver, i, &told);
		kfree(receiver);
	}
	/* Some handlers ran in time. */
	equal(rc || told > 0, true);
	return rc;
}

const struct test end_tests[] = {
	{ "QPs at work are destroyed from a memory reclaim workqueue", IB_QPT_RC, reclaimed },
	{ "completion queues are freed while they report completions", IB_QPT_UD, freed, .processors = 2 },
	{}
};
