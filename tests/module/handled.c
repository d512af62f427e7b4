// SPDX-License-Identifier: GPL-2.0
/* Completions that are handled as they come: by whom, and when the last one has. */

#include "bench.h"

#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

/* What has become of requests, and where that was told. */
struct tally {
	struct ib_cqe cqe;
	atomic_t good, flushed, others;
	atomic_t on[2];
};

static void handle(struct ib_cq *cq, struct ib_wc *wc)
{
	struct tally *tally = container_of(wc->wr_cqe, struct tally, cqe);
	int cpu = raw_smp_processor_id();

	atomic_inc(wc->status == IB_WC_SUCCESS ? &tally->good :
		   wc->status == IB_WC_WR_FLUSH_ERR ? &tally->flushed : &tally->others);
	if (cpu < ARRAY_SIZE(tally->on))
		atomic_inc(&tally->on[cpu]);
}

static int receives(struct end *end, struct tally *tally, int count)
{
	struct ib_sge sge = piece(end, 0, 64);
	struct ib_recv_wr wr = { .wr_cqe = &tally->cqe, .sg_list = &sge, .num_sge = 1 };

	tally->cqe.done = handle;
	while (count--)
		must(ib_post_recv(end->qp, &wr, NULL));
	return 0;
}

static int sends(struct end *end, struct tally *tally, int count)
{
	struct ib_sge sge = piece(end, 0, 64);
	struct ib_send_wr wr = {
		.wr_cqe = &tally->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	tally->cqe.done = handle;
	while (count--)
		must(ib_post_send(end->qp, &wr, NULL));
	return 0;
}

/* What is posted has completed when the drain returns: a's receives, and the sends that b has no receives for. */
static int drained(struct bench *bench)
{
	struct tally sent = {}, received = {}, at_b = {};

	must(receives(&bench->b, &at_b, 20));
	must(receives(&bench->a, &received, 30));
	must(sends(&bench->a, &sent, 50));
	ib_drain_qp(bench->a.qp);
	equal(atomic_read(&received.flushed), 30);
	equal(atomic_read(&received.good) + atomic_read(&received.others), 0);
	equal(atomic_read(&sent.good) + atomic_read(&sent.flushed), 50);
	equal(atomic_read(&sent.good) <= 20, true);
	equal(atomic_read(&sent.others), 0);
	ib_drain_qp(bench->b.qp);
	equal(atomic_read(&at_b.good) + atomic_read(&at_b.flushed), 20);
	equal(atomic_read(&at_b.good) >= atomic_read(&sent.good), true);
	/* Once more, with nothing to wait for. */
	ib_drain_qp(bench->a.qp);
	return 0;
}

struct exchange {
	struct work_struct work;
	struct bench *bench;
	struct tally sent, received;
	int rc;
};

static void exchange(struct work_struct *work)
{
	struct exchange *all = container_of(work, struct exchange, work);

	all->rc = receives(&all->bench->b, &all->received, 1) ?: sends(&all->bench->a, &all->sent, 1);
}

static int exchanged_on(struct exchange *all, int cpu, int rounds)
{
	int tries;

	INIT_WORK_ONSTACK(&all->work, exchange);
	schedule_work_on(cpu, &all->work);
	flush_work(&all->work);
	destroy_work_on_stack(&all->work);
	must(all->rc);
	for (tries = 0; tries < 5000; tries++) {
		if (atomic_read(&all->sent.good) == rounds &&
		    atomic_read(&all->received.good) == rounds)
			return 0;
		usleep_range(100, 2000);
	}
	return -ETIMEDOUT;
}

/* Completions of a are handled on processor 0, those of b on 1, wherever they come from. */
static int at_home(struct bench *bench)
{
	struct exchange all = { .bench = bench };
	int i;

	for (i = 0; i < 200; i++)
		must(exchanged_on(&all, i % 2, i + 1));
	equal(atomic_read(&all.sent.on[0]), 200);
	equal(atomic_read(&all.received.on[1]), 200);
	return 0;
}

const struct test handled_tests[] = {
	{ "drained: all is handled when that returns", IB_QPT_RC, drained, .handled = true },
	{ "drained of a queue that is polled", IB_QPT_RC, drained },
	{ "completions are handled on the processor of their vector", IB_QPT_RC, at_home,
	  .handled = true, .processors = 2 },
	{}
};
