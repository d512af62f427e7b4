// SPDX-License-Identifier: GPL-2.0

#include <linux/lockdep.h>

void ferroce_helper_lockdep_init_map(struct lockdep_map *map, const char *name,
				     struct lock_class_key *key)
{
	lockdep_init_map(map, name, key, 0);
}

/* For a reader that entered without waiting: a trylock. */
void ferroce_helper_rwlock_acquire_read(struct lockdep_map *map)
{
	rwlock_acquire_read(map, 0, 1, _RET_IP_);
}

/* For a writer, which may wait. */
void ferroce_helper_rwlock_acquire(struct lockdep_map *map)
{
	rwlock_acquire(map, 0, 0, _RET_IP_);
}

void ferroce_helper_rwlock_release(struct lockdep_map *map)
{
	rwlock_release(map, _RET_IP_);
}
