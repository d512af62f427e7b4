# SPDX-License-Identifier: GPL-2.0
"""Assigns the time of each function to a line of a message's budget. The first line that matches takes it.

Depends on names of kernel functions, and on the parts that bench.profile divides a machine into.
"""

import collections
import re

#: (purpose, the parts it is looked for in or none for all, what the function's name holds).
PURPOSES = (
    ("programs, mostly waiting for completions", ("programs", "host, for programs"), ""),
    ("copying", None, r"memcpy|memmove|_copy_(to|from)_|copy_from_(skb|iter|user)|copy_bits|copy_to_|rep_movs"),
    ("ICRC", None, r"crc32|crc_"),
    ("interrupts off and on", None, r"sigmask|sigprocmask|um_set_signals|block_signals"),
    ("other work of the host: system calls, timers, faults", ("C library", "host kernel"), ""),
    ("locks", None, r"spin_(un)?lock|mutex_|rwsem|queued_(read|write)|lock_bh|_lock_slow"),
    ("counters and references", None, r"rust_helper_(atomic|refcount)|refcount_|percpu_ref"),
    ("the driver's own code", ("ferroce", "rdma_rxe", "siw"), ""),
    (
        "memory: packets and pages",
        None,
        r"kmem_|kmalloc|kfree|alloc_skb|skb_(release|free|clone)|kfree_skb|page_frag|_alloc_|free_pages|put_page|folio|"
        r"slab|consume_skb|build_skb|napi_skb",
    ),
    (
        "network: IP, UDP, TCP, queueing, veth",
        None,
        r"^_*(ip[46]?|udp[46]?|tcp|dev|netif|veth|nf|neigh|qdisc|fib|inet|napi|net|sock|skb|eth|"
        r"process_backlog|loopback|sch|pfifo|validate_xmit|sk|xfrm|rt|dst)_",
    ),
    (
        "scheduling, work items, timers",
        None,
        r"sched|enqueue|dequeue|wake|work|pick_|update_|kthread|timer|tick|idle|switch|task|rcu|softirq|irq|clock|time",
    ),
)
REST = "everything else"


def purpose(part, function):
    """What the time of a function is for."""
    for name, parts, pattern in PURPOSES:
        if (parts is None or part in parts) and re.search(pattern, function):
            return name
    return REST


def by_purpose(found):
    """Samples by purpose, from samples by (part, function)."""
    sums = collections.Counter()
    for (part, function), samples in found.items():
        sums[purpose(part, function), ""] += samples
    return sums
