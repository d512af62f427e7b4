/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stand-in for libibverbs and the kernel: see stand_in.c.
 *
 * The file of a context is a memory file. Its first MiB takes what is written to it, which are doorbells; rings follow.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdio.h>
#include <stdlib.h>

#include <infiniband/driver.h>
#include <rdma/ferroce-abi.h>

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

/* What the library registered, in order. */
extern const struct verbs_device_ops *registered[2];
extern int registrations;

/* The operations of the context. */
extern struct verbs_context_ops ops;

/* The version that the kernel answers; 0: it does not know the ABI. */
extern unsigned int abi_version;
extern unsigned long long abi_features;

/* The error of query_context. */
extern int imported_error;

/* The rings of the object that was made last. */
extern struct ferroce_ring *last_ring, *last_send, *last_receive;

/* Number of doorbells so far, and the QP of the last one. */
int doorbells(int fd);
unsigned int doorbell_qp(int fd);

int memory_file(void);

#endif
