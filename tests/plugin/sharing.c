// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's TCG that counts, between two commands of the guest, locked instructions and transfers: accesses
 * of one virtual processor to a line that the other has written since.
 *
 * The guest (tests/vm/load/sharing.py) commands it by executing a no-op with an odd operand, see MAGIC. When the
 * counting ends, the result is written as text into a file, at an offset; the file is a disk of the guest, which reads
 * it.
 *
 *	-plugin file=sharing.so,result=FILE,offset=NUMBER,size=NUMBER
 */

#include "qemu.h"
#include "tally.h"
#include "turns.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A no-op with a displacement of 32 bits: `nopl MAGIC | command(%rax,%rax)`. */
#define MAGIC 0xfe44c000
/* Behind it stand two no-ops whose displacements are the halves of a number, `nopl HALF(%rax)`. */
enum { START = 1, STOP, MODULE_BEGIN, MODULE_END, HELPERS_BEGIN, HELPERS_END, SCHEDULE, INTERRUPT };
#define MAGIC_LENGTH 8
#define HALF_LENGTH 7

#define LINE_SHIFT 6
/* Lines of the guest's memory that are looked at: 4 GiB. */
#define LINES (1UL << (32 - LINE_SHIFT))
#define INTERRUPTS 64
#define EVENTS_SHOWN 5000

/* The code that a processor runs. */
enum { USER, TASK, IN_INTERRUPT, CONTEXTS };

/* Where the access of a transfer is: in the module, in the kernel after the module has run, elsewhere. */
enum { OURS, BEHIND, KERNEL, PROGRAM, PLACES };

/* What ran last in this system call, or in this interrupt. */
struct trace {
	/* A block of the module, and the block of the kernel after it: the beginning of the function called. */
	uint64_t block;
	uint64_t callee;
};

struct vcpu {
	bool interrupt;
	struct trace traces[2];
	uint64_t instructions[CONTEXTS];
	uint64_t transfers[PLACES];
} __attribute__((aligned(64)));

struct block {
	uint64_t address;
	unsigned int instructions;
};

struct range {
	uint64_t begin, end;
};

struct command {
	uint32_t command;
	uint64_t number;
};

static bool counting;
static struct vcpu vcpus[VCPUS];
static struct range module, helpers;
static uint64_t schedule;
static uint64_t interrupts[INTERRUPTS];
static unsigned int interrupt_count;
/* For each line the processors that have it as it was last written, one bit each; 0 before the first write. */
static uint8_t *holders;
static struct tally locked = { .bits = 16 };
static struct tally transfers = { .bits = 18 };

static char *result;
static size_t result_size, result_length;
static int result_file = -1;
static off_t result_offset;

EXPORTED int qemu_plugin_version = API_VERSION;

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

static bool is_in(const struct range *range, uint64_t address)
{
	return address >= range->begin && address < range->end;
}

static bool is_interrupt(uint64_t address)
{
	for (unsigned int i = 0; i < interrupt_count; i++) {
		if (interrupts[i] == address)
			return true;
	}
	return false;
}

static struct trace *trace(struct vcpu *vcpu)
{
	return &vcpu->traces[vcpu->interrupt];
}

static int context(const struct vcpu *vcpu, uint64_t address)
{
	if (!is_kernel(address))
		return USER;
	return vcpu->interrupt ? IN_INTERRUPT : TASK;
}

static void __attribute__((format(printf, 1, 2))) tell(const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(result + result_length, result_size - result_length, format, arguments);
	va_end(arguments);
	if (length > 0 && result_length + length < result_size)
		result_length += length;
}

static void tell_events(const char *name, struct tally *tally)
{
	size_t count = tally_sort(tally);

	tell("events %s %zu %u %lu\n", name, count, EVENTS_SHOWN, tally->lost);
	for (size_t i = 0; i < count && i < EVENTS_SHOWN; i++) {
		const struct entry *entry = &tally->entries[i];

		tell("%s %lu", name, entry->count);
		for (int word = 0; word < EVENT_WORDS; word++)
			tell(" %lx", entry->event.word[word]);
		tell("\n");
	}
}

static void write_result(void)
{
	struct turns turns = turns_count();

	memset(result, 0, result_size);
	result_length = 0;
	for (int i = 0; i < VCPUS; i++) {
		for (int c = 0; c < CONTEXTS; c++)
			tell("instructions %d %lu\n", c, vcpus[i].instructions[c]);
		for (int place = 0; place < PLACES; place++)
			tell("moved %d %lu\n", place, vcpus[i].transfers[place]);
	}
	tell("turns %lu %lu\n", turns.given, turns.taken);
	tell_events("locked", &locked);
	tell_events("transfer", &transfers);
	tell("end\n");
	if (pwrite(result_file, result, result_size, result_offset) != (ssize_t)result_size)
		perror("sharing: the result cannot be written");
}

static void start(void)
{
	memset(vcpus, 0, sizeof(vcpus));
	memset(holders, 0, LINES);
	tally_clear(&locked);
	tally_clear(&transfers);
	turns_set(true);
	__atomic_store_n(&counting, true, __ATOMIC_SEQ_CST);
}

static void stop(void)
{
	__atomic_store_n(&counting, false, __ATOMIC_SEQ_CST);
	turns_set(false);
	write_result();
}

static void on_command(unsigned int vcpu, void *data)
{
	const struct command *command = data;

	(void)vcpu;
	switch (command->command) {
	case START:
		/* With other numbers of processors there is no result, which the guest notices. */
		if (qemu_plugin_n_max_vcpus() == VCPUS)
			start();
		break;
	case STOP:
		if (counting)
			stop();
		break;
	case MODULE_BEGIN:
		module.begin = command->number;
		break;
	case MODULE_END:
		module.end = command->number;
		break;
	case HELPERS_BEGIN:
		helpers.begin = command->number;
		break;
	case HELPERS_END:
		helpers.end = command->number;
		break;
	case SCHEDULE:
		schedule = command->number;
		break;
	case INTERRUPT:
		if (interrupt_count < INTERRUPTS)
			interrupts[interrupt_count++] = command->number;
		break;
	}
}

static void on_block(unsigned int index, void *data)
{
	const struct block *block = data;
	struct vcpu *vcpu = &vcpus[index];

	if (!counting)
		return;
	if (!is_kernel(block->address)) {
		vcpu->interrupt = false;
		vcpu->traces[0] = (struct trace){ 0 };
	} else if (is_interrupt(block->address)) {
		vcpu->interrupt = true;
		vcpu->traces[1] = (struct trace){ 0 };
	} else if (block->address == schedule) {
		/* Another task comes, or this one has been waiting for long. */
		memset(vcpu->traces, 0, sizeof(vcpu->traces));
	} else if (is_in(&module, block->address)) {
		*trace(vcpu) = (struct trace){ .block = block->address };
	} else if (trace(vcpu)->block && !trace(vcpu)->callee && !is_in(&helpers, block->address)) {
		/* The kernel's helpers for Rust only stand for what they call. */
		trace(vcpu)->callee = block->address;
	}
	vcpu->instructions[context(vcpu, block->address)] += block->instructions;
	turns_run(index, block->instructions);
}

/* A return from an interrupt or exception of the kernel. */
static void on_return(unsigned int index, void *data)
{
	(void)data;
	vcpus[index].interrupt = false;
}

static void on_locked(unsigned int index, void *data)
{
	uint64_t address = (uintptr_t)data;
	struct vcpu *vcpu = &vcpus[index];
	struct trace *last = trace(vcpu);

	if (counting)
		tally_add(&locked, (struct event){ { address, last->block, last->callee, context(vcpu, address) } });
}

static int place_of(struct vcpu *vcpu, uint64_t address)
{
	if (is_in(&module, address))
		return OURS;
	if (!is_kernel(address))
		return PROGRAM;
	return trace(vcpu)->block ? BEHIND : KERNEL;
}

static void on_line(unsigned int index, uint64_t physical, uint64_t virtual, bool store, uint64_t address)
{
	uint64_t line = physical >> LINE_SHIFT;
	uint8_t me = 1 << index, had;
	struct vcpu *vcpu = &vcpus[index];

	if (line >= LINES)
		return;
	had = holders[line];
	if (store)
		holders[line] = me;
	else if (had)
		holders[line] = had | me;
	if (!had || had & me)
		return;
	vcpu->transfers[place_of(vcpu, address)]++;
	tally_add(&transfers, (struct event){ { address, trace(vcpu)->block, physical, virtual } });
}

static void on_access(unsigned int index, uint32_t access, uint64_t virtual, void *data)
{
	struct qemu_plugin_hwaddr *place;

	if (!counting)
		return;
	place = qemu_plugin_get_hwaddr(access, virtual);
	if (!place || qemu_plugin_hwaddr_is_io(place))
		return;
	on_line(index, qemu_plugin_hwaddr_phys_addr(place), virtual, qemu_plugin_mem_is_store(access),
		(uintptr_t)data);
}

/* Whether an instruction has the prefix LOCK, or is XCHG with memory; sets the opcode. */
static bool is_locked(const uint8_t *code, size_t length, uint8_t *opcode)
{
	static const uint8_t prefixes[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
	bool lock = false;
	size_t i;

	for (i = 0; i < length; i++) {
		if (code[i] == 0xf0)
			lock = true;
		else if (!memchr(prefixes, code[i], sizeof(prefixes)))
			break;
	}
	/* A REX prefix. */
	if (i < length && (code[i] & 0xf0) == 0x40)
		i++;
	*opcode = i < length ? code[i] : 0;
	if ((*opcode == 0x86 || *opcode == 0x87) && i + 1 < length && code[i + 1] >> 6 != 3)
		lock = true;
	return lock;
}

/* A number of 32 bits at the end of an instruction that begins with these bytes. */
static bool operand(struct qemu_plugin_insn *instruction, const char *bytes, size_t count, uint32_t *number)
{
	const uint8_t *code = qemu_plugin_insn_data(instruction);

	if (qemu_plugin_insn_size(instruction) != count + sizeof(*number) || memcmp(code, bytes, count))
		return false;
	memcpy(number, code + count, sizeof(*number));
	return true;
}

static void *remember(const void *data, size_t size)
{
	void *copy = malloc(size);

	/* QEMU says nothing when it throws a translation away, so these stay until its end. */
	if (!copy)
		abort();
	return memcpy(copy, data, size);
}

static void translate_command(struct qemu_plugin_tb *block, size_t i)
{
	struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
	struct command command = { 0 };
	uint32_t low, high;

	if (!operand(instruction, "\x0f\x1f\x84\x00", 4, &command.command))
		return;
	if ((command.command & 0xffffff00) != MAGIC)
		return;
	command.command &= 0xff;
	if (i + 2 < qemu_plugin_tb_n_insns(block) &&
	    operand(qemu_plugin_tb_get_insn(block, i + 1), "\x0f\x1f\x80", 3, &low) &&
	    operand(qemu_plugin_tb_get_insn(block, i + 2), "\x0f\x1f\x80", 3, &high))
		command.number = (uint64_t)high << 32 | low;
	qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_command, NO_REGISTERS,
					       remember(&command, sizeof(command)));
}

static void on_translation(uint64_t plugin, struct qemu_plugin_tb *translation)
{
	size_t count = qemu_plugin_tb_n_insns(translation);
	struct block block = { .instructions = count };

	(void)plugin;
	block.address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translation, 0));
	qemu_plugin_register_vcpu_tb_exec_cb(translation, on_block, NO_REGISTERS, remember(&block, sizeof(block)));
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(translation, i);
		void *address = (void *)(uintptr_t)qemu_plugin_insn_vaddr(instruction);
		uint8_t opcode;

		translate_command(translation, i);
		qemu_plugin_register_vcpu_mem_cb(instruction, on_access, NO_REGISTERS, ALL_ACCESSES, address);
		if (is_locked(qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction), &opcode))
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_locked, NO_REGISTERS, address);
		if (opcode == 0xcf && is_kernel(block.address))
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_return, NO_REGISTERS, NULL);
	}
}

static void on_idle(uint64_t plugin, unsigned int vcpu)
{
	(void)plugin;
	turns_idle(vcpu, true);
}

static void on_resume(uint64_t plugin, unsigned int vcpu)
{
	(void)plugin;
	turns_idle(vcpu, false);
}

int qemu_plugin_install(uint64_t plugin, const void *machine, int count, char **arguments)
{
	(void)machine;
	for (int i = 0; i < count; i++) {
		if (!strncmp(arguments[i], "result=", 7))
			result_file = open(arguments[i] + 7, O_RDWR | O_CLOEXEC);
		else if (!strncmp(arguments[i], "offset=", 7))
			result_offset = atol(arguments[i] + 7);
		else if (!strncmp(arguments[i], "size=", 5))
			result_size = atol(arguments[i] + 5);
	}
	/* Without a file it only shows that it can be loaded. */
	if (result_file < 0)
		return 0;
	result = malloc(result_size);
	holders = malloc(LINES);
	if (!result || !holders)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(plugin, on_translation);
	qemu_plugin_register_vcpu_idle_cb(plugin, on_idle);
	qemu_plugin_register_vcpu_resume_cb(plugin, on_resume);
	return 0;
}
