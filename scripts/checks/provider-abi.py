#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""provider-abi.py RDMA-CORE: writes the table of tools/provider/src/abi/ops.rs, from a git repository of rdma-core.

A column is one layout of `struct verbs_context_ops`, which the tag on its top has. All tags that are named in NEVER
must agree with the column of their number, or a layout is missing.

provider-abi.py --layouts: prints the table of tools/provider/src/ffi/layouts.rs as assertions in C.
"""

import pathlib
import re
import subprocess
import sys

# The columns, and releases whose layout must be that of a column.
COLUMNS = {
    "v56.0": ("v36.0", "v39.0", "v44.0", "v50.0", "v57.0", "v58.0"),
    "v61.0": ("v59.0", "v60.0"),
    "v63.0": ("v62.0",),
    "v64.0": (),
    "HEAD": (),
}

# The operations that the library sets.
OPS = """advise_mr alloc_mw alloc_parent_domain alloc_pd alloc_td attach_mcast bind_mw close_xrcd create_ah
create_comp_cntr create_cq create_cq_ex create_qp create_qp_ex create_srq create_srq_ex dealloc_mw dealloc_pd dealloc_td
dereg_mr destroy_ah destroy_comp_cntr destroy_cq destroy_qp destroy_srq detach_mcast free_context get_srq_num import_mr
import_pd inc_comp_cntr inc_err_comp_cntr modify_cq modify_qp modify_srq open_qp open_xrcd poll_cq post_recv post_send
post_srq_recv qp_attach_comp_cntr query_comp_cntr_caps query_device_ex query_port query_port_speed query_qp
query_rt_values query_srq read_comp_cntr read_err_comp_cntr reg_dmabuf_mr reg_mr req_notify_cq rereg_mr resize_cq
set_comp_cntr set_err_comp_cntr unimport_mr unimport_pd""".split()


def operations(repository, tag):
    """The names of the operations of a release, in order."""
    command = ["git", "-C", repository, "show", f"{tag}:libibverbs/driver.h"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    body = re.search(r"struct verbs_context_ops \{(.*?)\n\};", text, re.S).group(1)
    return re.findall(r"\(\*(\w+)\)\s*\(", re.sub(r"/\*.*?\*/", "", body, flags=re.S))


def place(names, operation):
    """The place of an operation; -1 if the release lacks it."""
    return str(names.index(operation)) if operation in names else "-1"


def layouts():
    """The assertions, for a compiler of either architecture."""
    table = pathlib.Path(__file__).resolve().parent.parent / "tools/provider/src/ffi/layouts.rs"
    line = re.compile(r'    \w+::\S+ is (at least )?"(struct \w+)\.?(\S*)" (\d+) (\d+);')
    print("#include <stddef.h>\n#include <infiniband/driver.h>")
    print("#ifdef __aarch64__\n#define IS_ARM64 1\n#else\n#define IS_ARM64 0\n#endif")
    for relaxed, type_name, field, x86_64, aarch64 in line.findall(table.read_text()):
        found = f"offsetof({type_name}, {field})" if field else f"sizeof({type_name})"
        expected = f"{found} {'<=' if relaxed else '=='} (IS_ARM64 ? {aarch64} : {x86_64})"
        print(f'_Static_assert({expected}, "{type_name} {field}");')


def main():
    if sys.argv[1] == "--layouts":
        layouts()
        return
    columns = []
    for tag, same in COLUMNS.items():
        names = operations(sys.argv[1], tag)
        for other in same:
            if operations(sys.argv[1], other) != names:
                sys.exit(f"provider-abi: {other} has another layout than {tag}")
        columns.append(names)
    print("    // " + ", ".join(COLUMNS))
    print("    entries " + " ".join(str(len(names)) for names in columns) + ";")
    for op in OPS:
        variant = "".join(word.capitalize() for word in op.split("_"))
        print(f"    {variant} " + " ".join(place(names, op) for names in columns) + ";")


main()
