#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-module.sh [MODULE [KDIR]]: disassembles a module and compares it with what the kernel's configuration asks for.
# objtool looks at the same, where the kernel has it; this looks at what came out.
#
#	MITIGATION_RETPOLINE  no jump or call through a register or memory
#	MITIGATION_RETHUNK    no return but through the kernel's thunk
#	MITIGATION_SLS        a trap after each return and each indirect jump that there is
#	X86_KERNEL_IBT        ENDBR where the kernel calls by address; the list of the others is there
#	CALL_PADDING          no-ops before each function
#	ARM64_BTI_KERNEL      a landing pad (BTI or PACIASP) where the kernel calls by address
#	always                no register of the FPU; only relocations that the loader of modules knows; only symbols
#	                      that the kernel exports, and none of Rust unless the kernel's own crates are used

set -euo pipefail
# What stands at the end of a pipe counts.
shopt -s lastpipe

module=${1:-build/stock/rust/ferroce.ko}
kdir=${2:-$(<"${module%/rust/*}/.kernel")/build}
config=$kdir/include/config/auto.conf symbols=$kdir/Module.symvers
wrong=0

has() { grep -qx "CONFIG_$1=y" "$config"; }

# none WHAT: standard input, which should be empty, is what is wrong.
none() {
	local found
	found=$(cat)
	[ -n "$found" ] || return 0
	echo "$module: $1:"
	head -n 10 <<<"$found" | sed 's/^/    /'
	wrong=$((wrong + 1))
}

tool=
! has ARM64 || [ "$(uname -m)" = aarch64 ] || tool=aarch64-linux-gnu-
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "FUNCTION INSTRUCTION" of the code; replacements of instructions are put into place by the kernel, and hold anything.
"${tool}objdump" -dr --no-show-raw-insn -j .text -j .init.text -j .exit.text -j .text.unlikely "$module" 2>/dev/null |
	awk '/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); print name, "BEGIN"; next }
		/^ +[0-9a-f]+:\t/ { sub(/^[^\t]*\t/, ""); print name, $0; next }
		/R_(X86_64|AARCH64)_/ { print name, "RELOC", $(NF - 1), $NF }' >"$work/code"
[ -s "$work/code" ] || { echo "$module has no code" >&2; exit 1; }

if has X86_64; then
	indirect='(jmp|call)q? +\*'
	# Those to pv_ops are replaced when the module is loaded.
	! has MITIGATION_RETPOLINE || awk -v indirect=" (notrack )?$indirect" '
		held && !/RELOC .*pv_ops/ { print held }
		{ held = $0 ~ indirect ? $0 : "" }' "$work/code" | none "an indirect jump or call"
	! has MITIGATION_RETHUNK || { grep -E ' (ret|retq)\b' "$work/code" || true; } | none "a bare return"
	! has MITIGATION_SLS || awk '
		armed && $2 != "int3" && $2 != "RELOC" { print last }
		{ armed = $2 ~ /^retq?$/ || ($2 ~ /^jmpq?$/ && $3 ~ /^\*/); last = $0 }' "$work/code" |
		none "no trap after a return or an indirect jump"
	if has X86_KERNEL_IBT; then
		awk '$2 == "BEGIN" { getline; if ($2 != "endbr64") print $1 }' "$work/code" |
			{ grep -xE 'init_module|cleanup_module' || true; } | none "no ENDBR where the kernel calls"
		"${tool}objdump" -h "$module" | grep '\.ibt_endbr_seal' >/dev/null ||
			echo "no section .ibt_endbr_seal" | none "objtool"
	fi
	! has CALL_PADDING || awk '
		$1 ~ /^(__pfx_|\.L)|\.cold$/ { last = $2; next }
		$2 == "BEGIN" && last !~ /^(nop|xchg|data16|cs)/ { print $1 }
		{ last = $2 }' "$work/code" | none "no padding before a function"
	grep -E '%([xyz]mm|mm[0-7]|st\b)' "$work/code" | none "a register of the FPU" || true
	known='NONE|64|PC64|32|32S|PC32|PLT32'
	type=R_X86_64_
else
	! has ARM64_BTI_KERNEL || awk '
		$2 == "BEGIN" { getline; if ($2 !~ /^(bti|paciasp|nop)$/) print $1, $2 }' "$work/code" |
		{ grep -E '^(init_module|cleanup_module) ' || true; } | none "no landing pad where the kernel calls"
	grep -E '[ ,{[][vqds][0-9]+[.,] ' "$work/code" | none "a register of the FPU" || true
	known='NONE|ABS64|ABS32|ABS16|PREL64|PREL32|PREL16|MOVW_.*|LD_PREL_LO19|ADR_PREL_LO21|ADR_PREL_PG_HI21|'
	known+='ADR_PREL_PG_HI21_NC|ADD_ABS_LO12_NC|LDST(8|16|32|64|128)_ABS_LO12_NC|TSTBR14|CONDBR19|JUMP26|CALL26'
	type=R_AARCH64_
fi

# Sections of debug information are not loaded.
"${tool}readelf" -rW "$module" |
	awk '/^Relocation section/ { debug = /\.debug/ } !debug && / R_/ { print $3 }' | sort -u |
	{ grep -vxE "$type($known)" || true; } | none "a relocation that the loader of modules does not know"
comm -23 <("${tool}nm" -u "$module" | awk '{ print $2 }' | sort -u) <(cut -f2 "$symbols" | sort -u) |
	none "a symbol that the kernel does not export"
# Names that Rust mangles begin so.
if ! grep -q "	_R" "$symbols"; then
	"${tool}nm" -u "$module" | awk '$2 ~ /^(_R|rust_)/ { print $2 }' | none "a symbol of Rust"
fi

if [ "$wrong" -gt 0 ]; then
	echo "check-module: $wrong wrong"
	exit 1
fi
echo "check-module: $(grep -c BEGIN "$work/code") functions," \
	"$("${tool}nm" -u "$module" | wc -l) symbols imported"
