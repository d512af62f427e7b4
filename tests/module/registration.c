// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: b registers memory of its buffer by work requests, and its peer a reads and writes it
 * with the key.
 */

#include "bench.h"

#include <linux/scatterlist.h>

#define PAGES 16

static int reg(struct end *end, struct ib_mr *mr, u32 key, enum ib_wc_status status)
{
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = mr,
		.key = key,
		.access = EVERY_RIGHT,
	};

	must(ib_post_send(end->qp, &wr.wr, NULL));
	return completes(end, status, NULL);
}

static int invalidate(struct end *end, u32 key)
{
	must(request(end, IB_WR_LOCAL_INV, 0, key));
	return completes(end, IB_WC_SUCCESS, NULL);
}

int map(struct end *end, struct ib_mr *mr, u32 offset, u32 length, u32 page_size)
{
	struct scatterlist sg;

	sg_init_one(&sg, end->bytes + offset, length);
	equal(ib_dma_map_sg(end->qp->device, &sg, 1, DMA_BIDIRECTIONAL), 1);
	equal(ib_map_mr_sg(mr, &sg, 1, NULL, page_size), 1);
	equal(mr->length, length);
	return reg(end, mr, mr->rkey, IB_WC_SUCCESS);
}

/* Checks that these bytes of b's buffer equal a's first ones, and that all others are zero. */
static int only(const struct bench *bench, u32 offset, u32 length)
{
	const u8 *bytes = bench->b.bytes;

	equal(memcmp(bytes + offset, bench->a.bytes, length), 0);
	equal(memchr_inv(bytes, 0, offset), NULL);
	equal(memchr_inv(bytes + offset + length, 0, BYTES - offset - length), NULL);
	return 0;
}

static int write_to(struct bench *bench, u64 remote, u32 key, u32 length,
		    enum ib_wc_status status)
{
	return rdma(&bench->a, IB_WR_RDMA_WRITE, piece(&bench->a, 0, length), remote, key, status);
}

static int sizes_and_offsets_of(struct bench *bench, struct ib_mr *mr)
{
	static const u32 page_sizes[] = { PAGE_SIZE, 2 * PAGE_SIZE, BYTES };
	static const u32 places[][2] = {
		{ 0, PAGE_SIZE }, { 1, 1 }, { 123, 5000 }, { PAGE_SIZE - 1, 2 },
		{ 3 * PAGE_SIZE + 5, 2 * PAGE_SIZE }, { 0, BYTES }, { 100, BYTES - 101 },
	};
	int i, j;

	for (i = 0; i < ARRAY_SIZE(page_sizes); i++) {
		for (j = 0; j < ARRAY_SIZE(places); j++) {
			u32 offset = places[j][0], length = places[j][1];

			fresh(bench);
			must(map(&bench->b, mr, offset, length, page_sizes[i]));
			must(write_to(bench, mr->iova, mr->rkey, length, IB_WC_SUCCESS));
			must(only(bench, offset, length));
			must(invalidate(&bench->b, mr->rkey));
			ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey) & 0xff);
		}
	}
	/* And not one byte more. */
	fresh(bench);
	must(map(&bench->b, mr, 123, 5000, PAGE_SIZE));
	must(write_to(bench, mr->iova, mr->rkey, 5001, IB_WC_REM_ACCESS_ERR));
	return only(bench, 0, 0);
}

int with_region(struct bench *bench, int (*run)(struct bench *, struct ib_mr *), u32 pages)
{
	struct ib_mr *mr = ib_alloc_mr(bench->pd, IB_MR_TYPE_MEM_REG, pages);
	int rc;

	must(PTR_ERR_OR_ZERO(mr));
	rc = run(bench, mr);
	return ib_dereg_mr(mr) ?: rc;
}

static int sizes_and_offsets(struct bench *bench)
{
	return with_region(bench, sizes_and_offsets_of, PAGES);
}

/* Separate pages: the first from its middle, the last up to its middle. */
static void scattered(struct bench *bench, struct scatterlist *sg)
{
	sg_init_table(sg, 3);
	sg_set_buf(&sg[0], bench->b.bytes + 100, PAGE_SIZE - 100);
	sg_set_buf(&sg[1], bench->b.bytes + 5 * PAGE_SIZE, PAGE_SIZE);
	sg_set_buf(&sg[2], bench->b.bytes + 3 * PAGE_SIZE, 77);
	ib_dma_map_sg(bench->device, sg, 3, DMA_BIDIRECTIONAL);
}

static int several_pieces_of(struct bench *bench, struct ib_mr *mr)
{
	const u8 *from = bench->a.bytes, *to = bench->b.bytes;
	struct scatterlist sg[3];
	unsigned int skip;

	scattered(bench, sg);
	for (skip = 0; skip <= 50; skip += 50) {
		u32 first = PAGE_SIZE - 100 - skip;
		unsigned int offset = skip;

		fresh(bench);
		equal(ib_map_mr_sg(mr, sg, 3, skip ? &offset : NULL, PAGE_SIZE), 3);
		equal(mr->length, first + PAGE_SIZE + 77);
		must(reg(&bench->b, mr, mr->rkey, IB_WC_SUCCESS));
		must(write_to(bench, mr->iova, mr->rkey, mr->length, IB_WC_SUCCESS));
		equal(memcmp(to + 100 + skip, from, first), 0);
		equal(memcmp(to + 5 * PAGE_SIZE, from + first, PAGE_SIZE), 0);
		equal(memcmp(to + 3 * PAGE_SIZE, from + first + PAGE_SIZE, 77), 0);
		equal(memchr_inv(to, 0, 100 + skip), NULL);
		equal(memchr_inv(to + PAGE_SIZE, 0, 2 * PAGE_SIZE), NULL);
		equal(memchr_inv(to + 3 * PAGE_SIZE + 77, 0, 2 * PAGE_SIZE - 77), NULL);
		must(invalidate(&bench->b, mr->rkey));
	}
	return 0;
}

static int several_pieces(struct bench *bench)
{
	return with_region(bench, several_pieces_of, PAGES);
}

static int what_does_not_fit_of(struct bench *bench, struct ib_mr *mr)
{
	struct scatterlist sg[3];
	unsigned int offset = 0;

	/* A gap in the middle of a page: only the bytes before it are mapped. */
	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], bench->b.bytes, 100);
	sg_set_buf(&sg[1], bench->b.bytes + 2 * PAGE_SIZE, 100);
	ib_dma_map_sg(bench->device, sg, 2, DMA_BIDIRECTIONAL);
	equal(ib_map_mr_sg(mr, sg, 2, NULL, PAGE_SIZE), 1);
	equal(mr->length, 100);
	/* More pages than the region holds: as many as fit are mapped. */
	scattered(bench, sg);
	equal(ib_map_mr_sg(mr, sg, 3, &offset, PAGE_SIZE), 2);
	equal(mr->length, 2 * PAGE_SIZE - 100);
	must(reg(&bench->b, mr, mr->rkey, IB_WC_SUCCESS));
	must(write_to(bench, mr->iova, mr->rkey, mr->length, IB_WC_SUCCESS));
	equal(memcmp(bench->b.bytes + 100, bench->a.bytes, PAGE_SIZE - 100), 0);
	must(write_to(bench, mr->iova, mr->rkey, mr->length + 1, IB_WC_REM_ACCESS_ERR));
	equal(bench->b.bytes[3 * PAGE_SIZE], 0);
	return 0;
}

static int what_does_not_fit(struct bench *bench)
{
	return with_region(bench, what_does_not_fit_of, 2);
}

static int invalidated_of(struct bench *bench, struct ib_mr *mr)
{
	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	must(invalidate(&bench->b, mr->rkey));
	must(write_to(bench, mr->iova, mr->rkey, 8, IB_WC_REM_ACCESS_ERR));
	return only(bench, 0, 0);
}

static int invalidated(struct bench *bench)
{
	return with_region(bench, invalidated_of, PAGES);
}

static int rekeyed_of(struct bench *bench, struct ib_mr *mr)
{
	u32 old = mr->rkey;

	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	must(invalidate(&bench->b, old));
	ib_update_fast_reg_key(mr, (old + 1) & 0xff);
	/* The page list stays, so the region can be registered again without mapping. */
	must(reg(&bench->b, mr, mr->rkey, IB_WC_SUCCESS));
	must(write_to(bench, mr->iova, mr->rkey, 8, IB_WC_SUCCESS));
	must(only(bench, 0, 8));
	fresh(bench);
	must(write_to(bench, mr->iova, old, 8, IB_WC_REM_ACCESS_ERR));
	return only(bench, 0, 0);
}

static int rekeyed(struct bench *bench)
{
	return with_region(bench, rekeyed_of, PAGES);
}

static int registered_twice_of(struct bench *bench, struct ib_mr *mr)
{
	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	return reg(&bench->b, mr, mr->rkey, IB_WC_MW_BIND_ERR);
}

static int registered_twice(struct bench *bench)
{
	return with_region(bench, registered_twice_of, PAGES);
}

static int by_the_peer_of(struct bench *bench, struct ib_mr *mr)
{
	struct ib_wc wc;

	must(map(&bench->b, mr, 0, PAGE_SIZE, PAGE_SIZE));
	must(receive(&bench->b, 1, 64));
	must(request(&bench->a, IB_WR_SEND_WITH_INV, 8, mr->rkey));
	must(completes(&bench->a, IB_WC_SUCCESS, NULL));
	must(completes(&bench->b, IB_WC_SUCCESS, &wc));
	equal(wc.wc_flags & IB_WC_WITH_INVALIDATE, IB_WC_WITH_INVALIDATE);
	equal(wc.ex.invalidate_rkey, mr->rkey);
	fresh(bench);
	must(write_to(bench, mr->iova, mr->rkey, 8, IB_WC_REM_ACCESS_ERR));
	return only(bench, 0, 0);
}

static int by_the_peer(struct bench *bench)
{
	return with_region(bench, by_the_peer_of, PAGES);
}

/*
 * b READs from a into registered memory with the local key, and invalidates it with the last READ. far is the
 * region of a.
 */
static int by_the_local_key_of(struct bench *bench, struct ib_mr *mr, struct ib_mr *far)
{
	struct end *b = &bench->b;
	struct ib_sge sge;

	must(map(&bench->a, far, 0, BYTES, PAGE_SIZE));
	must(map(b, mr, 50, 5000, PAGE_SIZE));
	sge = (struct ib_sge){ mr->iova + 10, 3000, mr->lkey };
	must(rdma(b, IB_WR_RDMA_READ, sge, far->iova, far->rkey, IB_WC_SUCCESS));
	must(only(bench, 60, 3000));
	fresh(bench);
	must(rdma(b, IB_WR_RDMA_READ_WITH_INV, sge, far->iova, far->rkey, IB_WC_SUCCESS));
	must(only(bench, 60, 3000));
	return rdma(b, IB_WR_RDMA_READ, sge, far->iova, far->rkey, IB_WC_LOC_PROT_ERR);
}

static int with_two_regions(struct bench *bench, struct ib_mr *mr)
{
	struct ib_mr *far = ib_alloc_mr(bench->pd, IB_MR_TYPE_MEM_REG, PAGES);
	int rc;

	must(PTR_ERR_OR_ZERO(far));
	rc = by_the_local_key_of(bench, mr, far);
	return ib_dereg_mr(far) ?: rc;
}

static int by_the_local_key(struct bench *bench)
{
	return with_region(bench, with_two_regions, PAGES);
}

static int unreliable_of(struct bench *bench, struct ib_mr *mr)
{
	must(map(&bench->b, mr, 123, 5000, PAGE_SIZE));
	must(receive(&bench->b, 1, 1));
	must(rdma(&bench->a, IB_WR_RDMA_WRITE_WITH_IMM, piece(&bench->a, 0, 5000), mr->iova,
		  mr->rkey, IB_WC_SUCCESS));
	must(completes(&bench->b, IB_WC_SUCCESS, NULL));
	must(only(bench, 123, 5000));
	must(invalidate(&bench->b, mr->rkey));
	fresh(bench);
	must(write_to(bench, mr->iova, mr->rkey, 8, IB_WC_SUCCESS));
	/* A message behind it. */
	must(receive(&bench->b, 2, 0));
	must(request(&bench->a, IB_WR_SEND, 0, 0));
	must(completes(&bench->b, IB_WC_SUCCESS, NULL));
	return only(bench, 0, 0);
}

static int unreliable(struct bench *bench)
{
	return with_region(bench, unreliable_of, PAGES);
}

const struct test registration_tests[] = {
	{ "page sizes, offsets and lengths are mapped exactly", IB_QPT_RC, sizes_and_offsets },
	{ "several SGEs are mapped, with an offset in the first one", IB_QPT_RC, several_pieces },
	{ "a region maps no more than fits", IB_QPT_RC, what_does_not_fit },
	{ "an invalidated region cannot be written", IB_QPT_RC, invalidated },
	{ "a region is registered again with another key, and the old key is invalid", IB_QPT_RC, rekeyed },
	{ "registering a region twice fails", IB_QPT_RC, registered_twice },
	{ "the peer invalidates a region with a SEND", IB_QPT_RC, by_the_peer },
	{ "a region is used by its local key, and invalidated with a READ", IB_QPT_RC, by_the_local_key },
	{ "a region is registered and invalidated over UC", IB_QPT_UC, unreliable },
	{}
};
