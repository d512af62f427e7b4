// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation failures for a ULP: each verb is called repeatedly, and each time a later allocation of it
 * fails. The verb must fail with ENOMEM and no other error, and the same call works right after. Objects are
 * destroyed with failing allocations as well. Posting allocates no memory at all.
 *
 * The kernel must fail all chosen allocations, including those that may sleep: see
 * tests/vm/verbs/49-kernel-verbs.sh.
 */

#include "bench.h"

#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

/* More than any verb needs. */
#define MOST 400
#define PAGES 16

/* Objects that a verb created; NULL or an error pointer otherwise. */
struct made {
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ib_mr *mr;
	struct ib_ah *ah;
	u32 ah_flags;
};

struct verb {
	const char *name;
	int (*make)(struct bench *bench, struct made *made);
	/* Minimum number of allocations. */
	int least;
};

/* Makes the n-th allocation of this task from now on fail. */
static void fail_from(unsigned int n)
{
#ifdef CONFIG_FAILSLAB
	WRITE_ONCE(current->fail_nth, n);
#endif
}

/* Returns whether it failed; disarms it. */
static bool has_failed(void)
{
	bool failed = false;

#ifdef CONFIG_FAILSLAB
	failed = !READ_ONCE(current->fail_nth);
#endif
	fail_from(0);
	return failed;
}

static void unmake(struct made *made)
{
	if (!IS_ERR_OR_NULL(made->ah))
		rdma_destroy_ah(made->ah, made->ah_flags);
	if (!IS_ERR_OR_NULL(made->qp))
		ib_destroy_qp(made->qp);
	if (!IS_ERR_OR_NULL(made->mr))
		ib_dereg_mr(made->mr);
	if (!IS_ERR_OR_NULL(made->srq))
		ib_destroy_srq(made->srq);
	if (!IS_ERR_OR_NULL(made->cq))
		ib_free_cq(made->cq);
	if (!IS_ERR_OR_NULL(made->pd))
		ib_dealloc_pd(made->pd);
}

/* Runs a verb with a failing allocation, and then destroys its objects with a failing allocation. */
static int once(struct bench *bench, const struct verb *verb, unsigned int n, bool *failed)
{
	struct made made = {};
	int rc;

	fail_from(n);
	rc = verb->make(bench, &made);
	*failed = has_failed();
	fail_from(n);
	unmake(&made);
	has_failed();
	return rc;
}

static int each_failure(struct bench *bench, const struct verb *verb)
{
	int domain = atomic_read(&bench->pd->usecnt), queue = atomic_read(&bench->a.cq->usecnt);
	unsigned int n;
	bool failed;
	int rc;

	for (n = 1; n < MOST; n++) {
		rc = once(bench, verb, n, &failed);
		if (rc && (rc != -ENOMEM || !failed)) {
			pr_info(SAY "# %s: %d at allocation %u\n", verb->name, rc, n);
			return rc;
		}
		equal(atomic_read(&bench->pd->usecnt), domain);
		equal(atomic_read(&bench->a.cq->usecnt), queue);
		if (!failed)
			break;
		must(rc ? once(bench, verb, 0, &failed) : 0);
	}
	pr_info(SAY "# %s: %u failed\n", verb->name, n - 1);
	equal(n < MOST, true);
	equal((int)n > verb->least, true);
	return 0;
}

static int each_verb(struct bench *bench, const struct verb *verbs)
{
	for (; verbs->name; verbs++)
		must(each_failure(bench, verbs));
	return 0;
}

static int domain(struct bench *bench, struct made *made)
{
	made->pd = ib_alloc_pd(bench->device, 0);
	return PTR_ERR_OR_ZERO(made->pd);
}

/* With an MR of all memory: get_dma_mr. */
static int domain_of_all(struct bench *bench, struct made *made)
{
	made->pd = ib_alloc_pd(bench->device, IB_PD_UNSAFE_GLOBAL_RKEY);
	return PTR_ERR_OR_ZERO(made->pd);
}

static int queue(struct bench *bench, struct made *made, enum ib_poll_context how)
{
	made->cq = ib_alloc_cq(bench->device, NULL, 256, 0, how);
	return PTR_ERR_OR_ZERO(made->cq);
}

static int polled(struct bench *bench, struct made *made)
{
	return queue(bench, made, IB_POLL_DIRECT);
}

static int handled(struct bench *bench, struct made *made)
{
	return queue(bench, made, IB_POLL_SOFTIRQ);
}

static int queued(struct bench *bench, struct made *made)
{
	return queue(bench, made, IB_POLL_WORKQUEUE);
}

static int shared(struct bench *bench, struct made *made)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = 64, .max_sge = 4 },
	};

	made->srq = ib_create_srq(bench->pd, &init);
	return PTR_ERR_OR_ZERO(made->srq);
}

static int shared_resized(struct bench *bench, struct made *made)
{
	struct ib_srq_attr attr = { .max_wr = 500 };

	return shared(bench, made) ?: ib_modify_srq(made->srq, &attr, IB_SRQ_MAX_WR) ?:
	       ib_query_srq(made->srq, &attr);
}

static int pair(struct bench *bench, struct made *made, enum ib_qp_type service)
{
	struct ib_qp_init_attr init = {
		.qp_type = service,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { 64, 64, 32, 32, 64, 0 },
		.send_cq = bench->a.cq,
		.recv_cq = bench->a.cq,
		.srq = made->srq,
	};

	made->qp = ib_create_qp(bench->pd, &init);
	return PTR_ERR_OR_ZERO(made->qp);
}

/* Connects the QP to itself up to RTR, and queries it. */
static int connected(struct bench *bench, struct made *made, enum ib_qp_type service)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = EVERY_RIGHT,
	};
	struct ib_qp_init_attr init;
	int mask = IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	int rc;

	rc = pair(bench, made, service) ?:
	     ib_modify_qp(made->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (rc)
		return rc;
	attr = (struct ib_qp_attr){
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = made->qp->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	if (service == IB_QPT_RC)
		mask |= IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	return way(bench, &attr.ah_attr) ?: ib_modify_qp(made->qp, &attr, IB_QP_STATE | mask) ?:
	       ib_query_qp(made->qp, &attr, mask, &init);
}

static int reliable(struct bench *bench, struct made *made)
{
	return connected(bench, made, IB_QPT_RC);
}

static int unreliable(struct bench *bench, struct made *made)
{
	return connected(bench, made, IB_QPT_UC);
}

static int datagrams(struct bench *bench, struct made *made)
{
	return pair(bench, made, IB_QPT_UD);
}

static int user_of_shared(struct bench *bench, struct made *made)
{
	return shared(bench, made) ?: pair(bench, made, IB_QPT_RC);
}

static int region(struct bench *bench, struct made *made)
{
	made->mr = ib_alloc_mr(bench->pd, IB_MR_TYPE_MEM_REG, PAGES);
	return PTR_ERR_OR_ZERO(made->mr);
}

static int region_listed(struct bench *bench, struct made *made)
{
	struct scatterlist sg;
	int rc = region(bench, made);

	if (rc)
		return rc;
	sg_init_one(&sg, bench->b.bytes, BYTES);
	if (ib_dma_map_sg(bench->device, &sg, 1, DMA_BIDIRECTIONAL) != 1)
		return -ENOMEM;
	rc = ib_map_mr_sg(made->mr, &sg, 1, NULL, PAGE_SIZE);
	return rc < 0 ? rc : rc == 1 ? 0 : -EBADE;
}

/* Creates, queries and modifies an AH. */
static int handle(struct bench *bench, struct made *made)
{
	struct rdma_ah_attr attr;
	int rc = way(bench, &attr);

	if (rc)
		return rc;
	made->ah_flags = RDMA_DESTROY_AH_SLEEPABLE;
	made->ah = rdma_create_ah(bench->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	return PTR_ERR_OR_ZERO(made->ah) ?: rdma_query_ah(made->ah, &attr) ?: rdma_modify_ah(made->ah, &attr);
}

static int handle_atomic(struct bench *bench, struct made *made)
{
	static DEFINE_SPINLOCK(lock);
	struct rdma_ah_attr attr;
	int rc = way(bench, &attr);

	if (rc)
		return rc;
	spin_lock_bh(&lock);
	made->ah = rdma_create_ah(bench->pd, &attr, 0);
	spin_unlock_bh(&lock);
	return PTR_ERR_OR_ZERO(made->ah);
}

static int objects(struct bench *bench)
{
	static const struct verb verbs[] = {
		{ "alloc_pd", domain, 2 },
		{ "alloc_pd with a key of all memory", domain_of_all, 3 },
		{ "alloc_cq, polled", polled, 3 },
		{ "alloc_cq, handled in softirq", handled, 3 },
		{ "alloc_cq, handled by a work item", queued, 3 },
		{ "create_srq", shared, 2 },
		{ "create_srq, modify_srq, query_srq", shared_resized, 3 },
		{ "alloc_mr", region, 2 },
		{ "alloc_mr, map_mr_sg", region_listed, 2 },
		{ "create_ah, query_ah, modify_ah", handle, 2 },
		{ "create_ah in atomic context", handle_atomic, 2 },
		{}
	};

	return each_verb(bench, verbs);
}

static int pairs(struct bench *bench)
{
	static const struct verb verbs[] = {
		{ "create_qp RC, to RTR", reliable, 3 },
		{ "create_qp UC, to RTR", unreliable, 3 },
		{ "create_qp UD", datagrams, 3 },
		{ "create_srq, create_qp", user_of_shared, 4 },
		{}
	};

	return each_verb(bench, verbs);
}

static int post_own(struct bench *bench)
{
	return receive(&bench->b, 1, GRH + 64);
}

static int post_shared(struct bench *bench)
{
	struct ib_sge sge = piece(&bench->b, 0, GRH + 64);
	struct ib_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };

	return ib_post_srq_recv(bench->srq, &wr, NULL);
}

static int post_send(struct bench *bench)
{
	return send(&bench->a, &bench->b, 0, IB_SEND_SIGNALED);
}

/* Posts with the first allocation set to fail; there is none. */
static int posted(struct bench *bench, int (*post)(struct bench *bench))
{
	int rc;

	fail_from(1);
	rc = post(bench);
	equal(has_failed(), false);
	return rc;
}

/* Requests are copied into memory allocated with the queues, so that atomic contexts can post. */
static int posts(struct bench *bench)
{
	/* Length of the header in front of a datagram in b's buffer. */
	u32 head = bench->a.ah ? GRH : 0;
	int i;

	/* More than the queues hold. */
	for (i = 0; i < MOST; i++) {
		fresh(bench);
		must(posted(bench, bench->srq ? post_shared : post_own));
		must(posted(bench, post_send));
		must(completes(&bench->a, IB_WC_SUCCESS, NULL));
		must(completes(&bench->b, IB_WC_SUCCESS, NULL));
		equal(memcmp(bench->b.bytes + head, bench->a.bytes, 64), 0);
	}
	return 0;
}

const struct test memory_tests[] = {
	{ "each verb that creates an object survives every allocation failure", IB_QPT_RC, objects, .failing = true },
	{ "create_qp and modify_qp survive every allocation failure", IB_QPT_RC, pairs, .failing = true },
	{ "posting allocates no memory", IB_QPT_RC, posts, .failing = true },
	{ "posting datagrams allocates no memory", IB_QPT_UD, posts, .failing = true },
	{ "posting to a shared queue allocates no memory", IB_QPT_RC, posts, .shared = 4, .failing = true },
	{}
};
