/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Turns: two virtual processors run alternately, for a number of instructions each.
 *
 * Each is a thread of its own, and how the host lets them run would decide how often a line that both write moves
 * between them. In short turns it moves as often as on processors that run at once, whatever else the host does.
 */
#ifndef TURNS_H
#define TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define VCPUS 2

/* Begins or ends turns; without them all processors run at will. */
void turns_set(bool on);

/* That many instructions of the processor come next. Waits if its turn is over. */
void turns_run(unsigned int vcpu, unsigned int instructions);

/* The processor halts, or goes on. */
void turns_idle(unsigned int vcpu, bool idle);

/* How many turns were given, and how many were taken because the other processor did not end its own. */
struct turns {
	uint64_t given;
	uint64_t taken;
};
struct turns turns_count(void);

#endif
