// SPDX-License-Identifier: GPL-2.0
/*
 * The operations that write requests to rings: see check.c.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include "check.h"

void receives(struct ibv_srq *srq, struct ibv_qp *qp, struct ferroce_ring *ring)
{
	struct ibv_sge sges[4] = { { 1, 2, 3 }, { 4, 5, 6 } };
	struct ibv_recv_wr wrs[20] = {}, *bad = NULL;
	struct ferroce_recv_wqe *wqe = element(ring, ring->producer);
	unsigned int start = ring->producer;

	for (unsigned int i = 0; i < 20; i++) {
		wrs[i].wr_id = 80 + i;
		wrs[i].next = i < 19 ? &wrs[i + 1] : NULL;
	}
	wrs[0].sg_list = sges;
	wrs[0].num_sge = 2;
	wrs[2].sg_list = sges;
	wrs[2].num_sge = 4;
#define POST(wr) (srq ? ops.post_srq_recv(srq, wr, &bad) : ops.post_recv(qp, wr, &bad))
	CHECK(POST(&wrs[0]) == EINVAL && bad == &wrs[2]);
	CHECK(ring->producer == start + 2);
	CHECK(wqe->wr_id == 80 && wqe->num_sge == 2 && !memcmp(wqe->sges, sges, 32));
	CHECK(POST(&wrs[3]) == ENOMEM && bad == &wrs[17]);
	CHECK(ring->producer == start + 16);
	ring->consumer = start + 1;
	CHECK(!POST(&wrs[19]) && POST(&wrs[19]) == ENOMEM && bad == &wrs[19]);
	CHECK(ring->producer == start + 17);
#undef POST
}

struct ibv_qp *make_qp(struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = type };
	struct ibv_qp *qp = ops.create_qp(pd, &attr);

	CHECK(qp && !((struct verbs_qp *)qp)->comp_mask);
	return qp;
}

struct ferroce_send_wqe *post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ferroce_send_wqe *wqe = element(last_send, last_send->producer);
	unsigned int before = last_send->producer;
	struct ibv_send_wr *bad;

	memset(wqe, 0xee, last_send->stride);
	CHECK(!ops.post_send(qp, wr, &bad) && last_send->producer == before + 1);
	last_send->consumer = last_send->producer;
	return wqe;
}

void connected(struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(cq, IBV_QPT_RC);
	struct ibv_sge sges[7] = { { 11, 12, 13 }, { 14, 15, 16 }, { 17, 18, 19 } };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sges, .num_sge = 3, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad = NULL;
	struct ibv_mr mr = { .lkey = 0x77 };
	struct ibv_mw mw = { .rkey = 0x8800 };
	struct ibv_qp_attr state = {};
	struct ibv_qp_init_attr init;
	struct ferroce_send_wqe *w;
	int before = doorbells(fd);

	CHECK(!ops.query_qp(qp, &state, IBV_QP_STATE, &init) && !ops.modify_qp(qp, &state, IBV_QP_STATE));
	CHECK(ops.post_send(qp, &wr, &bad) == EINVAL && bad == &wr && !last_send->producer);
	{
		struct ibv_recv_wr recv = {}, *bad_recv;

		CHECK(ops.post_recv(qp, &recv, &bad_recv) == EINVAL && bad_recv == &recv);
	}
	qp->state = IBV_QPS_RTS;
	receives(NULL, qp, last_receive);
	CHECK(doorbells(fd) == before);

	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = 2;
	wr.wr.rdma.remote_addr = 3;
	wr.wr.rdma.rkey = 4;
	w = post(qp, &wr);
	CHECK(doorbells(fd) == before + 1 && doorbell_qp(fd) == qp->handle);
	CHECK(w->wr_id == 1 && w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && w->flags == FERROCE_SEND_SIGNALED);
	CHECK(w->count == 3 && w->imm_or_key == 2 && w->rdma.remote_addr == 3 && w->rdma.rkey == 4);
	CHECK(!w->rdma.remote_srqn && !memcmp(w->sges, sges, 48));

	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = 5;
	wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED | IBV_SEND_FENCE;
	wr.num_sge = 2;
	sges[0] = (struct ibv_sge){ (uintptr_t)"abc", 3, 0 };
	sges[1] = (struct ibv_sge){ (uintptr_t)"defgh", 5, 0 };
	w = post(qp, &wr);
	CHECK(w->opcode == IBV_WR_SEND_WITH_INV && w->imm_or_key == 5);
	CHECK(w->flags == (FERROCE_SEND_INLINE | FERROCE_SEND_SOLICITED | FERROCE_SEND_FENCE) && w->count == 8);
	CHECK(!memcmp(w->data, "abcdefgh", 8));
	sges[1].length = 94;
	CHECK(ops.post_send(qp, &wr, &bad) == EINVAL && bad == &wr);

	wr.send_flags = 0;
	wr.num_sge = -1;
	CHECK(ops.post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.num_sge = 1;
	sges[0] = (struct ibv_sge){ 20, 8, 21 };
	wr.wr.atomic.remote_addr = 6;
	wr.wr.atomic.compare_add = 7ULL << 40;
	wr.wr.atomic.swap = 8ULL << 40;
	wr.wr.atomic.rkey = 9;
	w = post(qp, &wr);
	CHECK(w->rdma.remote_addr == 6 && w->rdma.rkey == 9 && w->atomic.compare_add == 7ULL << 40);
	CHECK(w->atomic.swap == 8ULL << 40 && w->count == 1 && !memcmp(&w->atomic.result, sges, 16));

	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = 10;
	wr.num_sge = 0;
	w = post(qp, &wr);
	CHECK(w->opcode == IBV_WR_LOCAL_INV && w->imm_or_key == 10 && !w->count);

	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = 0x8801;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr, 30, 1ULL << 33, 6 };
	w = post(qp, &wr);
	CHECK(w->rdma.remote_addr == 30 && w->rdma.rkey == 0x8800 && w->bind.length == 1ULL << 33);
	CHECK(w->bind.mr_lkey == 0x77 && w->bind.new_rkey == 0x8801 && w->bind.access == 6 && !w->bind.reserved);

	/* A list: all before the bad request are posted, with one doorbell. */
	{
		struct ibv_send_wr list[3] = { { .wr_id = 1, .next = &list[1], .opcode = IBV_WR_SEND },
					       { .wr_id = 2, .next = &list[2], .opcode = IBV_WR_SEND },
					       { .wr_id = 3, .opcode = IBV_WR_TSO } };
		unsigned int producer = last_send->producer;

		before = doorbells(fd);
		CHECK(ops.post_send(qp, list, &bad) == EINVAL && bad == &list[2]);
		CHECK(last_send->producer == producer + 2 && doorbells(fd) == before + 1);
		last_send->consumer = last_send->producer;
	}

	/* The verb that binds a window of type 1. */
	{
		struct ibv_mw_bind bind = { .wr_id = 5, .bind_info = { &mr, 31, 32, 2 } };
		struct ibv_mw *window = ops.alloc_mw(pd, IBV_MW_TYPE_1);

		w = element(last_send, last_send->producer);
		CHECK(!ops.bind_mw(qp, window, &bind) && window->rkey == 0x5600);
		CHECK(w->rdma.rkey == 0x56ff && w->bind.new_rkey == 0x5600 && w->wr_id == 5);
		ops.dealloc_mw(window);
	}
	CHECK(!ops.attach_mcast(qp, &(union ibv_gid){}, 3) && !ops.detach_mcast(qp, &(union ibv_gid){}, 4));
	CHECK(!ops.destroy_qp(qp));
}

void datagrams(struct ibv_cq *cq)
{
	struct ibv_ah_attr attr = {};
	struct ibv_ah *ah = ops.create_ah(pd, &attr);
	struct ibv_qp *qp = make_qp(cq, IBV_QPT_UD);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ferroce_send_wqe *w;

	CHECK(ah);
	qp->state = IBV_QPS_RTS;
	CHECK(ops.post_send(qp, &wr, &bad) == EINVAL);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 5;
	wr.wr.ud.remote_qkey = 6;
	w = post(qp, &wr);
	CHECK(w->datagram.remote_qpn == 5 && w->datagram.remote_qkey == 6 && w->datagram.ah == 4321);
	CHECK(!w->datagram.reserved && !ops.destroy_qp(qp) && !ops.destroy_ah(ah));
}

struct ibv_qp_ex *make_builder(struct ibv_cq *cq, enum ibv_qp_type type, unsigned long long wanted)
{
	struct ibv_qp_init_attr_ex attr = { .send_cq = cq,
					    .recv_cq = cq,
					    .qp_type = type,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .pd = pd,
					    .send_ops_flags = wanted };
	struct ibv_qp *qp = ops.create_qp_ex(context, &attr);

	if (!qp)
		return NULL;
	CHECK(((struct verbs_qp *)qp)->comp_mask == VERBS_QP_EX);
	qp->state = IBV_QPS_RTS;
	return &((struct verbs_qp *)qp)->qp_ex;
}

void builders(struct ibv_cq *cq)
{
	unsigned long long wanted = IBV_QP_EX_WITH_SEND_WITH_INV * 2 - 1;
	struct ibv_sge sges[7] = { { 1, 2, 3 }, { 4, 5, 6 } };
	struct ibv_data_buf buffers[2] = { { "xyz", 3 }, { "uvw", 3 } };
	struct ibv_mw mw = { .rkey = 0x8800 };
	struct ibv_mw_bind_info info = { NULL, 30, 31, 6 };
	struct ferroce_send_wqe *w[16];
	struct ibv_qp_ex *qp;
	int before;

	errno = 0;
	CHECK(!make_builder(cq, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE) && errno == EOPNOTSUPP);
#if RELEASE >= 44
	wanted |= IBV_QP_EX_WITH_ATOMIC_WRITE;
#endif
#if RELEASE >= 45
	wanted |= IBV_QP_EX_WITH_FLUSH;
#endif
	qp = make_builder(cq, IBV_QPT_RC, wanted);
	CHECK(qp && !qp->wr_send_tso && !qp->wr_set_xrc_srqn);
	before = doorbells(fd);
	for (unsigned int i = 0; i < 16; i++)
		w[i] = element(last_send, i);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write_imm(qp, 2, 3, 4);
	ibv_wr_set_sge(qp, 7, 8, 9);
	ibv_wr_rdma_write(qp, 2, 3);
	ibv_wr_set_inline_data(qp, "hello", 5);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 2, sges);
	ibv_wr_send_imm(qp, 5);
	ibv_wr_set_inline_data_list(qp, 2, buffers);
	ibv_wr_send_inv(qp, 6);
	ibv_wr_rdma_read(qp, 10, 11);
	ibv_wr_set_sge(qp, 1, 2, 3);
	ibv_wr_atomic_cmp_swp(qp, 12, 13, 14, 15);
	ibv_wr_set_sge(qp, 1, 2, 8);
	ibv_wr_atomic_fetch_add(qp, 16, 17, 18);
	ibv_wr_set_sge(qp, 1, 2, 8);
	qp->wr_flags = 0;
	ibv_wr_local_inv(qp, 19);
	ibv_wr_bind_mw(qp, &mw, 0x8801, &info);
#if RELEASE >= 44
	ibv_wr_atomic_write(qp, 20, 21, "12345678");
#endif
#if RELEASE >= 45
	ibv_wr_flush(qp, 22, 23, 24, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
#endif
	CHECK(!last_send->producer && doorbells(fd) == before);
	CHECK(!ibv_wr_complete(qp) && doorbells(fd) == before + 1);
	CHECK(last_send->producer >= 10);
	CHECK(w[0]->wr_id == 1 && w[0]->flags == FERROCE_SEND_SIGNALED && w[0]->imm_or_key == 4 && w[0]->count == 1);
	CHECK(w[0]->rdma.rkey == 2 && w[0]->rdma.remote_addr == 3);
	CHECK(w[0]->sges[0].lkey == 7 && w[0]->sges[0].addr == 8 && w[0]->sges[0].length == 9);
	CHECK(w[1]->opcode == IBV_WR_RDMA_WRITE && w[1]->flags == (FERROCE_SEND_SIGNALED | FERROCE_SEND_INLINE));
	CHECK(w[1]->count == 5 && !memcmp(w[1]->data, "hello", 5));
	CHECK(w[2]->opcode == IBV_WR_SEND && w[2]->count == 2 && !memcmp(w[2]->sges, sges, 32));
	CHECK(w[3]->opcode == IBV_WR_SEND_WITH_IMM && w[3]->imm_or_key == 5 && !memcmp(w[3]->data, "xyzuvw", 6));
	CHECK(w[4]->opcode == IBV_WR_SEND_WITH_INV && w[4]->imm_or_key == 6 && !w[4]->count);
	CHECK(w[5]->opcode == IBV_WR_RDMA_READ && w[5]->rdma.rkey == 10 && w[5]->rdma.remote_addr == 11);
	CHECK(w[6]->opcode == IBV_WR_ATOMIC_CMP_AND_SWP && w[6]->rdma.rkey == 12 && w[6]->rdma.remote_addr == 13);
	CHECK(w[6]->atomic.compare_add == 14 && w[6]->atomic.swap == 15 && w[6]->atomic.result.length == 8);
	CHECK(w[7]->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && w[7]->atomic.compare_add == 18 && !w[7]->atomic.swap);
	CHECK(w[8]->opcode == IBV_WR_LOCAL_INV && w[8]->imm_or_key == 19 && !w[8]->flags);
	CHECK(w[9]->opcode == IBV_WR_BIND_MW && w[9]->rdma.rkey == 0x8800 && w[9]->bind.new_rkey == 0x8801);
	CHECK(!w[9]->bind.mr_lkey && w[9]->bind.length == 31 && w[9]->bind.access == 6);
#if RELEASE >= 44
	CHECK(w[10]->opcode == IBV_WR_ATOMIC_WRITE && w[10]->rdma.rkey == 20 && !memcmp(w[10]->data, "12345678", 8));
#endif
#if RELEASE >= 45
	CHECK(w[11]->opcode == IBV_WR_FLUSH && w[11]->rdma.rkey == 22 && w[11]->flush.length == 24);
	CHECK(w[11]->flush.placement == IBV_FLUSH_PERSISTENT && w[11]->flush.level == IBV_FLUSH_MR);
#endif
	last_send->consumer = last_send->producer;
	before = last_send->producer;
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 7, sges);
	CHECK(ibv_wr_complete(qp) == EINVAL && last_send->producer == (unsigned int)before);
	/* Before RTS nothing is posted. */
	qp->qp_base.state = IBV_QPS_RTR;
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	CHECK(ibv_wr_complete(qp) == EINVAL && last_send->producer == (unsigned int)before);
	CHECK(!ops.destroy_qp(&qp->qp_base));

	qp = make_builder(cq, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	CHECK(qp && !qp->wr_rdma_write);
	{
		struct ibv_ah *ah = ops.create_ah(pd, &(struct ibv_ah_attr){});

		w[0] = element(last_send, 0);
		ibv_wr_start(qp);
		ibv_wr_send(qp);
		ibv_wr_set_ud_addr(qp, ah, 5, 6);
		ibv_wr_set_sge(qp, 1, 2, 3);
		CHECK(!ibv_wr_complete(qp) && w[0]->datagram.ah == 4321 && w[0]->datagram.remote_qpn == 5);
		CHECK(w[0]->datagram.remote_qkey == 6 && w[0]->count == 1 && !ops.destroy_ah(ah));
	}
	CHECK(!ops.destroy_qp(&qp->qp_base));
}

/* A program that waits for receives only, in a queue of their own, waits for what it has posted, too. */
static void waits_for_receives(void)
{
	struct ferroce_ring *ring;
	struct ibv_cq *sends = make_cq(&ring), *recvs = make_cq(&ring);
	struct ibv_qp_init_attr attr = { .send_cq = sends, .recv_cq = recvs, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ops.create_qp(pd, &attr);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	int before = doorbells(fd);
	struct ibv_wc wc;

	CHECK(qp);
	qp->state = IBV_QPS_RTS;
	last_send->no_doorbell = 1;
	for (int i = 1; i < 4; i++) {
		post(qp, &wr);
		CHECK(doorbells(fd) == before && !ops.poll_cq(recvs, 1, &wc));
		CHECK(doorbells(fd) == ++before && !ops.poll_cq(recvs, 1, &wc) && doorbells(fd) == before);
	}
	/* While a thread may sleep on either queue, nothing is held back, until it takes a completion. */
	CHECK(!ops.poll_cq(sends, 1, &wc) && !ops.req_notify_cq(recvs, 1));
	before = doorbells(fd);
	post(qp, &wr);
	CHECK(doorbells(fd) == before + 1);
	complete(ring, 0, 1);
	CHECK(ops.poll_cq(recvs, 1, &wc) == 1);
	post(qp, &wr);
	CHECK(doorbells(fd) == before + 1);
	/* A completion of a QP that is destroyed is no program's any more. */
	complete(ring, 1, 2);
	((struct ferroce_cqe *)element(ring, 1))->qp_num = qp->qp_num;
	CHECK(!ops.destroy_qp(qp) && !ops.poll_cq(recvs, 1, &wc) && !ops.poll_cq(sends, 1, &wc));
	CHECK(doorbells(fd) == before + 1 && !ops.destroy_cq(sends) && !ops.destroy_cq(recvs));
}

/* Posts are held back while the kernel has promised to look, until the program waits for them. */
void held_back(void)
{
	struct ferroce_ring *completions;
	struct ibv_cq *cq = make_cq(&completions);
	struct ibv_qp *qp = make_qp(cq, IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	int before = doorbells(fd);

	qp->state = IBV_QPS_RTS;
	post(qp, &wr);
	CHECK(doorbells(fd) == before + 1);
	last_send->no_doorbell = 1;
	for (int i = 0; i < 5; i++)
		post(qp, &wr);
	CHECK(doorbells(fd) == before + 1);
	complete(completions, 0, 1);
	CHECK(ops.poll_cq(cq, 1, &wc) == 1 && doorbells(fd) == before + 1);
	CHECK(ops.poll_cq(cq, 1, &wc) == 0 && doorbells(fd) == before + 2 && doorbell_qp(fd) == qp->handle);
	CHECK(ops.poll_cq(cq, 1, &wc) == 0 && doorbells(fd) == before + 2);
	post(qp, &wr);
	CHECK(doorbells(fd) == before + 2 && !ops.req_notify_cq(cq, 1) && doorbells(fd) == before + 3);
	complete(completions, 1, 1);
	CHECK(ops.poll_cq(cq, 1, &wc) == 1);
	post(qp, &wr);
	CHECK(!ops.modify_qp(qp, &(struct ibv_qp_attr){}, IBV_QP_STATE) && doorbells(fd) == before + 4);
	/* Half a ring of 16. */
	for (int i = 0; i < 8; i++)
		post(qp, &wr);
	CHECK(doorbells(fd) == before + 5);
	last_send->no_doorbell = 0;
	post(qp, &wr);
	CHECK(doorbells(fd) == before + 6);
	/* A QP that is reset has no completions of before, but the others have. */
	CHECK(ops.poll_cq(cq, 1, &wc) == 0);
	for (unsigned int i = 2; i < 5; i++) {
		complete(completions, i, i);
		((struct ferroce_cqe *)element(completions, i))->qp_num = i == 3 ? 6 : qp->qp_num;
	}
	before = doorbells(fd);
	CHECK(!ops.modify_qp(qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE));
	CHECK(ops.poll_cq(cq, 1, &wc) == 1 && wc.wr_id == 3 && ops.poll_cq(cq, 1, &wc) == 0);
	CHECK(!ops.destroy_qp(qp) && ops.poll_cq(cq, 1, &wc) == 0 && doorbells(fd) == before);
	CHECK(!ops.destroy_cq(cq));
	waits_for_receives();
}
