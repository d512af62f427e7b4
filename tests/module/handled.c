// SPDX-License-Identifier: GPL-2.0
/* Completions handled as they arrive: the CPU of the handler, and drains. */

#include "bench.h"

#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

/* Counts completions by status and by the CPU of the handler. */
struct tally {
	struct ib_cqe cqe;
	atomic_t good, flushed, others;
	atomic_t on[2];
};

/* Static, because requests may still complete after a failed test. One test runs at a time. */
static struct tally sent, received, at_b, odd;

static void none_yet(void)
{
	sent = received = at_b = odd = (struct tally){};
}

static void handle(struct ib_cq *cq, struct ib_wc *wc)
{
	struct tally *tally = container_of(wc->wr_cqe, struct tally, cqe);
	int cpu = raw_smp_processor_id();

	if (cpu < ARRAY_SIZE(tally->on))
		atomic_inc(&tally->on[cpu]);
	/* Counted last: tests wait for these. */
	atomic_inc(wc->status == IB_WC_SUCCESS ? &tally->good :
		   wc->status == IB_WC_WR_FLUSH_ERR ? &tally->flushed : &tally->others);
}

/* Waits some seconds until this many completions are counted. */
static int told_of(const struct tally *tally, int count)
{
	int tries;

	for (tries = 0; tries < 5000; tries++) {
		if (atomic_read(&tally->good) + atomic_read(&tally->flushed) +
		    atomic_read(&tally->others) == count)
			return 0;
		usleep_range(100, 2000);
	}
	return -ETIMEDOUT;
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

static int shared_receives(struct bench *bench, struct tally *tally, int count)
{
	struct ib_sge sge = piece(&bench->b, 0, 64);
	struct ib_recv_wr wr = { .wr_cqe = &tally->cqe, .sg_list = &sge, .num_sge = 1 };

	tally->cqe.done = handle;
	while (count--)
		must(ib_post_srq_recv(bench->srq, &wr, NULL));
	return 0;
}

/* Sends to the end itself. The completion handler takes the place of the request's number. */
static int sends(struct end *end, struct tally *tally, int count)
{
	tally->cqe.done = handle;
	while (count--)
		must(send(end, end, (uintptr_t)&tally->cqe, IB_SEND_SIGNALED));
	return 0;
}

/* Posts them all at once, for one run of the engine. */
static int sends_together(struct end *end, struct tally *tally, int count)
{
	static struct ib_send_wr wrs[16];
	struct ib_sge sge = piece(end, 0, 64);
	int i;

	tally->cqe.done = handle;
	for (i = 0; i < count; i++)
		wrs[i] = (struct ib_send_wr){
			.wr_cqe = &tally->cqe,
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};
	return ib_post_send(end->qp, wrs, NULL);
}

/* All posted requests have completed when the drain returns. b has fewer receives than a has sends. */
static int drained_both(struct bench *bench)
{
	none_yet();
	must(receives(&bench->b, &at_b, 20));
	must(receives(&bench->a, &received, 30));
	must(sends(&bench->a, &sent, 50));
	ib_drain_qp(bench->a.qp);
	equal(atomic_read(&received.flushed), 30);
	equal(atomic_read(&received.good) + atomic_read(&received.others), 0);
	equal(atomic_read(&sent.good) + atomic_read(&sent.flushed), 50);
	equal(atomic_read(&sent.others), 0);
	ib_drain_qp(bench->b.qp);
	equal(atomic_read(&at_b.good) + atomic_read(&at_b.flushed), 20);
	return 0;
}

/* Each success has found a receive. */
static int drained(struct bench *bench)
{
	must(drained_both(bench));
	equal(atomic_read(&sent.good) <= 20, true);
	equal(atomic_read(&at_b.good) >= atomic_read(&sent.good), true);
	/* Once more, with nothing to drain. */
	ib_drain_qp(bench->a.qp);
	return 0;
}

/* Independent of the peer's receives: a send succeeds when it has left. */
static int drained_unreliable(struct bench *bench)
{
	must(drained_both(bench));
	equal(atomic_read(&at_b.others), 0);
	return 0;
}

static void count_last(struct ib_event *event, void *context)
{
	if (event->event == IB_EVENT_QP_LAST_WQE_REACHED)
		atomic_inc(&((struct tally *)context)->good);
}

/* Receives stay in the SRQ for other QPs, but none is in use when the drain returns. */
static int drained_shared(struct bench *bench)
{
	static struct tally last;
	int good;

	none_yet();
	last = (struct tally){};
	/* Set only now: at creation the core would pass it to the driver. */
	bench->b.qp->qp_context = &last;
	bench->b.qp->registered_event_handler = count_last;
	must(shared_receives(bench, &at_b, 20));
	must(sends(&bench->a, &sent, 50));
	ib_drain_qp(bench->a.qp);
	equal(atomic_read(&sent.good) + atomic_read(&sent.flushed), 50);
	equal(atomic_read(&sent.others), 0);
	/*
	 * Without the event the drain would time out after a minute. The core ends the wait before it passes
	 * the event on.
	 */
	ib_drain_qp(bench->b.qp);
	must(told_of(&last, 1));
	good = atomic_read(&at_b.good);
	equal(good >= atomic_read(&sent.good), true);
	equal(good + atomic_read(&at_b.flushed) <= 20, true);
	equal(atomic_read(&at_b.others), 0);
	ib_destroy_qp(bench->b.qp);
	bench->b.qp = NULL;
	equal(atomic_read(&at_b.good), good);
	return 0;
}

/*
 * The core posts a WRITE for a drain, which has none of a datagram's fields: the address handle's place holds
 * other data. It must be refused, or flushed in the error state, whatever the data is.
 */
static int no_datagram(struct bench *bench, enum ib_wr_opcode opcode)
{
	struct ib_sge sge = piece(&bench->a, 0, 8);
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &odd.cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = 0x5a5a5a5a5a5a5a5aULL,
		.rkey = 0x5a5a5a5a,
	};

	odd.cqe.done = handle;
	return ib_post_send(bench->a.qp, &wr.wr, NULL) ? 0 : 1;
}

static int drained_datagrams(struct bench *bench)
{
	const enum ib_wr_opcode others[] = { IB_WR_RDMA_WRITE, IB_WR_RDMA_READ, IB_WR_ATOMIC_FETCH_AND_ADD };
	struct ib_qp_attr error = { .qp_state = IB_QPS_ERR };
	int i, taken = 0;

	none_yet();
	must(receives(&bench->a, &received, 30));
	must(sends(&bench->a, &sent, 30));
	for (i = 0; i < ARRAY_SIZE(others); i++)
		equal(no_datagram(bench, others[i]), 0);
	must(ib_modify_qp(bench->a.qp, &error, IB_QP_STATE));
	for (i = 0; i < ARRAY_SIZE(others); i++)
		taken += no_datagram(bench, others[i]);
	/* ib_drain_sq() posts one of them, and gives up if it is refused. */
	equal(taken, ARRAY_SIZE(others));
	must(sends(&bench->a, &sent, 1));
	ib_drain_qp(bench->a.qp);
	equal(atomic_read(&sent.good) + atomic_read(&sent.flushed), 31);
	equal(atomic_read(&received.good) + atomic_read(&received.flushed), 30);
	equal(atomic_read(&received.others), 0);
	equal(atomic_read(&sent.others), 0);
	equal(atomic_read(&odd.flushed), taken);
	equal(atomic_read(&odd.good) + atomic_read(&odd.others), 0);
	return 0;
}

struct exchange {
	struct work_struct work;
	struct bench *bench;
	int count;
	int rc;
};

static void exchange(struct work_struct *work)
{
	struct exchange *all = container_of(work, struct exchange, work);

	all->rc = receives(&all->bench->b, &received, all->count) ?:
		  sends_together(&all->bench->a, &sent, all->count);
}

static int exchanged_on(struct exchange *all, int cpu, int completions)
{
	INIT_WORK_ONSTACK(&all->work, exchange);
	schedule_work_on(cpu, &all->work);
	flush_work(&all->work);
	destroy_work_on_stack(&all->work);
	must(all->rc);
	return told_of(&sent, completions) ?: told_of(&received, completions);
}

/* Completions that come one by one are handled on the CPU that they come from. */
static int at_once(struct bench *bench)
{
	struct exchange all = { .bench = bench, .count = 1 };
	int i;

	none_yet();
	for (i = 0; i < 200; i++)
		must(exchanged_on(&all, i % 2, i + 1));
	equal(atomic_read(&sent.on[0]), 100);
	equal(atomic_read(&sent.on[1]), 100);
	equal(atomic_read(&received.on[0]), 100);
	equal(atomic_read(&received.on[1]), 100);
	return 0;
}

/*
 * Of many completions, most of those of a are handled on CPU 0, and most of those of b on CPU 1, although they come
 * from the other one.
 */
static int at_home(struct bench *bench)
{
	struct exchange all = { .bench = bench, .count = 16 };
	int i;

	none_yet();
	for (i = 0; i < 50; i++)
		must(exchanged_on(&all, 1, 16 * (i + 1)));
	equal(atomic_read(&sent.on[0]) > 400, true);
	none_yet();
	for (i = 0; i < 50; i++)
		must(exchanged_on(&all, 0, 16 * (i + 1)));
	equal(atomic_read(&received.on[1]) > 400, true);
	return 0;
}

const struct test handled_tests[] = {
	{ "a drain returns after all completions are handled", IB_QPT_RC, drained, .handled = true },
	{ "a drain of a polled queue returns after all completions", IB_QPT_RC, drained },
	{ "a drain over UC returns after all completions are handled", IB_QPT_UC, drained_unreliable, .handled = true },
	{ "a drain over UC of a polled queue returns after all completions", IB_QPT_UC, drained_unreliable },
	{ "a drain with a shared queue returns after all completions are handled", IB_QPT_RC, drained_shared,
	  .shared = 20, .handled = true },
	{ "a drain with a shared queue returns after all completions, polled", IB_QPT_RC, drained_shared,
	  .shared = 20 },
	{ "UD refuses requests that are not datagrams, flushes them in ERR, and drains", IB_QPT_UD, drained_datagrams,
	  .handled = true },
	{ "single completions are handled on the CPU where they happen", IB_QPT_RC, at_once,
	  .handled = true, .processors = 2 },
	{ "many completions are handled on the CPU of their vector", IB_QPT_RC, at_home,
	  .handled = true, .processors = 2 },
	{}
};
