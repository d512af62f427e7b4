// SPDX-License-Identifier: GPL-2.0
/* Domains, SRQs, initiators and targets of XRC. */
#include "check.h"

void extended(struct ibv_cq *cq)
{
	struct ibv_xrcd_init_attr init = { .fd = 77 };
	struct ibv_xrcd *xrcd = ops.open_xrcd(context, &init);
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
							      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
						 .srq_type = IBV_SRQT_XRC,
						 .pd = pd,
						 .xrcd = xrcd,
						 .cq = cq };
	/* What the target does not use may be anything. */
	struct ibv_qp_init_attr_ex attr = { .send_cq = (void *)1,
					    .recv_cq = (void *)1,
					    .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };
	struct ibv_qp_open_attr open = { .xrcd = xrcd, .qp_num = 5 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .qp_type.xrc.remote_srqn = 7 }, *bad;
	struct ibv_recv_wr recv = {}, *bad_recv;
	struct ferroce_send_wqe *w;
	struct ibv_srq *srq;
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;
	uint32_t number;

	CHECK(xrcd && xrcd->context == context);
	srq = ops.create_srq_ex(context, &srq_attr);
	CHECK(srq && !ops.get_srq_num(srq, &number) && number == 99 && !ops.destroy_srq(srq));

	qp = ops.create_qp_ex(context, &attr);
	CHECK(qp && ((struct verbs_qp *)qp)->xrcd == (void *)xrcd);
	CHECK(((struct verbs_qp *)qp)->comp_mask == VERBS_QP_XRCD);
	qp->state = IBV_QPS_RTS;
	CHECK(ops.post_send(qp, &wr, &bad) == EINVAL && ops.post_recv(qp, &recv, &bad_recv) == EINVAL);
	CHECK(!ops.destroy_qp(qp));
	qp = ops.open_qp(context, &open);
	CHECK(qp && qp->qp_num == 5 && ops.post_send(qp, &wr, &bad) == EINVAL && !ops.destroy_qp(qp));

	qp = make_qp(cq, IBV_QPT_XRC_SEND);
	qp->state = IBV_QPS_RTS;
	CHECK(ops.post_recv(qp, &recv, &bad_recv) == EINVAL);
	w = post(qp, &wr);
	CHECK(w->opcode == IBV_WR_SEND && !w->rdma.remote_addr && !w->rdma.rkey && w->rdma.remote_srqn == 7);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 3;
	wr.wr.rdma.rkey = 4;
	w = post(qp, &wr);
	CHECK(w->rdma.remote_addr == 3 && w->rdma.rkey == 4 && w->rdma.remote_srqn == 7);
	CHECK(!ops.destroy_qp(qp));

	ex = make_builder(cq, IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
	CHECK(ex && ex->wr_set_xrc_srqn);
	w = element(last_send, 0);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 10, 11);
	ibv_wr_set_xrc_srqn(ex, 8);
	ibv_wr_set_sge(ex, 1, 2, 3);
	CHECK(!ibv_wr_complete(ex) && w->rdma.rkey == 10 && w->rdma.remote_addr == 11 && w->rdma.remote_srqn == 8);
	CHECK(w->count == 1 && !ops.destroy_qp(&ex->qp_base) && !ops.close_xrcd(xrcd));
}
