// SPDX-License-Identifier: GPL-2.0

#include <linux/dma-resv.h>

void ferroce_helper_dma_resv_lock(struct dma_resv *resv)
{
	dma_resv_lock(resv, NULL);
}

void ferroce_helper_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}
