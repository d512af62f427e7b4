// SPDX-License-Identifier: GPL-2.0

#include <linux/mm.h>
#include <linux/net.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

void ferroce_helper_get_page(struct page *page)
{
	get_page(page);
}

void ferroce_helper_memcpy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

bool ferroce_helper_sendpage_ok(struct page *page)
{
	return sendpage_ok(page);
}

void *ferroce_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

struct page *ferroce_helper_virt_to_page(const void *address)
{
	return virt_to_page(address);
}
