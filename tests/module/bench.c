// SPDX-License-Identifier: GPL-2.0
/* Two QPs of one device: creation, connection and destruction. */

#include "bench.h"

#include <linux/delay.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

int way(struct bench *bench, struct rdma_ah_attr *attr)
{
	union ib_gid gid;

	must(rdma_query_gid(bench->device, 1, bench->gid, &gid));
	*attr = (struct rdma_ah_attr){ .type = RDMA_AH_ATTR_TYPE_ROCE };
	rdma_ah_set_grh(attr, &gid, 0, bench->gid, 64, 0);
	rdma_ah_set_port_num(attr, 1);
	return 0;
}

/* Moves a UD QP to RTS. */
static int to_anybody(struct bench *bench, struct end *end)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct rdma_ah_attr to;

	must(ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			  IB_QP_QKEY));
	attr.qp_state = IB_QPS_RTR;
	must(ib_modify_qp(end->qp, &attr, IB_QP_STATE));
	attr.qp_state = IB_QPS_RTS;
	must(ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN));
	must(way(bench, &to));
	end->ah = rdma_create_ah(end->pd, &to, RDMA_CREATE_AH_SLEEPABLE);
	return PTR_ERR_OR_ZERO(end->ah);
}

static int to_rtr(struct bench *bench, struct end *end, u32 peer)
{
	bool reliable = end->qp->qp_type == IB_QPT_RC;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = EVERY_RIGHT,
	};

	must(ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			  IB_QP_ACCESS_FLAGS));
	attr = (struct ib_qp_attr){
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 7,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	must(way(bench, &attr.ah_attr));
	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			    IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			    (reliable ? IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER : 0));
}

static int to_rts(struct end *end)
{
	bool reliable = end->qp->qp_type == IB_QPT_RC;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.sq_psn = 7,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
			    (reliable ? IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			     IB_QP_MAX_QP_RD_ATOMIC : 0));
}

static int end_open(struct end *end, struct bench *bench, const struct test *test, int vector)
{
	struct ib_qp_init_attr init = {
		.qp_type = test->service,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { 64, 64, 32, 32, 0, 0 },
		.srq = end == &bench->b ? bench->srq : NULL,
	};

	end->pd = bench->pd;
	end->bytes = alloc_pages_exact(BYTES, GFP_KERNEL | __GFP_ZERO);
	must(end->bytes ? 0 : -ENOMEM);
	end->dma = ib_dma_map_single(bench->device, end->bytes, BYTES, DMA_BIDIRECTIONAL);
	end->cq = ib_alloc_cq(bench->device, end, 256, vector,
			      test->handled ? IB_POLL_SOFTIRQ : IB_POLL_DIRECT);
	must(PTR_ERR_OR_ZERO(end->cq));
	init.send_cq = end->cq;
	init.recv_cq = end->cq;
	end->qp = ib_create_qp(bench->pd, &init);
	must(PTR_ERR_OR_ZERO(end->qp));
	return 0;
}

static void end_close(struct end *end)
{
	if (!IS_ERR_OR_NULL(end->ah))
		rdma_destroy_ah(end->ah, RDMA_DESTROY_AH_SLEEPABLE);
	if (!IS_ERR_OR_NULL(end->qp))
		ib_destroy_qp(end->qp);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_free_cq(end->cq);
	if (end->bytes)
		free_pages_exact(end->bytes, BYTES);
}

static int bench_open(struct bench *bench, struct ib_device *device, int gid,
		      const struct test *test)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = test->shared, .max_sge = 1 },
	};

	bench->device = device;
	bench->gid = gid;
	bench->pd = ib_alloc_pd(device, 0);
	must(PTR_ERR_OR_ZERO(bench->pd));
	if (test->shared) {
		bench->srq = ib_create_srq(bench->pd, &init);
		must(PTR_ERR_OR_ZERO(bench->srq));
	}
	must(end_open(&bench->a, bench, test, 0));
	must(end_open(&bench->b, bench, test, device->num_comp_vectors > 1 ? 1 : 0));
	fresh(bench);
	if (test->service == IB_QPT_UD)
		return to_anybody(bench, &bench->a) ?: to_anybody(bench, &bench->b);
	must(to_rtr(bench, &bench->a, bench->b.qp->qp_num));
	must(to_rtr(bench, &bench->b, bench->a.qp->qp_num));
	must(to_rts(&bench->a));
	return to_rts(&bench->b);
}

static void bench_close(struct bench *bench)
{
	end_close(&bench->a);
	end_close(&bench->b);
	if (!IS_ERR_OR_NULL(bench->srq))
		ib_destroy_srq(bench->srq);
	if (!IS_ERR_OR_NULL(bench->pd))
		ib_dealloc_pd(bench->pd);
}

int bench_run(struct ib_device *device, int gid, const struct test *test)
{
	struct bench *bench = kzalloc(sizeof(*bench), GFP_KERNEL);
	int rc;

	if (!bench)
		return -ENOMEM;
	rc = bench_open(bench, device, gid, test);
	if (!rc)
		rc = test->run(bench);
	bench_close(bench);
	kfree(bench);
	return rc;
}

void fresh(struct bench *bench)
{
	size_t i;

	bench->seed += 31;
	/* Never zero. */
	for (i = 0; i < BYTES; i++)
		bench->a.bytes[i] = (i * 7 + i / 251 + bench->seed) | 1;
	memset(bench->b.bytes, 0, BYTES);
}

int completes(struct end *end, enum ib_wc_status status, struct ib_wc *wc)
{
	struct ib_wc own;
	int tries;

	wc = wc ?: &own;
	for (tries = 0; tries < 5000; tries++) {
		if (ib_poll_cq(end->cq, 1, wc) == 1) {
			if (wc->status != status)
				pr_info(SAY "# status %s, not %s\n", ib_wc_status_msg(wc->status),
					ib_wc_status_msg(status));
			equal(wc->status, status);
			return 0;
		}
		usleep_range(100, 2000);
	}
	pr_info(SAY "# nothing completes\n");
	return -ETIMEDOUT;
}

int receive(struct end *end, u64 wr_id, u32 length)
{
	struct ib_sge sge = piece(end, 0, length);
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(end->qp, &wr, NULL);
}

int send(struct end *end, const struct end *to, u64 wr_id, int flags)
{
	struct ib_sge sge = piece(end, 0, 64);
	struct ib_ud_wr wr = {
		.wr = {
			.wr_id = wr_id,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = flags,
		},
		/* Used by UD only. */
		.ah = end->ah,
		.remote_qpn = to->qp->qp_num,
		.remote_qkey = QKEY,
	};

	return ib_post_send(end->qp, &wr.wr, NULL);
}

int request(struct end *end, enum ib_wr_opcode opcode, u32 length, u32 ex)
{
	struct ib_sge sge = piece(end, 0, length);
	struct ib_send_wr wr = {
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.opcode = opcode,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = ex,
	};

	return ib_post_send(end->qp, &wr, NULL);
}

int rdma(struct end *end, enum ib_wr_opcode opcode, struct ib_sge sge, u64 remote, u32 rkey,
	 enum ib_wc_status status)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
			/* For READ_WITH_INV: the local key to invalidate. */
			.ex.invalidate_rkey = sge.lkey,
		},
		.remote_addr = remote,
		.rkey = rkey,
	};

	must(ib_post_send(end->qp, &wr.wr, NULL));
	return completes(end, status, NULL);
}
