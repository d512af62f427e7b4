// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel crate and the kernel's helpers call, for kernels that are older than the crate. bundled.mk asks the
 * headers, and defines has_NAME for what they have.
 */

#include <linux/align.h>
#include <linux/bug.h>
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

/* kernel.patch leaves out what would call these: a lock that nests needs a count of each CPU. */
#define spin_lock_irq_disable(lock) BUG()
#define spin_unlock_irq_enable(lock) BUG()
#define spin_trylock_irq_disable(lock) ({ BUG(); 0; })

/* Memory whose size is a multiple of a power of two has that alignment, too. */
#ifndef krealloc_node_align
#define krealloc_node_align(p, size, align, flags, node) krealloc(p, ALIGN(size, align), flags)
#endif
#ifndef kvrealloc_node_align
#define kvrealloc_node_align(p, size, align, flags, node) kvrealloc(p, ALIGN(size, align), flags)
#endif

/* Modules cannot call vrealloc(), but kvrealloc() does so for memory of vmalloc(). */
#ifndef vrealloc_node_align
#define vrealloc_node_align(p, size, align, flags, node) ((p) ? kvrealloc(p, size, flags) : __vmalloc(size, flags))
#endif

#ifndef has_debugfs_create_file_full
struct dentry *rust_helper_debugfs_create_file_full(const char *name, umode_t mode, struct dentry *parent, void *data,
						    const void *aux, const struct file_operations *fops)
{
	return debugfs_create_file(name, mode, parent, data, fops);
}
#endif

#ifndef has_hrtimer_setup
void rust_helper_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
			       clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#ifndef has_timer_init_key
void rust_helper_timer_init_key(struct timer_list *timer, void (*function)(struct timer_list *), unsigned int flags,
				const char *name, struct lock_class_key *key)
{
	init_timer_key(timer, function, flags, name, key);
}
#endif
