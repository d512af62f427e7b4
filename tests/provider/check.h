/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the check share: see check.c.
 */
#ifndef CHECK_H
#define CHECK_H

#include "stand_in.h"

/* The file of the context, and a domain of it. */
extern int fd;
extern struct ibv_context *context;
extern struct ibv_pd *pd;

void *element(struct ferroce_ring *ring, unsigned int index);

/* Completes the next request, as the kernel would. */
void complete(struct ferroce_ring *ring, unsigned int index, unsigned long long wr_id);

struct ibv_cq *make_cq(struct ferroce_ring **ring);

/* Posts to a shared receive queue, or to that of a QP. */
void receives(struct ibv_srq *srq, struct ibv_qp *qp, struct ferroce_ring *ring);

/* A QP, and one with the functions that are wanted, or null. */
struct ibv_qp *make_qp(struct ibv_cq *cq, enum ibv_qp_type type);
struct ibv_qp_ex *make_builder(struct ibv_cq *cq, enum ibv_qp_type type, unsigned long long wanted);

/* Posts a request, and returns its element. */
struct ferroce_send_wqe *post(struct ibv_qp *qp, struct ibv_send_wr *wr);

void connected(struct ibv_cq *cq);
void datagrams(struct ibv_cq *cq);
void builders(struct ibv_cq *cq);
void extended(struct ibv_cq *cq);
void counters(struct ibv_cq *cq);
void held_back(void);

#endif
