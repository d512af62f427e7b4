# SPDX-License-Identifier: GPL-2.0
#
# What differs between kernels: `--cfg has_NAME` for each feature that this kernel has. rdma/compat uses them, and
# nothing else does.
#
# The kernel itself is asked, not its version: a C header for a name, or the compiler for a name of the kernel's crates.
# The sources of those are not part of every headers package.

# $(call header_has,NAME,HEADER,WORD)
header_has = $(shell grep -qsw '$(3)' $(srctree)/include/$(2) && echo --cfg=has_$(1))

# $(call header_says,NAME,HEADER,BASIC-REGULAR-EXPRESSION)
header_says = $(shell grep -qs '$(3)' $(srctree)/include/$(2) && echo --cfg=has_$(1))

# Compiles standard input against the kernel's crates, for its errors alone.
crate_flags ?= $(KBUILD_RUSTFLAGS) -Zunstable-options --sysroot=/dev/null -L $(objtree)/rust/
probe_crates = $(RUSTC) $(crate_flags) -Zcrate-attr=no_std --extern kernel --extern pin_init --crate-type rlib \
	--crate-name probe --emit=metadata=- -Awarnings -

# $(call crate_has,NAME,CODE)
crate_has = $(shell printf '%s' 'extern crate core; use kernel as _; $(2)' | \
	$(probe_crates) >/dev/null 2>&1 && echo --cfg=has_$(1))

# The kernel's macro reads this file, unless branches are not patched at all.
static_branch = $(if $(CONFIG_JUMP_LABEL),$(wildcard $(objtree)/rust/kernel/generated_arch_static_branch_asm.rs),y)

# What the C headers have.
headers_cfg := \
	$(call header_has,checked_udata,rdma/uverbs_ioctl.h,_ib_copy_validate_udata_in) \
	$(call header_has,comp_cntr,rdma/ib_verbs.h,create_comp_cntr) \
	$(call header_has,const_attributes,linux/sysfs.h,attrs_const) \
	$(call header_has,counter_init,rdma/ib_verbs.h,counter_init) \
	$(call header_has,cq_buffer_attr,uapi/rdma/ib_user_ioctl_cmds.h,UVERBS_ATTR_CREATE_CQ_BUFFER_VA) \
	$(call header_has,dmah,rdma/ib_verbs.h,ib_dmah) \
	$(call header_has,flow_dscp,net/flow.h,flowic_dscp) \
	$(call header_has,hmm_unlocked_fault,linux/hmm.h,hmm_range_fault_unlocked_timeout) \
	$(call header_has,hrtimer_is_queued,linux/hrtimer_types.h,is_queued) \
	$(call header_has,invalidate_mappings,linux/dma-buf.h,invalidate_mappings) \
	$(call header_has,mutex_first_waiter,linux/mutex_types.h,first_waiter) \
	$(call header_has,port_speed,rdma/ib_verbs.h,ib_port_attr_to_speed_info) \
	$(call header_has,port_state_event,rdma/ib_verbs.h,ib_dispatch_port_state_event) \
	$(call header_has,pre_destroy_cq,rdma/ib_verbs.h,pre_destroy_cq) \
	$(call header_has,queue_umem_attr,uapi/rdma/ib_user_ioctl_cmds.h,UVERBS_ATTR_CREATE_QP_BUF_UMEM) \
	$(call header_has,resize_user_cq,rdma/ib_verbs.h,resize_user_cq) \
	$(call header_has,robust_udata,rdma/ib_verbs.h,uverbs_robust_udata) \
	$(call header_has,srq_buffer_attr,uapi/rdma/ib_user_ioctl_cmds.h,UVERBS_ATTR_CREATE_SRQ_BUF_UMEM) \
	$(call header_has,umem_attr,rdma/ib_umem.h,ib_umem_get_attr_or_va) \
	$(call header_has,workqueue_percpu,linux/workqueue.h,WQ_PERCPU) \
	$(call header_has,workqueue_noprof,linux/workqueue.h,alloc_workqueue_noprof) \
	$(call header_says,alloc_device_net,rdma/ib_verbs.h,_ib_alloc_device.size_t size$(comma) struct net) \
	$(call header_says,counter_port,rdma/ib_verbs.h,counter_unbind_qp..struct ib_qp .qp$(comma) u32 port) \
	$(call header_says,tunnel_of_sock,net/udp_tunnel.h,udp_tunnel_sock_release.struct sock )

# What the kernel's crates have. Those that are built into the module are of the newest kernel, less one lock.
crates_cfg := $(if $(FERROCE_BUNDLED),--cfg=has_raw_init --cfg=has_typed_barrier \
	$(call header_says,static_branch,linux/tracepoint-defs.h,struct static_key_false) \
	$(if $(CONFIG_JUMP_LABEL),--cfg=has_arch_static_branch), \
	$(if $(static_branch),--cfg=has_static_branch) \
	$(call crate_has,raw_init,use pin_init::raw_init;) \
	$(call crate_has,spinlock_irq,use kernel::sync::SpinLockIrq;) \
	$(call crate_has,typed_barrier,use kernel::sync::barrier::Full;))

features_cfg := $(headers_cfg) $(crates_cfg)
