#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The direction of imports, between the crates, between the folders of each, and between files.

Between crates: `roce` uses core and zerocopy, `rdma` uses the kernel, the driver uses both, and only `rdma` knows
bindings. Inside a crate, scripts/checks/layers lists the folders and top-level files bottom up: each imports only those
that stand before it. Below that, at every level of the tree, modules import each other without a cycle, where whatever
a module contains counts as the module itself.

`check-layers.py --edges` prints which file imports which.
"""

import re
import sys

import source

LAYERS = "scripts/checks/layers"

CRATES = {
    "roce": "rust/roce",
    "rdma": "rust/rdma",
    "ferroce": "rust/driver",
    "sandbox": "tools/ferroce-run/src",
}
# What the first component of a path may be. Ours are `crate`, `self` and `super`.
MAY_USE = {
    "roce": {"core", "zerocopy", "zerocopy_derive"},
    "rdma": {"core", "kernel", "pin_init", "macros", "zerocopy", "zerocopy_derive"},
    "ferroce": {"core", "kernel", "pin_init", "macros", "zerocopy", "zerocopy_derive", "rdma", "roce"},
    "sandbox": {"std"},
}
KNOWN_CRATES = {"alloc", "bindings", "core", "ferroce", "kernel", "rdma", "roce", "std", "uapi"}

USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(\w+)((?:::\w+)+)")


def module_of(path, root):
    """`rust/roce/wire/bth.rs` -> ('wire', 'bth'); the crate's root -> ()."""
    parts = path[len(root) + 1 : -len(".rs")].split("/")
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def leaves(tree, prefix=()):
    """`a::{b, c::{self, D as E}}` -> paths and the name each is known by."""
    tree = tree.strip()
    at = tree.find("{")
    if at < 0:
        path, _, name = tree.partition(" as ")
        parts = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        if parts:
            yield parts, (name.strip() or parts[-1])
        return
    head = prefix + tuple(part.strip() for part in tree[:at].split("::") if part.strip())
    depth, start = 0, at + 1
    body = tree[at + 1 : tree.rindex("}")]
    start = 0
    for index, char in enumerate(body + ","):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == "," and depth == 0:
            if body[start:index].strip():
                yield from leaves(body[start:index], head)
            start = index + 1


class Crate:
    """The files of one crate and what they name."""

    def __init__(self, name):
        self.name = name
        self.root = CRATES[name]
        # Tests may import anything.
        code = source.shipped(self.root)
        self.files = {module_of(path, self.root): path for path in code}
        self.code = {module: code[path] for module, path in self.files.items()}
        self.exports = {module: self._exports(module) for module in self.files}

    def _exports(self, module):
        """Names that a module passes on from its children."""
        found = {}
        for match in re.finditer(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", self.code[module]):
            for parts, name in leaves(match.group(1)):
                found[name] = self._absolute(module, parts)
        return found

    def _absolute(self, module, parts):
        """A path as seen from a module -> the same from the crate's root; None when foreign."""
        if parts[0] == "crate":
            return parts[1:]
        if parts[0] == "self":
            return module + parts[1:]
        if parts[0] == "super":
            base = list(module)
            while parts and parts[0] == "super":
                base, parts = base[:-1], parts[1:]
            return tuple(base) + parts
        if module + parts[:1] in self.files:
            return module + parts
        return None

    def owner(self, parts):
        """The module that holds what a path from the root names."""
        seen = 0
        while seen < 8:
            for length in range(len(parts), -1, -1):
                if parts[:length] in self.files:
                    break
            module, rest = parts[:length], parts[length:]
            passed = self.exports.get(module, {}).get(rest[0]) if rest else None
            if not passed:
                return module
            parts, seen = passed + rest[1:], seen + 1
        return module

    def paths(self, module):
        """(line, path) of everything that a file names by a path, imports first."""
        code = self.code[module]
        names = {}
        for match in USE.finditer(code):
            for parts, name in leaves(match.group(2)):
                names[name] = parts
                # A name that is only passed on, so that it is found here, is no dependency.
                if not match.group(1):
                    yield source.line_of(code, match.start()), parts
        rest = USE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), code)
        for match in PATH.finditer(rest):
            parts = (match.group(1),) + tuple(match.group(2).split("::")[1:])
            if parts[0] in names:
                parts = names[parts[0]] + parts[1:]
            yield source.line_of(rest, match.start()), parts

    def imports(self, module):
        """{module imported: line} inside the crate."""
        found = {}
        for line, parts in self.paths(module):
            path = self._absolute(module, parts)
            if path is None:
                continue
            owner = self.owner(path)
            # A parent declares its children and passes their names on; that is no dependency.
            if owner != module and owner[: len(module)] != module:
                found.setdefault(owner, line)
        return found


def check_crate_borders(crate, report):
    """Which foreign crates each file names."""
    for module, path in crate.files.items():
        for line, parts in crate.paths(module):
            top = parts[0]
            if top in KNOWN_CRATES - MAY_USE[crate.name] - {"bindings"}:
                report.add(path, line, f"{crate.name} must not use {top}")
            if crate.name != "rdma" and "bindings" in parts[:2]:
                report.add(path, line, "bindings belong to the crate rdma alone")


def read_layers():
    """{crate: {top-level module: (rank, line)}} from the list; the modules of a line do not import each other."""
    found, rank = {}, {}
    crate = None
    for number, line in enumerate(source.read(LAYERS).splitlines(), 1):
        line = line.partition("#")[0].rstrip()
        if not line:
            continue
        if line.endswith(":"):
            crate = line[:-1]
            found[crate], rank[crate] = {}, 0
            continue
        rank[crate] += 1
        for name in line.split():
            found[crate][name] = (rank[crate], number)
    return found


def check_order(crate, order, report):
    """Each top-level module against the list."""
    tops = {module[0] for module in crate.files if module}
    for name, (_rank, line) in order.items():
        if name not in tops:
            report.add(LAYERS, line, f"{crate.name} has no module {name}")
    for module, path in sorted(crate.files.items()):
        if not module:
            continue  # The root declares modules; what it re-exports is judged where it is used.
        if module[0] not in order:
            report.add(path, 1, f"{module[0]} is not in {LAYERS}")
            continue
        for owner, line in crate.imports(module).items():
            if not owner:
                if crate.name != "ferroce":
                    report.add(path, line, "imports from the crate's root")
            elif owner[0] != module[0] and owner[0] in order and order[owner[0]][0] >= order[module[0]][0]:
                name = "::".join(owner)
                report.add(path, line, f"imports {name}, which does not stand below {module[0]} in {LAYERS}")


def folded(crate):
    """{parent: {child: {sibling: (path, line)}}}: imports between the modules of each level, what they contain folded
    into them."""
    levels = {}
    for module, path in crate.files.items():
        for owner, line in crate.imports(module).items():
            depth = 0
            while depth < min(len(module), len(owner)) and module[depth] == owner[depth]:
                depth += 1
            # An import between a module and one that contains it is none between siblings.
            if depth < min(len(module), len(owner)):
                siblings = levels.setdefault(module[:depth], {}).setdefault(module[depth], {})
                siblings.setdefault(owner[depth], (path, line))
    return levels


def find_cycle(edges):
    """The modules of one cycle, in order; empty if there is none."""
    state, trail = {}, []

    def visit(name):
        state[name] = "open"
        trail.append(name)
        for other in sorted(edges.get(name, {})):
            if state.get(other) == "open":
                return trail[trail.index(other) :]
            if other not in state:
                cycle = visit(other)
                if cycle:
                    return cycle
        state[name] = "done"
        trail.pop()
        return []

    for name in sorted(edges):
        if name not in state:
            cycle = visit(name)
            if cycle:
                return cycle
    return []


def check_cycles(crate, report):
    """No import cycle at any level. Returns the number of levels that have one."""
    found = 0
    for parent, edges in sorted(folded(crate).items()):
        cycle = find_cycle(edges)
        if cycle:
            found += 1
            place = "::".join((crate.name,) + parent)
            path, line = edges[cycle[-1]][cycle[0]]
            report.add(path, line, f"cycle in {place}: {' -> '.join(cycle + cycle[:1])}")
    return found


def main():
    report = source.Report("check-layers")
    layers = read_layers()
    total = cycles = 0
    for name in CRATES:
        crate = Crate(name)
        if "--edges" in sys.argv:
            for module in sorted(crate.files):
                below = sorted("::".join(owner) or "(root)" for owner in crate.imports(module))
                print(f"{name} {'::'.join(module) or '(root)'}: {' '.join(below)}")
            continue
        check_crate_borders(crate, report)
        check_order(crate, layers.get(name, {}), report)
        cycles += check_cycles(crate, report)
        total += len(crate.files)
    if "--edges" not in sys.argv:
        report.finish(f"{total} files in order, {cycles} cycles between folders or modules")


if __name__ == "__main__":
    main()
