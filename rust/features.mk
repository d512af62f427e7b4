# SPDX-License-Identifier: GPL-2.0
#
# What differs between kernels: `--cfg has_NAME` for each feature that this kernel has. rdma/compat uses them, and
# nothing else does.
#
# The kernel itself is asked, not its version: a C header for a name, or the compiler for a name of the kernel's crates.
# The sources of those are not part of every headers package.

# $(call header_has,NAME,HEADER,WORD)
header_has = $(shell grep -qsw '$(3)' $(srctree)/include/$(2) && echo --cfg=has_$(1))

# Compiles standard input against the kernel's crates, for its errors alone.
probe_crates = $(RUSTC) $(KBUILD_RUSTFLAGS) -Zcrate-attr=no_std -Zunstable-options --sysroot=/dev/null -L $(objtree)/rust/ \
	--extern kernel --extern pin_init --crate-type rlib --crate-name probe --emit=metadata=- -Awarnings -

# $(call crate_has,NAME,CODE)
crate_has = $(shell printf '%s' 'extern crate core; use kernel as _; $(2)' | \
	$(probe_crates) >/dev/null 2>&1 && echo --cfg=has_$(1))

# The kernel's macro reads this file, unless branches are not patched at all.
static_branch = $(if $(CONFIG_JUMP_LABEL),$(wildcard $(objtree)/rust/kernel/generated_arch_static_branch_asm.rs),y)

features_cfg := \
	$(if $(static_branch),--cfg=has_static_branch) \
	$(call header_has,hmm_unlocked_fault,linux/hmm.h,hmm_range_fault_unlocked_timeout) \
	$(call header_has,srq_buffer_attr,uapi/rdma/ib_user_ioctl_cmds.h,UVERBS_ATTR_CREATE_SRQ_BUF_UMEM) \
	$(call crate_has,raw_init,use pin_init::raw_init;) \
	$(call crate_has,spinlock_irq,use kernel::sync::SpinLockIrq;) \
	$(call crate_has,typed_barrier,use kernel::sync::barrier::Full;)
