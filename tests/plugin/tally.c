// SPDX-License-Identifier: GPL-2.0
/* A tally: a hash table with open addresses, under one lock. */

#include "tally.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* So many places are tried for an event. */
#define TRIES 32

static bool locked;

static uint64_t hash(const struct event *event)
{
	uint64_t sum = 0;

	for (int i = 0; i < EVENT_WORDS; i++)
		sum = (sum ^ event->word[i] ^ sum >> 29) * 0x9e3779b97f4a7c15;
	return sum;
}

static struct entry *find(struct tally *tally, const struct event *event)
{
	uint64_t size = 1UL << tally->bits;
	uint64_t place = hash(event) >> (64 - tally->bits);

	for (int i = 0; i < TRIES; i++) {
		struct entry *entry = &tally->entries[(place + i) & (size - 1)];

		if (!entry->count)
			entry->event = *event;
		if (!memcmp(&entry->event, event, sizeof(*event)))
			return entry;
	}
	return NULL;
}

void tally_clear(struct tally *tally)
{
	size_t size = sizeof(*tally->entries) << tally->bits;

	if (!tally->entries)
		tally->entries = malloc(size);
	if (!tally->entries)
		abort();
	memset(tally->entries, 0, size);
	tally->lost = 0;
}

void tally_add(struct tally *tally, struct event event)
{
	struct entry *entry;

	while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
		;
	entry = find(tally, &event);
	if (entry)
		entry->count++;
	else
		tally->lost++;
	__atomic_clear(&locked, __ATOMIC_RELEASE);
}

static int more(const void *one, const void *other)
{
	uint64_t a = ((const struct entry *)one)->count, b = ((const struct entry *)other)->count;

	return (a < b) - (a > b);
}

size_t tally_sort(struct tally *tally)
{
	size_t size = 1UL << tally->bits, used = 0;

	for (size_t i = 0; i < size; i++) {
		if (tally->entries[i].count)
			tally->entries[used++] = tally->entries[i];
	}
	qsort(tally->entries, used, sizeof(*tally->entries), more);
	return used;
}
