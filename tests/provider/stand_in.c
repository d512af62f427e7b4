// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for libibverbs and the kernel, for the provider: it has the functions and the layouts of one release,
 * whose headers it is compiled with, and rings as ferroce would make them, in a memory file.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "stand_in.h"

#define TAKES_DOORBELLS (1 << 20)
#define FILE_BYTES (64 << 20)
#define ENTRIES 16
#define SEND_STRIDE 128
#define RECV_STRIDE 64

const struct verbs_device_ops *registered[2];
int registrations;
struct verbs_context_ops ops;
unsigned int abi_version = FERROCE_ABI_VERSION;
unsigned long long abi_features;
int imported_error;
struct ferroce_ring *last_ring, *last_send, *last_receive;

static char *file;
static unsigned int used = TAKES_DOORBELLS;
static unsigned int handle;

int memory_file(void)
{
	int fd = memfd_create("context", 0);

	CHECK(fd >= 0 && !ftruncate(fd, FILE_BYTES));
	file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	return fd;
}

int doorbells(int fd)
{
	off_t end = lseek(fd, 0, SEEK_CUR);

	CHECK(end % sizeof(struct ibv_post_send) == 0);
	return end / sizeof(struct ibv_post_send);
}

unsigned int doorbell_qp(int fd)
{
	struct ibv_post_send *all = (struct ibv_post_send *)file, *last = &all[doorbells(fd) - 1];

	CHECK(last->hdr.command == IB_USER_VERBS_CMD_POST_SEND);
	CHECK(last->hdr.in_words == sizeof(*last) / 4 && last->hdr.out_words == 1);
	CHECK(last->response && last->wr_count == 0 && last->sge_count == 0);
	CHECK(last->wqe_size >= sizeof(struct ib_uverbs_send_wr));
	return last->qp_handle;
}

static struct ferroce_ring *make_ring(struct ferroce_mapping *mapping, unsigned int stride, unsigned int index)
{
	struct ferroce_ring *ring = (struct ferroce_ring *)(file + used);

	ring->entries = ENTRIES;
	ring->stride = stride;
	ring->producer = index;
	ring->consumer = index;
	mapping->offset = used;
	mapping->size = sizeof(*ring) + ENTRIES * stride;
	used += (mapping->size + 4095) & ~4095;
	return ring;
}

/* The library's part of a response, behind that of the core. */
static void *behind(void *resp, size_t core, size_t size, size_t own)
{
	CHECK(size == core + own);
	return (char *)resp + core;
}

void PASTE(verbs_register_driver_, PABI)(const struct verbs_device_ops *device)
{
	registered[registrations++] = device;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size, struct verbs_context *offset,
				    uint32_t driver_id)
{
	char *all = calloc(1, size);
	struct verbs_context *context = (struct verbs_context *)(all + (uintptr_t)offset);

	CHECK(driver_id == FERROCE_MAGIC);
	CHECK(size > sizeof(*context));
	context->context.device = device;
	context->context.cmd_fd = cmd_fd;
	return all;
}

void verbs_uninit_context(struct verbs_context *context)
{
	(void)context;
}

void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *set)
{
	(void)context;
	ops = *set;
}

int ibv_cmd_get_context(struct verbs_context *context, struct ibv_get_context *cmd, size_t cmd_size,
#if PABI >= 57
			struct ibv_fd_arr *fd_arr,
#endif
			struct ib_uverbs_get_context_resp *resp, size_t resp_size)
{
	struct ferroce_get_context_req *req = (void *)((char *)cmd + sizeof(*cmd));
	struct ferroce_get_context_resp *own = behind(resp, sizeof(*resp), resp_size, sizeof(*own));

#if PABI >= 57
	CHECK(!fd_arr);
#endif
	CHECK(context && cmd_size == sizeof(*cmd) + sizeof(*req));
	CHECK(req->magic == FERROCE_MAGIC && req->min_version == 1 && req->max_version == 1);
	CHECK(req->features == FERROCE_FEATURE_NO_DOORBELL);
	own->version = abi_version;
	own->features = abi_features;
	return 0;
}

int ibv_cmd_query_device_any(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp, size_t *resp_size)
{
	CHECK(context && !input && attr && attr_size == sizeof(*attr) && *resp_size == sizeof(*resp));
	resp->base.fw_ver = 1ULL << 32 | 2 << 16 | 34;
	return 0;
}

int ibv_cmd_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		       struct ibv_query_port *cmd, size_t cmd_size)
{
	CHECK(context && port == 1 && cmd && cmd_size == sizeof(*cmd));
	attr->max_msg_sz = 77;
	return 0;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	CHECK(cmd && cmd_size == sizeof(*cmd) && resp && resp_size == sizeof(*resp));
	pd->context = context;
	pd->handle = ++handle;
	return 0;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access, struct verbs_mr *vmr,
		   struct ibv_reg_mr *cmd, size_t cmd_size, struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	CHECK(cmd && cmd_size == sizeof(*cmd) && resp && resp_size == sizeof(*resp));
	CHECK(hca_va == (uintptr_t)addr && length == 4096 && access == 7);
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.lkey = 0x1234;
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_sz, struct ib_uverbs_rereg_mr_resp *resp,
		     size_t resp_sz)
{
	CHECK(vmr && flags == IBV_REREG_MR_CHANGE_ACCESS && !addr && !length && !hca_va && access == 1 && !pd);
	CHECK(cmd && cmd_sz == sizeof(*cmd) && resp && resp_sz == sizeof(*resp));
	return 0;
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int buffer, int access,
			  struct verbs_mr *vmr
#if RELEASE >= 54
			  , struct ibv_command_buffer *driver
#endif
)
{
#if RELEASE >= 54
	CHECK(!driver);
#endif
	CHECK(offset == 1ULL << 40 && length == 1ULL << 41 && iova == 1ULL << 42 && buffer == 5 && access == 6);
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.lkey = 0x2345;
	return 0;
}

int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list,
		      uint32_t num_sge)
{
	CHECK(pd && advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	CHECK(flags == 1 && sg_list->length == 7 && num_sge == 2);
	return EFAULT;
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t mr_handle)
{
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.handle = mr_handle;
	vmr->ibv_mr.lkey = 0x3456;
	return 0;
}

int ibv_cmd_query_context(struct ibv_context *context, struct ibv_command_buffer *driver)
{
	CHECK(context && !driver);
	return imported_error;
}

int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr, struct ibv_modify_cq *cmd, size_t cmd_size)
{
	CHECK(cq && attr->moderate.cq_count == 8 && cmd && cmd_size == sizeof(*cmd));
	return 0;
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp, size_t resp_size)
{
	CHECK(cmd && cmd_size == sizeof(*cmd) && resp && resp_size == sizeof(*resp));
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = 0x56ff;
	return 0;
}

static void made_cq(struct ibv_context *context, struct ibv_cq *cq, void *own)
{
	cq->context = context;
	cq->handle = ++handle;
	cq->cqe = ENTRIES;
	last_ring = make_ring(own, sizeof(struct ferroce_cqe), 0);
}

int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
		      struct ibv_cq *cq, struct ibv_create_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_create_cq_resp *resp, size_t resp_size)
{
	CHECK(cqe == 10 && !channel && comp_vector == 1 && !cmd && !cmd_size);
	made_cq(context, cq, behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_cq_resp)));
	return 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
#if PABI >= 59
			 struct verbs_create_cq_prov_attr *prov_attr,
#endif
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t cmd_flags)
{
#if PABI >= 59
	CHECK(!prov_attr);
#endif
	CHECK(attr->cqe == 10 && !cmd && !cmd_size && !cmd_flags);
	made_cq(context, &cq->cq, behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_cq_resp)));
	return 0;
}

int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	CHECK(cq && solicited_only == 1);
	return 0;
}

int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size)
{
	struct ferroce_cq_resp *own = behind(resp, sizeof(*resp), resp_size, sizeof(*own));

	CHECK(cq && cqe == 12 && cmd && cmd_size == sizeof(*cmd));
	/* Two completions have been polled, say. */
	last_ring = make_ring(&own->ring, sizeof(struct ferroce_cqe), 2);
	return 0;
}

static void made_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ferroce_create_srq_resp *own)
{
	srq->context = pd->context;
	srq->pd = pd;
	srq->handle = ++handle;
	last_ring = make_ring(&own->ring, RECV_STRIDE, 0);
	own->srq_num = 99;
}

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size, struct ib_uverbs_create_srq_resp *resp,
		       size_t resp_size)
{
	CHECK(cmd && cmd_size == sizeof(*cmd));
	attr->attr.max_sge = 3;
	made_srq(pd, srq, behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_create_srq_resp)));
	return 0;
}

int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd, int size, struct ibv_xrcd_init_attr *attr,
		      struct ibv_open_xrcd *cmd, size_t cmd_size, struct ib_uverbs_open_xrcd_resp *resp,
		      size_t resp_size)
{
	CHECK(size == sizeof(*xrcd) && attr->fd == 77 && cmd && cmd_size == sizeof(*cmd));
	CHECK(resp && resp_size == sizeof(*resp));
	xrcd->xrcd.context = context;
	xrcd->handle = ++handle;
	return 0;
}

int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd)
{
	CHECK(xrcd && xrcd->handle);
	return 0;
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq, struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size, struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size)
{
	CHECK(context && cmd && cmd_size == sizeof(*cmd));
	attr->attr.max_sge = 3;
	made_srq(attr->pd, &srq->srq, behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_create_srq_resp)));
	return 0;
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask, struct ibv_modify_srq *cmd,
		       size_t cmd_size)
{
	struct ferroce_modify_srq_req *req = (void *)((char *)cmd + sizeof(*cmd));

	CHECK(srq && attr && cmd_size == sizeof(*cmd) + sizeof(*req));
	if (mask & IBV_SRQ_MAX_WR)
		last_ring = make_ring((void *)(uintptr_t)req->mapping_addr, RECV_STRIDE, 5);
	return 0;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, struct ibv_query_srq *cmd, size_t cmd_size)
{
	CHECK(srq && attr && cmd && cmd_size == sizeof(*cmd));
	return 0;
}

static void made_qp(struct ibv_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		    struct ferroce_create_qp_resp *own)
{
	qp->context = pd ? pd->context : NULL;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->handle = ++handle;
	qp->qp_num = 100 + handle;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	attr->cap.max_send_sge = 6;
	attr->cap.max_recv_sge = 3;
	attr->cap.max_inline_data = 96;
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		last_send = make_ring(&own->send, SEND_STRIDE, 0);
	if (!attr->srq && attr->qp_type != IBV_QPT_XRC_SEND && attr->qp_type != IBV_QPT_XRC_RECV)
		last_receive = make_ring(&own->receive, RECV_STRIDE, 0);
}

int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr, struct ibv_create_qp *cmd,
		      size_t cmd_size, struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	CHECK(cmd && cmd_size == sizeof(*cmd));
	made_qp(qp, pd, attr, behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_create_qp_resp)));
	return 0;
}

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp, struct ibv_qp_init_attr_ex *attr,
			  struct ibv_create_qp_ex *cmd, size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp,
			  size_t resp_size
#if PABI >= 64
			  , struct ibv_command_buffer *driver
#endif
)
{
#if PABI >= 64
	CHECK(!driver);
#endif
	CHECK(context && cmd && cmd_size == sizeof(*cmd));
	qp->comp_mask = 0;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) {
		qp->comp_mask = VERBS_QP_XRCD;
		qp->xrcd = (struct verbs_xrcd *)attr->xrcd;
	}
	made_qp(&qp->qp, attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL, (struct ibv_qp_init_attr *)attr,
		behind(resp, sizeof(*resp), resp_size, sizeof(struct ferroce_create_qp_resp)));
	return 0;
}

int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp, int size, struct ibv_qp_open_attr *attr,
		    struct ibv_open_qp *cmd, size_t cmd_size, struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	CHECK(size >= (int)sizeof(*qp) && cmd && cmd_size == sizeof(*cmd) && resp && resp_size == sizeof(*resp));
	qp->qp.context = context;
	qp->qp.qp_num = attr->qp_num;
	qp->qp.state = IBV_QPS_UNKNOWN;
	qp->comp_mask = VERBS_QP_XRCD;
	qp->xrcd = (struct verbs_xrcd *)attr->xrcd;
	return 0;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init,
		     struct ibv_query_qp *cmd, size_t cmd_size)
{
	CHECK(qp && attr && mask && init && cmd && cmd_size == sizeof(*cmd));
	return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_modify_qp *cmd,
		      size_t cmd_size)
{
	CHECK(qp && attr && mask && cmd && cmd_size == sizeof(*cmd));
	return 0;
}

int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah, struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size)
{
	struct ferroce_create_ah_resp *own = behind(resp, sizeof(*resp), resp_size, sizeof(*own));

	CHECK(attr);
	ah->context = pd->context;
	own->number = 4321;
	return 0;
}

int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	CHECK(qp && gid && lid == 3);
	return 0;
}

int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	CHECK(qp && gid && lid == 4);
	return 0;
}

#define ENDS(name, type)                                                                                               \
	int name(type *object)                                                                                         \
	{                                                                                                              \
		CHECK(object);                                                                                         \
		return 0;                                                                                              \
	}

ENDS(ibv_cmd_dealloc_pd, struct ibv_pd)
ENDS(ibv_cmd_dereg_mr, struct verbs_mr)
ENDS(ibv_cmd_dealloc_mw, struct ibv_mw)
ENDS(ibv_cmd_destroy_cq, struct ibv_cq)
ENDS(ibv_cmd_destroy_srq, struct ibv_srq)
ENDS(ibv_cmd_destroy_qp, struct ibv_qp)
ENDS(ibv_cmd_destroy_ah, struct ibv_ah)

#ifdef HAS_COMP_CNTR
/* The values of the only counter, and what it has been attached for. */
static uint64_t counted[2];
static uint32_t attached;

int ibv_cmd_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size)
{
	CHECK(context && size == sizeof(*caps));
	*caps = (struct ibv_comp_cntr_caps){ .max_value = 5, .max_counters = 6, .supported_qp_attach_ops = attached };
	return 0;
}

int ibv_cmd_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr *counter,
			     struct ibv_command_buffer *link)
{
	CHECK(context && counter && !link);
	counter->context = context;
	counter->handle = 33;
	return 0;
}

int ibv_cmd_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
	CHECK(counter->handle == 33);
	return attached ? EBUSY : 0;
}

#define CHANGES(name, change)                                                                                          \
	int name(struct ibv_comp_cntr *counter, uint64_t value)                                                        \
	{                                                                                                              \
		CHECK(counter->handle == 33);                                                                          \
		change value;                                                                                          \
		return 0;                                                                                              \
	}

CHANGES(ibv_cmd_set_comp_cntr, counted[0] =)
CHANGES(ibv_cmd_set_err_comp_cntr, counted[1] =)
CHANGES(ibv_cmd_inc_comp_cntr, counted[0] +=)
CHANGES(ibv_cmd_inc_err_comp_cntr, counted[1] +=)

#define READS(name, value_read)                                                                                        \
	int name(struct ibv_comp_cntr *counter, uint64_t *value)                                                       \
	{                                                                                                              \
		CHECK(counter->handle == 33);                                                                          \
		*value = value_read;                                                                                   \
		return 0;                                                                                              \
	}

READS(ibv_cmd_read_comp_cntr, counted[0])
READS(ibv_cmd_read_err_comp_cntr, counted[1])

int ibv_cmd_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
				struct ibv_qp_attach_comp_cntr_attr *attr)
{
	CHECK(qp->handle && counter->handle == 33);
	attached = attr->op_mask;
	return 0;
}
#endif

#ifdef HAS_PORT_SPEED
int ibv_cmd_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed)
{
	CHECK(context && port_num == 1);
	*speed = 1ULL << 33;
	return 0;
}
#endif
