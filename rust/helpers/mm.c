// SPDX-License-Identifier: GPL-2.0

#include <linux/io.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

void ferroce_helper_memcpy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

u64 ferroce_helper_memory_bytes(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

void ferroce_helper_memmove(void *to, const void *from, size_t len)
{
	memmove(to, from, len);
}

void *ferroce_helper_page_address(const struct page *page)
{
	return page_address(page);
}

void ferroce_helper_put_page(struct page *page)
{
	put_page(page);
}

void *ferroce_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

struct page *ferroce_helper_virt_to_page(const void *address)
{
	return virt_to_page(address);
}

phys_addr_t ferroce_helper_virt_to_phys(const void *address)
{
	return virt_to_phys((volatile void *)address);
}
