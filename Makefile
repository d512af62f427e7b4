# SPDX-License-Identifier: GPL-2.0
#
# Each target runs a script; `make help` lists them.
#
# With KDIR=, make builds the module against that kernel tree with the installed toolchain. Without it, make builds for
# Debian's stock kernel, and fetches or builds in FERROCE_CACHE what that takes. RUST_TREE=FILE is the source of Linux
# whose Rust support is built into the module, where the kernel's own is not there.

export SIGNING_KEY SIGNING_CERT SIGNING_PIN
export KVER FLAVOUR GUEST FERROCE_CACHE FERROCE_BUNDLED RUST_TREE VM_TIMEOUT
export DRIVER PEER_DRIVER TOPOLOGY QUICK WHAT RESUME

KERNEL ?= stock
# A kernel's modules are built by the compiler that built the kernel.
CLANG = $(if $(shell grep -sx CONFIG_CC_IS_CLANG=y $(KDIR)/include/config/auto.conf),LLVM=1)

all: ## build ferroce.ko
ifdef KDIR
	@scripts/kernel/kernel-needs.sh $(KDIR)
	@flock -n -E 75 Kbuild sh -ec 'mode=$$(scripts/kernel/rust-mode.sh $(KDIR)); \
		[ -z "$$mode" ] || scripts/kernel/rust-tree.sh; \
		scripts/kernel/fresh.sh $(KDIR); exec $(MAKE) -C $(KDIR) M=$(CURDIR) $(CLANG) $$mode modules' || { \
		[ $$? != 75 ] || echo 'ferroce: another build runs in this tree; wait for its end' >&2; exit 1; }
	cp rust/ferroce.ko .
else
	@[ $(KERNEL)$(KVER)$(FLAVOUR) != stock ] || scripts/kernel/kernel.sh --running
	@scripts/build.sh -k $(KERNEL)
endif

install: ## put module, service and manual where they are looked for
ifdef KDIR
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(CLANG) modules_install
else
	@scripts/release/package.sh --install
endif

deb: ## make Debian packages in build/deb
	@scripts/release/package.sh build/deb

sandbox: ## make ferroce-run, as a package and as an archive, in build/sandbox
	@scripts/release/package.sh --sandbox build/sandbox

release: ## make all that a release consists of, in build/release
	@scripts/release/release.sh build/release

clippy: ## lint the module's build
	@scripts/build.sh -k $(KERNEL) CLIPPY=1 W=e

fmt: ## format every Rust file
	@scripts/fmt.sh

fmt-check: ## check the format of every Rust file
	@scripts/fmt.sh --check

check: ## run every test; the last line is the sum
	@set -f; scripts/check.sh $(CHECK)

quick: ## build, check the sources, run host tests and one machine: 90 seconds
	@set -f; scripts/check.sh --quick $(CHECK)

check-long: ## run every test, and those that take hours
	@set -f; scripts/check.sh --long $(CHECK)

times: ## show what the steps of the last make check cost; one that has grown by half fails
	@scripts/times.py

doc: ## make HTML of the pages and of the crates that are no module, in build/doc
	@scripts/doc.sh

fuzz: ## libFuzzer on the host, FUZZ_SECONDS each (60)
	@scripts/fuzz.sh $(FUZZ)

demo: ## show ibv_rc_pingpong and ib_write_bw over ferroce
	@scripts/demo.sh

bench: ## measure ferroce, rdma_rxe and TCP (QUICK=1: less than 5 minutes)
	@scripts/bench.sh

profile: ## profile a 64 KiB write, in ferroce and in rdma_rxe
	@scripts/profile.sh

vm: ## boot, set up, run RUN=script.sh as root in the guest
	@scripts/vm.sh -k $(KERNEL) $(RUN)

kernels: ## build for each supported kernel and run a short suite on it; writes Documentation/kernels.inc
	@scripts/kernel/kernels.sh $(KERNELS)

clean: ## remove build output from the tree
	@rm -rf build ferroce.ko rust-project.json
	@scripts/kernel/fresh.sh --clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
	@echo
	@echo '  KVER=7.3.4+deb13            the stock kernel to build for'
	@echo '  FLAVOUR=amd64|cloud|rt|arm64|16k  its flavour'
	@echo '  GUEST=bookworm|trixie|sid   the release of Debian whose programs, and rdma-core, the guest runs'
	@echo '  KERNELS="7.2.12+deb13/rt-amd64"  only these in make kernels; more in make release'
	@echo '  SIGNING_KEY=FILE SIGNING_CERT=FILE  sign the modules of packages'
	@echo '  RUST_TREE=FILE              the source of Linux whose Rust support is built into the module'
	@echo '  DRIVER=ferroce|rxe|none     which driver the guest sets up'
	@echo '  KERNEL=stock|debug|kcsan|uml|umdebug  which kernel is booted'
	@echo '  TOPOLOGY=single|netns|pair  one device, two namespaces, two machines'
	@echo '  PEER_DRIVER=ferroce|rxe     the driver of the second machine'
	@echo '  VM_TIMEOUT=600              seconds until a guest run has failed'
	@echo '  CHECK="vm/* cargo-*"        only these steps of make check'
	@echo '  RESUME=1                    skip steps that have passed with the same sources'
	@echo '  FERROCE_CACHE=~/.cache/ferroce'

.PHONY: all install deb sandbox release clippy fmt fmt-check check quick check-long times doc fuzz demo bench profile vm \
	kernels clean help
