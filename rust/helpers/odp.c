// SPDX-License-Identifier: GPL-2.0

#include <linux/hmm.h>
#include <linux/memcontrol.h>
#include <linux/mmu_notifier.h>
#include <linux/pci-p2pdma.h>
#include <linux/sched/mm.h>
#include <linux/spinlock.h>

/*
 * The fault may release the mmap lock while it waits. Below a stack, fixup_user_fault() would write a stack trace to
 * the log.
 */
int ferroce_helper_fixup_user_fault(struct mm_struct *mm, unsigned long address, bool write)
{
	bool unlocked;
	int ret = mmap_read_lock_killable(mm);

	if (ret)
		return ret;
	ret = -EFAULT;
	if (vma_lookup(mm, address))
		ret = fixup_user_fault(mm, address, FAULT_FLAG_REMOTE | (write ? FAULT_FLAG_WRITE : 0),
				       &unlocked);
	mmap_read_unlock(mm);
	return ret;
}

struct mem_cgroup *ferroce_helper_get_mem_cgroup_from_mm(struct mm_struct *mm)
{
	return get_mem_cgroup_from_mm(mm);
}

/* Returns NULL for a page of a PCI device (P2PDMA), which has no usable kernel address. */
void *ferroce_helper_hmm_pfn_address(unsigned long hmm_pfn)
{
	struct page *page = hmm_pfn_to_page(hmm_pfn);

	return is_pci_p2pdma_page(page) ? NULL : page_address(page);
}

void ferroce_helper_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

/* Sets notifier_seq. */
int ferroce_helper_hmm_range_fault(struct hmm_range *range)
{
	struct mm_struct *mm = range->notifier->mm;
	int ret;

	range->notifier_seq = mmu_interval_read_begin(range->notifier);
	ret = mmap_read_lock_killable(mm);
	if (!ret) {
		ret = hmm_range_fault(range);
		mmap_read_unlock(mm);
	}
	return ret;
}

bool ferroce_helper_mmu_interval_read_retry(struct mmu_interval_notifier *sub, unsigned long seq)
{
	return mmu_interval_read_retry(sub, seq);
}

void ferroce_helper_mmu_interval_set_seq(struct mmu_interval_notifier *sub, unsigned long seq)
{
	mmu_interval_set_seq(sub, seq);
}

void ferroce_helper_read_lock(rwlock_t *lock)
{
	read_lock(lock);
}

bool ferroce_helper_read_trylock(rwlock_t *lock)
{
	return read_trylock(lock);
}

void ferroce_helper_read_unlock(rwlock_t *lock)
{
	read_unlock(lock);
}

/* Apart from the next function: lockdep has one class for each. */
void ferroce_helper_readers_lock_init(rwlock_t *lock)
{
	rwlock_init(lock);
}

void ferroce_helper_rwlock_init(rwlock_t *lock)
{
	rwlock_init(lock);
}

struct mem_cgroup *ferroce_helper_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void ferroce_helper_write_lock_bh(rwlock_t *lock)
{
	write_lock_bh(lock);
}

void ferroce_helper_write_unlock_bh(rwlock_t *lock)
{
	write_unlock_bh(lock);
}
