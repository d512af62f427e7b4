# SPDX-License-Identifier: GPL-2.0
#
# Rust declarations of the C interfaces that the kernel's own bindings crate lacks: the RDMA core,
# UDP tunnels, routing.
#
# What to declare, and how, is in rdma/bindgen_parameters; the headers are those that
# rdma/bindings_helper.h includes. Every structure that the kernel's bindings crate knows whole is
# taken from there (see bindgen.sh) and not declared twice, so that a `net_device` of ours is a
# `net_device` of the kernel crate and needs no cast.

bindings := $(obj)/rdma/bindings_generated.rs

# rdma/bindings.rs includes the file by this name, wherever the objects are put.
export FERROCE_BINDINGS := $(abspath $(bindings))

# Regular expressions are quoted for the shell.
bindgen_parameters = $(shell sed -n "s/^\(--[a-z-]*\) \(.*\)/\1 '\2'/p" $(src)/rdma/bindgen_parameters)

bindgen_target_arm64 := aarch64-linux-gnu
bindgen_target_um    := x86_64-linux-gnu
bindgen_target_x86   := x86_64-linux-gnu

# Of the compiler's flags only those that libclang needs to see the same declarations and layouts.
# Code generation is none of its business, and half of gcc's options are unknown to it.
bindgen_cflags = -Wp,-MMD,$(depfile) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) \
	-include $(srctree)/include/linux/compiler_types.h $(KBUILD_CPPFLAGS) $(ccflags-y) \
	$(filter -I% -D% -std=% -fms-% -fshort-wchar -funsigned-char -m16 -m32 -m64,$(KBUILD_CFLAGS)) \
	$(modname_flags) $(basename_flags) -w --target=$(bindgen_target_$(SRCARCH)) -fno-builtin \
	-D__BINDGEN__ -DMODULE

quiet_cmd_bindgen = BINDGEN $@
      cmd_bindgen = $(src)/bindgen.sh $@ '$(probe_crates)' $< $(bindgen_parameters) \
	--raw-line 'pub use kernel::bindings::*;' \
	--rust-target 1.85 --use-core --ctypes-prefix ffi --no-layout-tests --no-debug '.*' \
	--enable-function-attribute-detection -- $(bindgen_cflags)

$(bindings): $(src)/rdma/bindings_helper.h $(src)/rdma/bindgen_parameters $(src)/bindgen.sh FORCE
	$(call if_changed_dep,bindgen)

$(obj)/rdma/lib.o: $(bindings)
targets += rdma/bindings_generated.rs
clean-files += rdma/bindings_generated.rs
