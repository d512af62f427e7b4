// SPDX-License-Identifier: GPL-2.0
/*
 * check LIBRARY: loads the provider over the stand-in (see stand_in.c), calls all its operations, and compares what it
 * writes to rings with include/uapi/rdma/ferroce-abi.h.
 *
 * check LIBRARY unknown: the provider registers nothing with this stand-in.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static struct verbs_device *device;

int fd;
struct ibv_context *context;
struct ibv_pd *pd;

void *element(struct ferroce_ring *ring, unsigned int index)
{
	return (char *)(ring + 1) + (index % ring->entries) * ring->stride;
}

/* Completes the next request, as the kernel would. */
void complete(struct ferroce_ring *ring, unsigned int index, unsigned long long wr_id)
{
	struct ferroce_cqe *cqe = element(ring, index);

	*cqe = (struct ferroce_cqe){ .wr_id = wr_id,
				     .status = IBV_WC_REM_OP_ERR,
				     .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
				     .vendor_err = 3,
				     .byte_len = 4,
				     .imm_or_key = 5,
				     .qp_num = 6,
				     .src_qp = 7,
				     .wc_flags = IBV_WC_WITH_IMM,
				     .timestamp = 8 };
	__atomic_store_n(&cqe->turn, index + 1, __ATOMIC_RELEASE);
}

static void registration(void)
{
	const struct verbs_device_ops *own = registered[0], *as_rxe = registered[1];
	static struct verbs_sysfs_dev dev = { .driver_id = FERROCE_MAGIC };

	CHECK(registrations == 2);
	CHECK(!strcmp(own->name, "ferroce") && !own->match_device);
	CHECK(own->match_min_abi_version == FERROCE_UVERBS_ABI && own->match_max_abi_version == FERROCE_UVERBS_ABI);
	CHECK(own->match_table[0].kind == VERBS_MATCH_DRIVER_ID && own->match_table[0].u.driver_id == FERROCE_MAGIC);
	CHECK(own->match_table[1].kind == VERBS_MATCH_SENTINEL);
	CHECK(as_rxe->match_min_abi_version == 2 && as_rxe->match_max_abi_version == 2);
	CHECK(as_rxe->match_table[0].u.driver_id == RDMA_DRIVER_RXE);
	CHECK(as_rxe->match_table[1].kind == VERBS_MATCH_SENTINEL);
	dev.driver_id = RDMA_DRIVER_RXE;
	strcpy(dev.ibdev_path, "/sys/class/infiniband/there-is-no-such-device");
	CHECK(!as_rxe->match_device(&dev));
	dev.driver_id = FERROCE_MAGIC;
	device = own->alloc_device(&dev);
	CHECK(device);
	device->sysfs = &dev;
	strcpy(device->device.name, "fr0");
}

static void contexts(void)
{
	struct verbs_context *made;

	abi_version = 0;
	errno = 0;
	CHECK(!registered[0]->alloc_context(&device->device, fd, NULL) && errno == EPROTONOSUPPORT);
	abi_version = FERROCE_ABI_VERSION;
	abi_features = FERROCE_FEATURE_NO_DOORBELL;
	made = registered[0]->alloc_context(&device->device, fd, NULL);
	CHECK(made);
	context = &made->context;
}

/* A context, a domain and a region that another library made. */
static void imports(void)
{
	struct verbs_context *made;
	struct ibv_pd *other;
	struct ibv_mr *mr;

	imported_error = EOPNOTSUPP;
	errno = 0;
	CHECK(!registered[0]->import_context(&device->device, fd) && errno == EOPNOTSUPP);
	imported_error = 0;
	made = registered[0]->import_context(&device->device, fd);
	CHECK(made);
	other = ops.import_pd(&made->context, 77);
	CHECK(other && other->context == &made->context && other->handle == 77);
	mr = ops.import_mr(other, 78);
	CHECK(mr && mr->handle == 78 && mr->lkey == 0x3456 && mr->pd == other);
	ops.unimport_mr(mr);
	ops.unimport_pd(other);
	ops.free_context(&made->context);
}

/* Of a parent domain the kernel knows nothing; it must go before the domains that it refers to. */
static void domains(void)
{
	struct ibv_td_init_attr thread = { .comp_mask = 1 };
	struct ibv_parent_domain_init_attr attr = { .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	struct ibv_pd *parent, *below = ops.alloc_pd(context);
	struct ibv_td *td;

	CHECK(!ops.alloc_td(context, &thread) && errno == EOPNOTSUPP);
	thread.comp_mask = 0;
	td = ops.alloc_td(context, &thread);
	CHECK(below && td && td->context == context);
	CHECK(!ops.alloc_parent_domain(context, &attr) && errno == EINVAL);
	attr.pd = below;
	attr.td = td;
	CHECK(!ops.alloc_parent_domain(context, &attr) && errno == EOPNOTSUPP);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	parent = ops.alloc_parent_domain(context, &attr);
	CHECK(parent && parent->context == context && parent->handle == below->handle);
	CHECK(ops.dealloc_td(td) == EBUSY && ops.dealloc_pd(below) == EBUSY);
	CHECK(!ops.dealloc_pd(parent) && !ops.dealloc_td(td) && !ops.dealloc_pd(below));
}

static void queries(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_port_attr port = {};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(!ops.query_device_ex(context, NULL, &attr, sizeof(attr)));
	CHECK(!strcmp(attr.orig_attr.fw_ver, "1.2.34"));
	CHECK(!ops.query_port(context, 1, &port) && port.max_msg_sz == 77);
#ifdef HAS_PORT_SPEED
	{
		uint64_t speed = 0;

		CHECK(!ops.query_port_speed(context, 1, &speed) && speed == 1ULL << 33);
	}
#endif
	CHECK(!ops.query_rt_values(context, &values) && values.raw_clock.tv_sec + values.raw_clock.tv_nsec > 0);
}

static void memory(void)
{
	static char page[4096];
	struct ibv_mr *mr = ops.reg_mr(pd, page, sizeof(page), (uintptr_t)page, 7);
	struct ibv_mw *mw = ops.alloc_mw(pd, IBV_MW_TYPE_1);

	CHECK(mr && mr->lkey == 0x1234 && mw && mw->type == IBV_MW_TYPE_1);
	CHECK(!ops.rereg_mr((struct verbs_mr *)mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1));
	CHECK(!ops.dereg_mr((struct verbs_mr *)mr) && !ops.dealloc_mw(mw));
	mr = ops.reg_dmabuf_mr(pd, 1ULL << 40, 1ULL << 41, 1ULL << 42, 5, 6);
	CHECK(mr && mr->lkey == 0x2345 && !ops.dereg_mr((struct verbs_mr *)mr));
	CHECK(ops.advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, &(struct ibv_sge){ .length = 7 }, 2) == EFAULT);
}

struct ibv_cq *make_cq(struct ferroce_ring **ring)
{
	struct ibv_cq *cq = ops.create_cq(context, 10, NULL, 1);

	CHECK(cq);
	*ring = last_ring;
	return cq;
}

static void polling(void)
{
	struct ferroce_ring *ring;
	struct ibv_cq *cq = make_cq(&ring);
	struct ibv_wc wc[40] = {};

	CHECK(ops.poll_cq(cq, 40, wc) == 0);
	for (unsigned int i = 0; i < 3; i++)
		complete(ring, i, 50 + i);
	CHECK(ops.poll_cq(cq, 2, wc) == 2 && ring->consumer == 2);
	CHECK(ops.poll_cq(cq, 40, wc + 2) == 1 && ring->consumer == 3);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK(wc[i].wr_id == 50 + i && wc[i].status == IBV_WC_REM_OP_ERR);
		CHECK(wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc[i].vendor_err == 3 && wc[i].byte_len == 4);
		CHECK(wc[i].imm_data == 5 && wc[i].qp_num == 6 && wc[i].src_qp == 7);
		CHECK(wc[i].wc_flags == IBV_WC_WITH_IMM && !wc[i].slid && !wc[i].sl && !wc[i].pkey_index);
	}
	CHECK(ops.poll_cq(cq, 40, wc) == 0 && ops.poll_cq(cq, 0, wc) == 0);
	CHECK(!ops.req_notify_cq(cq, 1));
	CHECK(!ops.modify_cq(cq, &(struct ibv_modify_cq_attr){ .moderate.cq_count = 8 }));
	CHECK(!ops.resize_cq(cq, 12) && last_ring != ring);
	CHECK(ops.poll_cq(cq, 40, wc) == 0);
	complete(last_ring, 2, 60);
	CHECK(ops.poll_cq(cq, 40, wc) == 1 && wc[0].wr_id == 60);
	CHECK(!ops.destroy_cq(cq));
}

static void reading(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .wc_flags = IBV_WC_EX_WITH_CVLAN };
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *cq;
	struct ferroce_ring *ring;

	errno = 0;
	CHECK(!ops.create_cq_ex(context, &attr) && errno == EOPNOTSUPP);
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	cq = ops.create_cq_ex(context, &attr);
	CHECK(cq && !cq->read_completion_ts && !cq->read_cvlan);
	ring = last_ring;
	CHECK(ibv_start_poll(cq, &poll) == ENOENT);
	for (unsigned int i = 0; i < 3; i++)
		complete(ring, i, 70 + i);
	CHECK(!ibv_start_poll(cq, &poll) && cq->wr_id == 70 && cq->status == IBV_WC_REM_OP_ERR);
	CHECK(!ibv_next_poll(cq) && cq->wr_id == 71);
	CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM && ibv_wc_read_vendor_err(cq) == 3);
	CHECK(ibv_wc_read_byte_len(cq) == 4 && ibv_wc_read_imm_data(cq) == 5 && ibv_wc_read_qp_num(cq) == 6);
	CHECK(ibv_wc_read_src_qp(cq) == 7 && ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM);
	CHECK(!ibv_wc_read_slid(cq) && !ibv_wc_read_sl(cq) && !ibv_wc_read_dlid_path_bits(cq));
	ibv_end_poll(cq);
	CHECK(ring->consumer == 2);
	CHECK(!ibv_start_poll(cq, &poll) && cq->wr_id == 72 && ibv_next_poll(cq) == ENOENT);
	ibv_end_poll(cq);
	CHECK(ring->consumer == 3 && ibv_start_poll(cq, &poll) == ENOENT);
	CHECK(!ops.destroy_cq(ibv_cq_ex_to_cq(cq)));
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 4;
	CHECK(!ops.create_cq_ex(context, &attr) && errno == EOPNOTSUPP);
}

/* A queue of one thread, whose completions have times. */
static void times(void)
{
	struct ibv_td_init_attr thread = {};
	struct ibv_parent_domain_init_attr parent = { .pd = pd, .td = ops.alloc_td(context, &thread) };
	struct ibv_cq_init_attr_ex attr = { .cqe = 10,
					    .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
							IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
					    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN };
	struct timespec raw, wall;
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *cq;
	long long from, to;

	attr.parent_domain = ops.alloc_parent_domain(context, &parent);
	CHECK(attr.parent_domain);
	cq = ops.create_cq_ex(context, &attr);
	CHECK(cq && !cq->read_byte_len);
	complete(last_ring, 0, 90);
	clock_gettime(CLOCK_REALTIME, &wall);
	clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
	from = (wall.tv_sec - raw.tv_sec) * 1000000000LL + wall.tv_nsec - raw.tv_nsec;
	CHECK(!ibv_start_poll(cq, &poll) && cq->wr_id == 90 && ibv_wc_read_completion_ts(cq) == 8);
	to = ibv_wc_read_completion_wallclock_ns(cq) - 8;
	CHECK(to > from - 1000000000 && to < from + 1000000000);
	/* No lock is held that a second begin would wait for. */
	CHECK(ibv_start_poll(cq, &poll) == ENOENT);
	ibv_end_poll(cq);
	CHECK(!ops.destroy_cq(ibv_cq_ex_to_cq(cq)));
	CHECK(!ops.dealloc_pd(attr.parent_domain) && !ops.dealloc_td(parent.td));
}

static void shared_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { 10, 2, 0 } };
	struct ibv_srq_init_attr_ex ex = { .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					   .pd = pd,
					   .srq_type = IBV_SRQT_TM };
	struct ibv_srq_attr change = {};
	struct ibv_srq *srq = ops.create_srq(pd, &attr);
	struct ibv_recv_wr wr = { .wr_id = 9 }, *bad;
	uint32_t number;

	CHECK(srq);
	CHECK(!ops.get_srq_num(srq, &number) && number == 99);
	CHECK(!ops.query_srq(srq, &change));
	{
		struct ferroce_ring *ring = last_ring;
		struct ibv_recv_wr first = { .wr_id = 1 };

		CHECK(!ops.post_srq_recv(srq, &first, &bad) && ring->producer == 1);
	}
	CHECK(!ops.modify_srq(srq, &change, IBV_SRQ_LIMIT));
	CHECK(!ops.modify_srq(srq, &change, IBV_SRQ_MAX_WR));
	CHECK(!ops.post_srq_recv(srq, &wr, &bad) && last_ring->producer == 6);
	CHECK(((struct ferroce_recv_wqe *)element(last_ring, 5))->wr_id == 9);
	CHECK(!ops.destroy_srq(srq));
	errno = 0;
	CHECK(!ops.create_srq_ex(context, &ex) && errno == EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_BASIC;
	srq = ops.create_srq_ex(context, &ex);
	CHECK(srq);
	receives(srq, NULL, last_ring);
	CHECK(!ops.destroy_srq(srq));
}

int main(int argc, char **argv)
{
	struct ferroce_ring *ring;
	struct ibv_cq *cq;

	CHECK(argc >= 2);
	fd = memory_file();
	if (!dlopen(argv[1], RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (argc > 2) {
		CHECK(!registrations);
		return 0;
	}
	registration();
	contexts();
	imports();
	pd = ops.alloc_pd(context);
	CHECK(pd);
	domains();
	queries();
	memory();
	polling();
	reading();
	times();
	shared_receives();
	cq = make_cq(&ring);
	connected(cq);
	datagrams(cq);
	builders(cq);
	extended(cq);
	counters(cq);
	held_back();
	CHECK(!ops.destroy_cq(cq) && !ops.dealloc_pd(pd));
	ops.free_context(context);
	registered[0]->uninit_device(device);
	return 0;
}
