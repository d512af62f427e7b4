// SPDX-License-Identifier: GPL-2.0
/* Completion counters, if the release has them. */
#include "check.h"

void counters(struct ibv_cq *cq)
{
#ifdef HAS_COMP_CNTR
	struct ibv_comp_cntr_init_attr attr = { .comp_mask = 1 };
	struct ibv_qp_attach_comp_cntr_attr attach = { .op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_SEND };
	struct ibv_qp *qp = make_qp(cq, IBV_QPT_RC);
	struct ibv_comp_cntr_caps caps = {};
	struct ibv_comp_cntr *counter;
	uint64_t value = 0;

	CHECK(!ops.create_comp_cntr(context, &attr) && errno == EOPNOTSUPP);
	attr = (struct ibv_comp_cntr_init_attr){ .flags = 1 };
	CHECK(!ops.create_comp_cntr(context, &attr) && errno == EOPNOTSUPP);
	attr = (struct ibv_comp_cntr_init_attr){ .type = IBV_COMP_CNTR_TYPE_BYTES + 1 };
	CHECK(!ops.create_comp_cntr(context, &attr) && errno == EOPNOTSUPP);
	/* The file of the context is none of the kernel's. */
	attr.type = IBV_COMP_CNTR_TYPE_BYTES;
	CHECK(!ops.create_comp_cntr(context, &attr) && errno == ENOTTY);
	attr.type = IBV_COMP_CNTR_TYPE_WRS;
	counter = ops.create_comp_cntr(context, &attr);
	CHECK(counter && counter->context == context && counter->handle == 33);
	CHECK(!ops.set_comp_cntr(counter, 5) && !ops.inc_comp_cntr(counter, 2));
	CHECK(!ops.set_err_comp_cntr(counter, 50) && !ops.inc_err_comp_cntr(counter, 20));
	CHECK(!ops.read_comp_cntr(counter, &value) && value == 7);
	CHECK(!ops.read_err_comp_cntr(counter, &value) && value == 70);
	CHECK(!ops.qp_attach_comp_cntr(qp, counter, &attach) && ops.destroy_comp_cntr(counter) == EBUSY);
	CHECK(!ops.query_comp_cntr_caps(context, &caps, sizeof(caps)));
	CHECK(caps.max_counters == 6 && caps.supported_qp_attach_ops == attach.op_mask);
	attach.op_mask = 0;
	CHECK(!ops.qp_attach_comp_cntr(qp, counter, &attach) && !ops.destroy_comp_cntr(counter));
	CHECK(!ops.destroy_qp(qp));
#endif
}
