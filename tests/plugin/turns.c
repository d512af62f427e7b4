// SPDX-License-Identifier: GPL-2.0
/* Turns of two virtual processors; see the header. */

#include "turns.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Instructions of a turn. A message takes thousands. */
#define TURN 500
/*
 * A processor may wait inside QEMU for the other to leave its code, so that neither goes on. Then the one that waits
 * here takes the turn after this time.
 */
#define PATIENCE_NS 20000000

static bool on;
static uint32_t turn;
static bool halted[VCPUS];
static int left[VCPUS];
static struct turns count;

static long futex(int operation, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, &turn, operation | FUTEX_PRIVATE_FLAG, value, time, NULL, 0);
}

static void give(uint32_t to)
{
	if (__atomic_exchange_n(&turn, to, __ATOMIC_SEQ_CST) != to)
		futex(FUTEX_WAKE, VCPUS, NULL);
}

/* Waits while the turn is the other's and the other runs. */
static void await(uint32_t other)
{
	static const struct timespec patience = { .tv_nsec = PATIENCE_NS };

	while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) == other &&
	       !__atomic_load_n(&halted[other], __ATOMIC_SEQ_CST) && __atomic_load_n(&on, __ATOMIC_SEQ_CST)) {
		if (futex(FUTEX_WAIT, other, &patience) == 0 || errno != ETIMEDOUT)
			continue;
		__atomic_fetch_add(&count.taken, 1, __ATOMIC_RELAXED);
		return;
	}
}

void turns_run(unsigned int vcpu, unsigned int instructions)
{
	uint32_t other = 1 - vcpu;

	if (!__atomic_load_n(&on, __ATOMIC_RELAXED))
		return;
	left[vcpu] -= instructions;
	if (left[vcpu] > 0)
		return;
	left[vcpu] = TURN;
	if (__atomic_load_n(&halted[other], __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&count.given, 1, __ATOMIC_RELAXED);
	give(other);
	await(other);
}

void turns_idle(unsigned int vcpu, bool idle)
{
	__atomic_store_n(&halted[vcpu], idle, __ATOMIC_SEQ_CST);
	if (idle)
		give(1 - vcpu);
}

void turns_set(bool value)
{
	if (value)
		count = (struct turns){ 0 };
	__atomic_store_n(&on, value, __ATOMIC_SEQ_CST);
	futex(FUTEX_WAKE, VCPUS, NULL);
}

struct turns turns_count(void)
{
	return count;
}
