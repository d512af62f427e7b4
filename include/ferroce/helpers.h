/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers that make inline functions and macros of the kernel callable from Rust. Each has the name of the function
 * that it wraps. They are grouped by the file in rust/helpers/ that defines them.
 */
#ifndef FERROCE_HELPERS_H
#define FERROCE_HELPERS_H

#include <linux/lockdep_types.h>
#include <linux/netdevice.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

struct device;
struct dma_resv;
struct dst_entry;
struct hmm_range;
struct ib_device;
struct ib_ucontext;
struct ib_udata;
struct in_device;
struct inet6_dev;
struct mem_cgroup;
struct mm_struct;
struct mmu_interval_notifier;
struct net;
struct nlattr;
struct page;
struct scatterlist;
struct sk_buff;
struct sk_buff_head;
struct skb_shared_info;
struct sock;
struct uapi_definition;
struct uverbs_attr_bundle;

/* atomic.c */
u64 ferroce_helper_cmpxchg64(u64 *word, u64 old, u64 new);
u64 ferroce_helper_fetch_add64(u64 *word, u64 add);
void ferroce_helper_smp_store_release64(u64 *word, u64 value);

/* comp_cntr.c, where the kernel has completion counters */
const struct uapi_definition *ferroce_helper_comp_cntr_definition(void);
int ferroce_helper_comp_cntr_type(const struct uverbs_attr_bundle *attrs, u32 *type);

/* dma_buf.c */
void ferroce_helper_dma_resv_lock(struct dma_resv *resv);
void ferroce_helper_dma_resv_unlock(struct dma_resv *resv);

/* ib_verbs.c */
const char *ferroce_helper_dev_bus_name(const struct device *dev);
const char *ferroce_helper_dev_name(const struct device *dev);
bool ferroce_helper_ib_device_try_get(struct ib_device *dev);
void ferroce_helper_ib_mark_name_assigned_by_user(struct ib_device *dev);
void ferroce_helper_ib_wait_for_unregistration(struct ib_device *dev);
bool ferroce_helper_rdma_protocol_roce_udp_encap(const struct ib_device *dev, u32 port);
struct ib_ucontext *ferroce_helper_rdma_udata_to_ucontext(struct ib_udata *udata);
bool ferroce_helper_udata_has_attr(struct ib_udata *udata, unsigned int id);

/* lockdep.c */
void ferroce_helper_lockdep_init_map(struct lockdep_map *map, const char *name,
				     struct lock_class_key *key);
void ferroce_helper_rwlock_acquire(struct lockdep_map *map);
void ferroce_helper_rwlock_acquire_read(struct lockdep_map *map);
void ferroce_helper_rwlock_release(struct lockdep_map *map);

/* mm.c */
void ferroce_helper_memcpy(void *to, const void *from, size_t len);
u64 ferroce_helper_memory_bytes(void);
void ferroce_helper_memmove(void *to, const void *from, size_t len);
void *ferroce_helper_page_address(const struct page *page);
void ferroce_helper_put_page(struct page *page);
void *ferroce_helper_sg_virt(struct scatterlist *sg);
struct page *ferroce_helper_virt_to_page(const void *address);
phys_addr_t ferroce_helper_virt_to_phys(const void *address);

/* pmem.c */
void ferroce_helper_arch_wb_cache_pmem(void *address, size_t size);
void ferroce_helper_pmem_wmb(void);

/* net.c */
void ferroce_helper_dev_hold(struct net_device *dev);
bool ferroce_helper_dev_is_virtual(const struct net_device *dev);
struct net *ferroce_helper_dev_net(const struct net_device *dev);
unsigned int ferroce_helper_dev_net_inum(const struct net_device *dev);
struct dst_entry *ferroce_helper_dst_check(struct dst_entry *dst, u32 cookie);
bool ferroce_helper_dst_is_local(const struct dst_entry *dst);
bool ferroce_helper_dst_takes_super_packets(const struct dst_entry *dst, bool unsplit);
u32 ferroce_helper_dst_mtu(const struct dst_entry *dst);
struct in_device *ferroce_helper_in_dev_get(const struct net_device *dev);
int ferroce_helper_in_dev_join(struct in_device *in_dev, __be32 group);
void ferroce_helper_in_dev_put(struct in_device *in_dev);
struct inet6_dev *ferroce_helper_in6_dev_get(const struct net_device *dev);
void ferroce_helper_in6_dev_put(struct inet6_dev *idev);
void ferroce_helper_inet_dec_convert_csum(struct sock *sk);
struct net *ferroce_helper_maybe_get_net(struct net *net);
bool ferroce_helper_netdev_carries(struct net_device *dev, int ifindex);
void ferroce_helper_netdev_hold(struct net_device *dev, netdevice_tracker *tracker);
void ferroce_helper_netdev_put(struct net_device *dev, netdevice_tracker *tracker);
bool ferroce_helper_ipv6_mod_enabled(void);
bool ferroce_helper_netif_carrier_ok(const struct net_device *dev);
bool ferroce_helper_netif_running(const struct net_device *dev);
void ferroce_helper_put_net(struct net *net);
void *ferroce_helper_rcu_dereference_sk_user_data(struct sock *sk);
u16 ferroce_helper_rdma_get_udp_sport(u32 fl, u32 lqpn, u32 rqpn);
struct net_device *ferroce_helper_rdma_vlan_dev_real_dev(const struct net_device *dev);
u32 ferroce_helper_rt6_get_cookie(const struct dst_entry *dst);
void ferroce_helper_udp_allow_gso(struct sock *sk);
int ferroce_helper_vlan_id(const struct net_device *dev);

/* odp.c */
int ferroce_helper_fixup_user_fault(struct mm_struct *mm, unsigned long address, bool write);
struct mem_cgroup *ferroce_helper_get_mem_cgroup_from_mm(struct mm_struct *mm);
void *ferroce_helper_hmm_pfn_address(unsigned long hmm_pfn);
int ferroce_helper_hmm_range_fault(struct hmm_range *range);
void ferroce_helper_mem_cgroup_put(struct mem_cgroup *memcg);
bool ferroce_helper_mmu_interval_read_retry(struct mmu_interval_notifier *sub, unsigned long seq);
void ferroce_helper_mmu_interval_set_seq(struct mmu_interval_notifier *sub, unsigned long seq);
void ferroce_helper_read_lock(rwlock_t *lock);
bool ferroce_helper_read_trylock(rwlock_t *lock);
void ferroce_helper_read_unlock(rwlock_t *lock);
void ferroce_helper_readers_lock_init(rwlock_t *lock);
void ferroce_helper_rwlock_init(rwlock_t *lock);
struct mem_cgroup *ferroce_helper_set_active_memcg(struct mem_cgroup *memcg);
void ferroce_helper_write_lock_bh(rwlock_t *lock);
void ferroce_helper_write_unlock_bh(rwlock_t *lock);

/* netfilter.c */
bool ferroce_helper_is_datagram_to(const struct sk_buff *skb, const struct sock *sk, bool v4, u16 port);

/* netlink.c */
void ferroce_helper_nla_nest_cancel(struct sk_buff *msg, struct nlattr *start);
void ferroce_helper_nla_nest_end(struct sk_buff *msg, struct nlattr *start);
struct nlattr *ferroce_helper_nla_nest_start(struct sk_buff *msg, int type);

/* notifier.c */
int ferroce_helper_notifier_from_errno(int err);

/* percpu.c */
u64 __percpu *ferroce_helper_alloc_percpu64(size_t count);
void ferroce_helper_this_cpu_add64(u64 __percpu *word, u64 amount);
u64 ferroce_helper_percpu_sum64(u64 __percpu *word);
void ferroce_helper_section_enter(u32 word);
void ferroce_helper_section_leave(u32 word);
u64 ferroce_helper_section_sum(u32 word);
void ferroce_helper_section_lock(void);
void ferroce_helper_section_unlock(void);

/* sched.c */
void ferroce_helper_cond_resched(void);
bool ferroce_helper_need_resched(void);
bool ferroce_helper_cpu_active(unsigned int cpu);
void ferroce_helper_local_bh_disable(void);
void ferroce_helper_local_bh_enable(void);
unsigned long ferroce_helper_spin_lock_irqsave(spinlock_t *lock);
bool ferroce_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);
void ferroce_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
u64 ferroce_helper_task_wakeup(void);

/* skb.c */
void ferroce_helper_consume_skb(struct sk_buff *skb);
int ferroce_helper_ip_local_out(struct sk_buff *skb);
int ferroce_helper_ip6_local_out(struct sk_buff *skb);
void ferroce_helper_kfree_skb_list(struct sk_buff *first);
int ferroce_helper_pskb_trim(struct sk_buff *skb, unsigned int len);
u32 ferroce_helper_rt_tos2priority(u8 tos);
int ferroce_helper_skb_add_trailer(struct sk_buff *packet, const void *bytes, u32 len);
bool ferroce_helper_skb_can_share(const struct sk_buff *skb, u32 at, u32 len);
void ferroce_helper_skb_share(struct sk_buff *packet, const struct sk_buff *skb, u32 at, u32 len);
bool ferroce_helper_takes_fragments(netdev_features_t features);
int ferroce_helper_skb_append_page(struct sk_buff *skb, struct page *page, int offset, int len);
void ferroce_helper_skb_copy_outer(struct sk_buff *packet, const struct sk_buff *skb, u32 outer_len);
void ferroce_helper_skb_detach(struct sk_buff *skb);
bool ferroce_helper_skb_forget_gso(struct sk_buff *skb);
void *ferroce_helper_skb_destructor_arg(const struct sk_buff *skb);
struct net_device *ferroce_helper_skb_dev(const struct sk_buff *skb);
int ferroce_helper_skb_iif(const struct sk_buff *skb);
const void *ferroce_helper_skb_frag(const struct sk_buff *skb, u32 index, u32 *len);
u16 ferroce_helper_skb_gso_size(const struct sk_buff *skb);
u16 ferroce_helper_skb_packets(const struct sk_buff *skb);
__be16 ferroce_helper_skb_super_packet_protocol(const struct sk_buff *skb);
void ferroce_helper_skb_move_destructor(struct sk_buff *from, struct sk_buff *to);
void *ferroce_helper_skb_network_header(const struct sk_buff *skb);
void ferroce_helper_skb_list_add(struct sk_buff *head, struct sk_buff *last, struct sk_buff *skb);
void ferroce_helper_skb_queue_head_init(struct sk_buff_head *list);
u32 ferroce_helper_skb_queue_len_lockless(const struct sk_buff_head *list);
void ferroce_helper_skb_reserve(struct sk_buff *skb, int len);
void ferroce_helper_skb_set_destructor(struct sk_buff *skb,
				       void (*destructor)(struct sk_buff *), void *arg);
void ferroce_helper_skb_set_super_packet(struct sk_buff *skb, __be16 protocol, int inner, u16 size,
					 u16 segs);
int ferroce_helper_skb_tnl_header_len(const struct sk_buff *skb);
void ferroce_helper_skb_set_headers(struct sk_buff *skb, int transport_offset);
void ferroce_helper_skb_set_output(struct sk_buff *skb, struct dst_entry *dst, __be16 protocol,
				   u32 priority);

#endif /* FERROCE_HELPERS_H */
