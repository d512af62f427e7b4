#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Where `unsafe` is, that each use says why it is sound, and that the written list agrees.

The word may stand as code in the crate rdma, in the model tests of some of its files, and in ffi/ of the provider. Each
`unsafe` block and `unsafe impl` has a `// SAFETY:` comment right above its statement, each `unsafe fn` and `unsafe
trait` a `# Safety` section in its doc. Documentation/unsafe.rst lists each file of the module with the number of its
blocks and impls.
"""

import re

import source

HOMES = ("rust/rdma/", "tests/loom/", "tools/provider/src/ffi/")
LIST = "Documentation/unsafe.rst"

USE = re.compile(r"\bunsafe\b")
# `unsafe extern "C" fn(` is a type, `unsafe fn(` too.
POINTER_TYPE = re.compile(r'unsafe\s+(?:extern\s*(?:"[^"]*"|\s+)?\s*)?fn\s*\(')
# How far above its block a justification may begin: a long one, and the statement's first lines.
REACH = 25


def kind(code, at):
    """What an `unsafe` is: block, impl, fn, trait, extern or type."""
    rest = code[at:]
    if POINTER_TYPE.match(rest):
        return "type"
    if re.match(r"unsafe\s*\{", rest):
        return "block"
    word = re.match(r"unsafe\s+(impl|trait|fn|extern)\b", rest)
    if not word:
        return "other"
    if word.group(1) == "extern":
        return "fn" if re.match(r"unsafe\s+extern\s+fn\b", rest) else "extern"
    return word.group(1)


def comment_above(lines, line):
    """The comment that belongs to the statement that holds a line (counted from 1)."""
    at = line - 1
    # The statement may have begun above: go up to its comment, not beyond the statement before.
    for _ in range(REACH):
        at -= 1
        if at < 0:
            return ""
        text = lines[at].strip()
        if text.startswith(("//", "*", "/*")):
            break
        if not text or text.endswith((";", "}")) and not text.startswith(("}", ".", "#")):
            return ""
    comment = []
    while at >= 0 and (lines[at].strip().startswith("//") or lines[at].strip().startswith("#[")):
        comment.append(lines[at].strip())
        at -= 1
    return "\n".join(comment)


def trait_impls(code):
    """Where the bodies of `impl Trait for Type` are."""
    for match in re.finditer(r"\bimpl\b[^{;]*\bfor\b[^{;]*\{", code):
        yield match.end() - 1, source.block_end(code, match.end() - 1)


def uses(path):
    """(line, kind, justified) of each `unsafe` in a file."""
    text = source.read(path)
    # Abi strings are kept, so that `unsafe extern "C" fn` can be told from a block of externs.
    code = source.code(text.replace('extern "C"', "extern    "))
    lines = text.splitlines()
    promised = list(trait_impls(code))
    for match in USE.finditer(code):
        what = kind(code, match.start())
        line = source.line_of(code, match.start())
        above = comment_above(lines, line)
        if what in ("block", "impl", "extern"):
            justified = "SAFETY:" in above or "SAFETY:" in lines[line - 1]
        elif what in ("fn", "trait"):
            # The trait has said what a method of its requires; a trampoline's callers are in C.
            justified = (
                "# Safety" in above
                or "extern" in lines[line - 1]
                or any(first < match.start() < last for first, last in promised)
            )
        else:
            justified = what == "type"
        yield line, what, justified


def written_list():
    """{path: (count, line)} from the documentation."""
    found = {}
    row = re.compile(r"^\s*\*\s*-\s*``(rust/[\w/.]+)``\s*$")
    lines = source.read(LIST).splitlines()
    for number, line in enumerate(lines, 1):
        match = row.match(line)
        if match and number < len(lines):
            count = re.match(r"^\s*-\s*(\d+)\s*$", lines[number])
            if count:
                found[match.group(1)] = (int(count.group(1)), number + 1)
    return found


def main():
    report = source.Report("check-unsafe")
    counts = {}
    for path in source.files(".rs"):
        for line, what, justified in uses(path):
            if not path.startswith(HOMES):
                report.add(path, line, "unsafe outside its places")
            elif not justified:
                report.add(path, line, f"unsafe {what} without its reason")
            if what in ("block", "impl", "extern"):
                counts[path] = counts.get(path, 0) + 1
    listed = written_list()
    for path, count in sorted(counts.items()):
        if path.startswith("rust/") and listed.get(path, (None,))[0] != count:
            there = listed[path] if path in listed else ("no", 1)
            report.add(LIST, there[1], f"{path} has {count} unsafe blocks, the list says {there[0]}")
    for path, (_count, line) in listed.items():
        if path not in counts:
            report.add(LIST, line, f"{path} has no unsafe block any more")
    report.finish(f"{sum(counts.values())} blocks in {len(counts)} files")


if __name__ == "__main__":
    main()
