// SPDX-License-Identifier: GPL-2.0
/* Address handles of a ULP. */

#include "bench.h"

#include <net/ipv6.h>
#include <rdma/ib_cache.h>

static int tells(struct ib_ah *ah, const struct rdma_ah_attr *wanted)
{
	struct rdma_ah_attr found = {};

	must(rdma_query_ah(ah, &found));
	equal(found.type, wanted->type);
	equal(found.port_num, wanted->port_num);
	equal(found.sl, wanted->sl);
	equal(found.ah_flags, wanted->ah_flags);
	equal(found.grh.sgid_index, wanted->grh.sgid_index);
	equal(found.grh.hop_limit, wanted->grh.hop_limit);
	equal(found.grh.traffic_class, wanted->grh.traffic_class);
	equal(found.grh.flow_label, wanted->grh.flow_label);
	equal(memcmp(&found.grh.dgid, &wanted->grh.dgid, sizeof(found.grh.dgid)), 0);
	return 0;
}

/* Sends a datagram, and checks in its IP header that it uses the attributes of the handle. */
static int goes(struct bench *bench, struct ib_ah *ah, const struct rdma_ah_attr *wanted)
{
	const u8 *header = bench->b.bytes;
	struct ib_sge sge = piece(&bench->a, 0, 64);
	struct ib_ud_wr wr = {
		.wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		},
		.ah = ah,
		.remote_qpn = bench->b.qp->qp_num,
		.remote_qkey = QKEY,
	};

	fresh(bench);
	must(receive(&bench->b, 1, GRH + 64));
	must(ib_post_send(bench->a.qp, &wr.wr, NULL));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, NULL));
	equal(memcmp(bench->b.bytes + GRH, bench->a.bytes, 64), 0);
	if (ipv6_addr_v4mapped((const struct in6_addr *)&wanted->grh.dgid)) {
		/* The IPv4 header follows 20 unused bytes. */
		equal(header[20 + 1], wanted->grh.traffic_class);
		equal(header[20 + 8], wanted->grh.hop_limit);
		return 0;
	}
	equal((u8)(header[0] << 4 | header[1] >> 4), wanted->grh.traffic_class);
	equal((header[1] & 0xf) << 16 | header[2] << 8 | header[3], wanted->grh.flow_label);
	equal(header[7], wanted->grh.hop_limit);
	return 0;
}

static int changed_of(struct bench *bench, struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	int i;

	must(tells(ah, attr));
	must(goes(bench, ah, attr));
	for (i = 1; i < 10; i++) {
		attr->sl = i % 8;
		attr->grh.traffic_class = i * 20;
		attr->grh.hop_limit = 64 + i;
		attr->grh.flow_label = 0x12345 * i & 0xfffff;
		must(rdma_modify_ah(ah, attr));
		must(tells(ah, attr));
		must(goes(bench, ah, attr));
	}
	return 0;
}

static int changed(struct bench *bench)
{
	struct rdma_ah_attr attr;
	struct ib_ah *ah;
	int rc;

	must(way(bench, &attr));
	ah = rdma_create_ah(bench->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	must(PTR_ERR_OR_ZERO(ah));
	rc = changed_of(bench, ah, &attr);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return rc;
}

const struct test datagram_tests[] = {
	{ "query_ah returns the attributes that were set, and datagrams use them", IB_QPT_UD, changed },
	{}
};
