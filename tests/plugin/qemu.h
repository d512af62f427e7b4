/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's interface for TCG plugins, version 1, that is used here. Debian 12 packages no header of it.
 * Functions are QEMU's, except qemu_plugin_install, which it calls.
 */
#ifndef QEMU_H
#define QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_VERSION 1
#define EXPORTED __attribute__((visibility("default")))

/* A callback reads no registers. */
#define NO_REGISTERS 0
/* Both loads and stores. */
#define ALL_ACCESSES 3

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

typedef void (*translated)(uint64_t plugin, struct qemu_plugin_tb *block);
typedef void (*vcpu_event)(uint64_t plugin, unsigned int vcpu);
typedef void (*executed)(unsigned int vcpu, void *data);
typedef void (*accessed)(unsigned int vcpu, uint32_t access, uint64_t address, void *data);

EXPORTED extern int qemu_plugin_version;
EXPORTED int qemu_plugin_install(uint64_t plugin, const void *machine, int count, char **arguments);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, translated callback);
void qemu_plugin_register_vcpu_idle_cb(uint64_t plugin, vcpu_event callback);
void qemu_plugin_register_vcpu_resume_cb(uint64_t plugin, vcpu_event callback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, executed callback, int registers, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, executed callback, int registers,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, accessed callback, int registers,
				      int accesses, void *data);

int qemu_plugin_n_max_vcpus(void);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);

bool qemu_plugin_mem_is_store(uint32_t access);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t access, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *place);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *place);

#endif
