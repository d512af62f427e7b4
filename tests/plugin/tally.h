/* SPDX-License-Identifier: GPL-2.0 */
/* A tally: how often each of many events happened. An event is a few numbers. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

#define EVENT_WORDS 4

struct event {
	uint64_t word[EVENT_WORDS];
};

struct entry {
	struct event event;
	uint64_t count;
};

/* A table of 2^bits entries. Events that do not fit are counted in `lost`. */
struct tally {
	unsigned int bits;
	struct entry *entries;
	uint64_t lost;
};

void tally_clear(struct tally *tally);
void tally_add(struct tally *tally, struct event event);

/* Puts the most frequent first; only tally_clear() may follow. Returns the number of events. */
size_t tally_sort(struct tally *tally);

#endif
