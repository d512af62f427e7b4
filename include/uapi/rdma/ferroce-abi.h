/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * The user ABI of ferroce's own provider.
 *
 * A context has it if the provider asked for it in get_context; else the context has the ABI of rdma_rxe. The layouts
 * are the same on all architectures of a byte order. Fields that are named `reserved` are 0, and a request in which
 * they are not is refused.
 */
#ifndef FERROCE_ABI_H
#define FERROCE_ABI_H

#include <linux/types.h>

/* uverbs_abi_ver of a device whose contexts all have this ABI; the versions below are those of a context. */
#define FERROCE_UVERBS_ABI	100

/* Version of what follows. A provider names the versions that it knows, and the kernel chooses one. */
#define FERROCE_ABI_VERSION	1

/* "FERR". Also the driver id of devices whose contexts all have this ABI. */
#define FERROCE_MAGIC		0x46455252

/* Requests and responses of verbs. */

/* get_context. Without a request, the context has the ABI of rdma_rxe. */
struct ferroce_get_context_req {
	__u32 magic;
	__u16 min_version;
	__u16 max_version;
	/* enum ferroce_feature: what the provider can use. */
	__aligned_u64 features;
};

struct ferroce_get_context_resp {
	__u32 version;
	__u32 reserved;
	/* enum ferroce_feature: what provider and kernel both can use. */
	__aligned_u64 features;
};

enum ferroce_feature {
	/* The kernel sets ferroce_ring.no_doorbell of send queues. */
	FERROCE_FEATURE_NO_DOORBELL = 1 << 0,
};

/* Where a ring is: offset and length for mmap. All 0: there is no such ring. */
struct ferroce_mapping {
	__aligned_u64 offset;
	__u32 size;
	__u32 reserved;
};

/* create_cq, resize_cq */
struct ferroce_cq_resp {
	struct ferroce_mapping ring;
};

/* create_qp */
struct ferroce_create_qp_resp {
	struct ferroce_mapping receive;
	struct ferroce_mapping send;
};

/* create_srq */
struct ferroce_create_srq_resp {
	struct ferroce_mapping ring;
	__u32 srq_num;
	__u32 reserved;
};

/* modify_srq. With IBV_SRQ_MAX_WR, the kernel writes a struct ferroce_mapping to this address. */
struct ferroce_modify_srq_req {
	__aligned_u64 mapping_addr;
};

/* create_ah */
struct ferroce_create_ah_resp {
	__u32 number;
	__u32 reserved;
};

/* create_comp_cntr has this attribute in the driver's range: enum ferroce_comp_cntr_type. Without it, WRS. */
#define FERROCE_ATTR_CREATE_COMP_CNTR_TYPE	0x1000

/* As enum ibv_comp_cntr_type. Failures are counted in requests, whatever the type. */
enum ferroce_comp_cntr_type {
	FERROCE_COMP_CNTR_WRS = 0,
	/* Bytes of payload. */
	FERROCE_COMP_CNTR_BYTES = 1,
};

/* Rings. */

/*
 * The head of a ring; the elements follow. Indices count elements since the ring was made, and wrap around at 2^32; an
 * index modulo `entries` is the place of an element. A queue is empty if both indices are equal, and full if they
 * differ by `entries`. The producer stores its index with a release after it has written the elements, the consumer
 * after it has read them.
 */
struct ferroce_ring {
	/* Shape, written once: number of elements, a power of two, and bytes of each, a power of two. */
	__u32 entries;
	__u32 stride;
	__u32 reserved_shape[14];
	/* Written by the process. Of a completion queue, unused: see ferroce_cqe.turn. */
	__u32 producer;
	__u32 reserved_producer[15];
	/* Written by the kernel. Of a completion queue, by the process. */
	__u32 consumer;
	/*
	 * Of a send queue. Not 0: within a millisecond, the kernel looks at the queue after any store that precedes a
	 * load of this word, with a full barrier in between. So post_send, the doorbell, may be held back. A provider
	 * that holds it back rings when it has polled an empty completion queue, before it arms one or modifies the
	 * queue pair, and before half of the queue waits; else the kernel takes the word back. It stays 0 for a queue
	 * pair with completion counters.
	 */
	__u32 no_doorbell;
	__u32 reserved_consumer[14];
};

struct ferroce_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/* Send queue elements. Opcodes are those of enum ibv_wr_opcode. */

enum ferroce_send_flag {
	/* As in enum ibv_send_flags. */
	FERROCE_SEND_FENCE = 1 << 0,
	FERROCE_SEND_SIGNALED = 1 << 1,
	FERROCE_SEND_SOLICITED = 1 << 2,
	FERROCE_SEND_INLINE = 1 << 3,
};

struct ferroce_rdma {
	__aligned_u64 remote_addr;
	__u32 rkey;
	/* XRC: the shared receive queue of the peer. */
	__u32 remote_srqn;
};

struct ferroce_datagram {
	__u32 remote_qpn;
	__u32 remote_qkey;
	/* ferroce_create_ah_resp.number */
	__u32 ah;
	__u32 reserved;
};

/* In the place of the list: */
struct ferroce_atomic {
	__aligned_u64 compare_add;
	__aligned_u64 swap;
	/* For the value that was there before. */
	struct ferroce_sge result;
};

struct ferroce_atomic_write {
	__aligned_u64 value;
};

struct ferroce_flush {
	__u32 length;
	/* enum ib_placement_type and enum ib_selectivity_level of the kernel. */
	__u8 placement;
	__u8 level;
	__u16 reserved;
};

/* ferroce_rdma has the address, and the key of the memory window as it is. */
struct ferroce_bind {
	__aligned_u64 length;
	__u32 mr_lkey;
	/* The new key of the window: the low byte differs. */
	__u32 new_rkey;
	__u32 access;
	__u32 reserved;
};

struct ferroce_send_wqe {
	__aligned_u64 wr_id;
	__u8 opcode;
	__u8 flags;
	/* SGEs; with FERROCE_SEND_INLINE, bytes of inline data. */
	__u16 count;
	/* Immediate data in network byte order, or the key to invalidate. */
	__u32 imm_or_key;
	union {
		struct ferroce_rdma rdma;
		struct ferroce_datagram datagram;
	};
	union {
		struct ferroce_atomic atomic;
		struct ferroce_atomic_write atomic_write;
		struct ferroce_flush flush;
		struct ferroce_bind bind;
		/* List or inline data, which go on to the end of the element. */
		struct ferroce_sge sges[2];
		__u8 data[32];
	};
};

/* Receive queue elements, of receive queues and of shared ones. The list goes on to the end of the element. */
struct ferroce_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
	struct ferroce_sge sges[];
};

/* Completion queue elements. Status, opcode and flags are those of struct ibv_wc. */
struct ferroce_cqe {
	__aligned_u64 wr_id;
	__u32 status;
	__u32 opcode;
	__u32 vendor_err;
	__u32 byte_len;
	/* Immediate data in network byte order, or the key that was invalidated. */
	__u32 imm_or_key;
	__u32 qp_num;
	__u32 src_qp;
	__u32 wc_flags;
	/* CLOCK_MONOTONIC_RAW, in nanoseconds; 0 unless the queue has IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION. */
	__aligned_u64 timestamp;
	__aligned_u64 reserved;
	__u32 reserved2;
	/*
	 * The index behind this element, written last, with a release. The element is there if this equals the
	 * consumer's index plus one.
	 */
	__u32 turn;
};

#endif
