/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inline functions and macros of the kernel, made callable from Rust: one function each, named
 * after what it wraps. Sorted by the file in rust/helpers/ that holds them.
 */
#ifndef FERROCE_HELPERS_H
#define FERROCE_HELPERS_H

#include <linux/types.h>

struct ib_device;
struct ib_ucontext;
struct ib_udata;
struct net;
struct net_device;

/* ib_verbs.c */
bool ferroce_helper_ib_device_try_get(struct ib_device *dev);
int ferroce_helper_ib_is_udata_in_empty(struct ib_udata *udata);
void ferroce_helper_ib_mark_name_assigned_by_user(struct ib_device *dev);
int ferroce_helper_ib_no_udata_io(struct ib_udata *udata);
struct ib_ucontext *ferroce_helper_rdma_udata_to_ucontext(struct ib_udata *udata);

/* net.c */
void ferroce_helper_dev_hold(struct net_device *dev);
bool ferroce_helper_dev_is_registered(const struct net_device *dev);
struct net *ferroce_helper_dev_net(const struct net_device *dev);
void ferroce_helper_dev_put(struct net_device *dev);

#endif /* FERROCE_HELPERS_H */
