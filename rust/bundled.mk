# SPDX-License-Identifier: GPL-2.0
#
# The kernel's Rust support, built into the module: for kernels without CONFIG_RUST, and for those whose headers lack the
# metadata of its crates or were built by another rustc. What the module imports then are symbols of C only.
#
# linux/ is the Rust support of the newest kernel, as scripts/kernel/rust-tree.sh prepares it. Its crates are built here in the
# order of the kernel's rust/Makefile, with the flags that the Makefile of the kernel that is built for has for Rust:
# these follow from its configuration, with or without CONFIG_RUST. All crates become one object, rust.o, without what
# nobody calls.

linux := $(src)/linux/rust
built := $(obj)/linux/rust
our_crates := $(addprefix $(obj)/,roce/lib.o rdma/lib.o driver/main.o)

# What the crates ask, and a configuration without Rust does not say. $(call since,VERSION,NAME)
rustc_is = $(shell [ $(CONFIG_RUSTC_VERSION) -ge $(1) ] && echo y)
since = $(if $(call rustc_is,$(1)),--cfg=CONFIG_RUSTC_HAS_$(2))
rustc_cfg := --cfg=CONFIG_RUST $(call since,108800,SPAN_FILE) $(call since,108800,UNNECESSARY_TRANSMUTES) \
	$(call since,108900,FILE_WITH_NUL) $(call since,109100,FILE_AS_C_STR) \
	$(call since,109800,SUSPICIOUS_RUNTIME_SYMBOL_DEFINITIONS)

# What the configuration says to Rust code, without what it says of another compiler; the target of x86, a file that
# headers packages lack; and a flag that has another name since 1.93. A section for each function lets the linker drop
# it. Overflows are checked as in Debian's kernels that have CONFIG_RUST.
no_jump_tables := $(if $(call rustc_is,109300),-Cjump-tables=n,-Zno-jump-tables)
kernel_flags = $(patsubst @%/rustc_cfg,@$(obj)/linux/rustc_cfg, \
	$(patsubst --target=%/target.json,--target=$(obj)/linux/target.json, \
	$(patsubst -Zno-jump-tables,$(no_jump_tables), \
	$(patsubst --edition=%,--edition=$(or $(edition),%),$(rust_flags)))))
crate_flags = $(kernel_flags) $(rustc_cfg) \
	-Zfunction-sections=y -Coverflow-checks=y -Cdebug-assertions=n \
	-Zunstable-options --sysroot=/dev/null -L $(built)

crate = $(basename $(notdir $@))
quiet_cmd_crate = RUSTC $(quiet_modtag) $@
      cmd_crate = OBJTREE=$(abspath $(obj)/linux) RUST_MODFILE=$(modfile) $(RUSTC_OR_CLIPPY) $(crate_flags) \
	--crate-type rlib $(crate_options) --out-dir $(dir $@) --emit=dep-info=$(depfile) --emit=obj=$@ \
	$(if $(part_of_kernel),--crate-name $(crate) --emit=metadata=$(dir $@)lib$(crate).rmeta \
	--cap-lints=allow -Cdebuginfo=0) $<

# Nothing of this is in ferroce-y, which tells the others that they are parts of a module.
$(obj)/rust.o $(our_crates) $(built)/%.o: private part-of-module := y

# $(call kernel_crate,NAME,SOURCE,NEEDS,OPTIONS)
define kernel_crate
$$(built)/$(1).o: private part_of_kernel := y
$$(built)/$(1).o: private crate_options = $(4)
$$(built)/$(1).o: $(2) $$(addprefix $$(built)/,$(3)) FORCE
	+$$(call if_changed_dep,crate)
targets += linux/rust/$(1).o
endef

library := $(shell $(RUSTC) --print sysroot)/lib/rustlib/src/rust/library
$(built)/core.o: private edition = $(if $(call rustc_is,108700),2024,2021)
$(eval $(call kernel_crate,core,$(library)/core/src/lib.rs,,--cfg=no_fp_fmt_parse))
$(eval $(call kernel_crate,compiler_builtins,$(linux)/compiler_builtins.rs,core.o))
$(eval $(call kernel_crate,build_error,$(linux)/build_error.rs,compiler_builtins.o))
$(eval $(call kernel_crate,ffi,$(linux)/ffi.rs,compiler_builtins.o))
$(eval $(call kernel_crate,zerocopy,$(linux)/zerocopy/src/lib.rs,compiler_builtins.o,--cfg=no_fp_fmt_parse))
$(built)/zerocopy.o: export CARGO_PKG_VERSION := 0.8
$(eval $(call kernel_crate,pin_init,$(linux)/pin-init/src/lib.rs,compiler_builtins.o libpin_init_internal.so \
	libmacros.so,--extern pin_init_internal --extern macros --cfg=kernel --cfg=USE_RUSTC_FEATURES))
$(eval $(call kernel_crate,bindings,$(linux)/bindings/lib.rs,ffi.o pin_init.o bindings/bindings_generated.rs \
	bindings/bindings_helpers_generated.rs,--extern ffi --extern pin_init))
$(eval $(call kernel_crate,kernel,$(linux)/kernel/lib.rs,build_error.o bindings.o zerocopy.o \
	libzerocopy_derive.so,--extern ffi --extern pin_init --extern build_error --extern macros --extern bindings \
	--extern zerocopy --extern zerocopy_derive))

# Macros are programs of the compiler's own machine. To optimize them takes a minute, and saves a second of their use.
quiet_cmd_macros = HOSTRUSTC $@
      cmd_macros = $(RUSTC) --edition=2021 -Coverflow-checks=n -Cdebug-assertions=n --cap-lints=allow $(rustc_cfg) \
	$(macro_options) -L $(built)/host \
	--crate-name $(patsubst lib%,%,$(crate)) --out-dir $(dir $@) --emit=dep-info=$(depfile) --emit=link=$@ $<

# $(call macro_crate,FILE,SOURCE,NEEDS,OPTIONS)
define macro_crate
$$(built)/$(1): private macro_options = $(4) $$(if $$(filter %.so,$(1)),--extern proc_macro --crate-type proc-macro \
	-Clinker=$$(HOSTCC) --extern proc_macro2 --extern quote --extern syn,--crate-type rlib)
$$(built)/$(1): $(2) $$(addprefix $$(built)/host/lib,$$(addsuffix .rlib,$(3))) FORCE
	+$$(call if_changed_dep,macros)
targets += linux/rust/$(1)
endef

feature = --cfg='feature="$(1)"'
$(eval $(call macro_crate,host/libproc_macro2.rlib,$(linux)/proc-macro2/lib.rs,,$(call feature,proc-macro) \
	--cfg=wrap_proc_macro $$(if $$(call rustc_is,108800),--cfg=proc_macro_span_file \
	--cfg=proc_macro_span_location)))
$(eval $(call macro_crate,host/libquote.rlib,$(linux)/quote/lib.rs,proc_macro2,--extern proc_macro2 \
	$(call feature,proc-macro)))
$(eval $(call macro_crate,host/libsyn.rlib,$(linux)/syn/lib.rs,proc_macro2 quote,--extern proc_macro2 --extern quote \
	$(foreach name,clone-impls derive full parsing printing proc-macro visit visit-mut,$(call feature,$(name)))))
$(eval $(call macro_crate,libmacros.so,$(linux)/macros/lib.rs,proc_macro2 quote syn))
$(eval $(call macro_crate,libzerocopy_derive.so,$(linux)/zerocopy-derive/lib.rs,proc_macro2 quote syn,--cfg=zerocopy_unstable_linux))
$(eval $(call macro_crate,libpin_init_internal.so,$(linux)/pin-init/internal/src/lib.rs,proc_macro2 quote syn,--cfg=kernel \
	--cfg=USE_RUSTC_FEATURES))

# Whether this kernel has what bundled/compat.c makes otherwise.
declares = $(shell grep -qsw '$(1)' $(srctree)/include/linux/$(2) && echo -Dhas_$(1))
helper_features := $(call declares,debugfs_create_file_full,debugfs.h) $(call declares,hrtimer_setup,hrtimer.h) \
	$(call declares,timer_init_key,timer.h)

# Bindings of the C interfaces that the kernel crate uses.
quiet_cmd_kernel_bindgen = BINDGEN $@
      cmd_kernel_bindgen = bindgen $< $(kernel_bindgen) --rust-target 1.85 --use-core --with-derive-default \
	--ctypes-prefix ffi --no-layout-tests --no-debug '.*' --enable-function-attribute-detection -o $@ \
	-- -I$(linux)/helpers $(helper_features) $(bindgen_cflags); sed -i -E $(kernel_bindgen_sed) $@

kernel_bindgen_parameters := $(shell grep -Ev '^\#|^$$' $(linux)/bindgen_parameters)
$(built)/bindings/bindings_generated.rs: private kernel_bindgen = $(kernel_bindgen_parameters)
$(built)/bindings/bindings_generated.rs: private kernel_bindgen_sed = 's/pub const RUST_CONST_HELPER_/pub const /g'
$(built)/bindings/bindings_generated.rs: $(src)/bundled/bindings_helper.h $(linux)/bindgen_parameters FORCE
	$(call if_changed_dep,kernel_bindgen)

$(built)/bindings/bindings_helpers_generated.rs: private kernel_bindgen = --blocklist-type '.*' --allowlist-var '' \
	--allowlist-function 'rust_helper_.*'
$(built)/bindings/bindings_helpers_generated.rs: private kernel_bindgen_sed = \
	's/pub fn rust_helper_([a-zA-Z0-9_]*)/\#[link_name="rust_helper_\1"] pub fn \1/g'
$(built)/bindings/bindings_helpers_generated.rs: $(src)/bundled/helpers.c FORCE
	$(call if_changed_dep,kernel_bindgen)
targets += linux/rust/bindings/bindings_generated.rs linux/rust/bindings/bindings_helpers_generated.rs

quiet_cmd_static_branch = RSCPP $@
      cmd_static_branch = $(CPP) $(c_flags) -xc -C -P $< | sed '1,/^\/\/ Cut here/d' >$@
$(built)/kernel/generated_arch_static_branch_asm.rs: $(src)/bundled/static_branch.S FORCE
	$(call if_changed_dep,static_branch)
targets += linux/rust/kernel/generated_arch_static_branch_asm.rs
ifdef CONFIG_JUMP_LABEL
$(built)/kernel.o: $(built)/kernel/generated_arch_static_branch_asm.rs
endif

# The kernel declares its helpers nowhere, either.
CFLAGS_bundled/helpers.o = -I$(linux)/helpers $(helper_features) -Wno-missing-prototypes -Wno-missing-declarations

# The target of x86: the program that makes it asks for the version of the compiler that is there.
quiet_cmd_target = TARGET $@
      cmd_target = $(RUSTC) --edition=2021 --cap-lints=allow -Clinker=$(HOSTCC) -o $@.program $<; \
	sed 's/^CONFIG_RUSTC_VERSION=.*/CONFIG_RUSTC_VERSION=$(CONFIG_RUSTC_VERSION)/' $(objtree)/include/config/auto.conf | \
	$@.program >$@; rm $@.program
$(obj)/linux/target.json: $(src)/linux/generate_rust_target.rs FORCE
	$(call if_changed,target)
targets += linux/target.json
ifdef CONFIG_X86_64
$(built)/core.o: $(obj)/linux/target.json
endif

quiet_cmd_rustc_cfg = GEN     $@
      cmd_rustc_cfg = grep -v CONFIG_RUSTC_ $(objtree)/include/generated/rustc_cfg >$@
$(obj)/linux/rustc_cfg: $(src)/bundled.mk FORCE
	$(call if_changed,rustc_cfg)
targets += linux/rustc_cfg
$(built)/core.o: $(obj)/linux/rustc_cfg

# Our own crates, and the bindings of the first, which leave out what the kernel crate has.
$(obj)/rdma/bindings_generated.rs: $(built)/kernel.o
allowed_features = arbitrary_self_types,asm_goto,generic_arg_infer,used_with_arg
$(our_crates): private crate_options = --extern kernel --extern pin_init --extern zerocopy \
	--extern zerocopy_derive -Zallow-features=$(allowed_features) \
	-Zcrate-attr=no_std -Zcrate-attr='feature($(allowed_features))'
$(our_crates): $(obj)/%.o: $(src)/%.rs $(built)/kernel.o FORCE
	+$(call if_changed_dep,crate)
targets += roce/lib.o rdma/lib.o driver/main.o

# One object of all, of what is reached from outside. objtool looks at it, unless it looks at the whole module. Without
# build_error.o, so that a build_assert!() that is not proven is a symbol that is missing.
quiet_cmd_rust_o = LD $(quiet_modtag) $@
      cmd_rust_o = $(LD) $(ld_flags) -r --gc-sections -u init_module -u cleanup_module -T $(src)/bundled/rust.lds -o $@ \
	$(filter %.o,$(real-prereqs)) $(cmd_objtool)
# It is linked, which objtool has to know.
$(obj)/rust.o: private objtool-args-y += --link
$(obj)/rust.o: $(our_crates) $(addprefix $(built)/,kernel.o bindings.o zerocopy.o pin_init.o ffi.o compiler_builtins.o \
	core.o) FORCE
	+$(call if_changed,rust_o)
targets += rust.o
