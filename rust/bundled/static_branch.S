/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The instruction of a static branch and its entry in the table of jumps, as kernel::jump_label wants them. Headers have
 * ARCH_STATIC_BRANCH_ASM since 6.14; before, their text is part of a function in C (asm/jump_label.h).
 */
#include <linux/jump_label.h>
#include <linux/stringify.h>

#if defined(ARCH_STATIC_BRANCH_ASM)
/* Used as it is. */
#elif defined(CONFIG_X86_64) && defined(CONFIG_HAVE_JUMP_LABEL_HACK)
/* objtool makes a no-op of the jump, and finds it by the 2. */
#define ARCH_STATIC_BRANCH_ASM(key, label) "1: jmp " label "\n" ENTRY_ASM("1b", label, key " + 2")
#elif defined(CONFIG_X86_64)
#define ARCH_STATIC_BRANCH_ASM(key, label) "1: .byte " __stringify(BYTES_NOP5) "\n" ENTRY_ASM("1b", label, key)
#elif defined(CONFIG_ARM64)
#define ARCH_STATIC_BRANCH_ASM(key, label) "1: nop\n" ENTRY_ASM("1b", label, key)
#endif
#define ENTRY_ASM(code, label, key) ".pushsection __jump_table, \"aw\"\n" ".balign 8\n" \
	".long " code " - .\n" ".long " label " - .\n" ".quad " key " - .\n" ".popsection\n"

// Cut here.
::kernel::concat_literals!(ARCH_STATIC_BRANCH_ASM("{symb} + {off} + {branch}", "{l_yes}"))
