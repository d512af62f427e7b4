#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Form of the source files: licence line, head comment, length, plain words, no trace of one machine, small folders.

Comments name their subject: no pronoun of persons stands for code. Limits may be exceeded where scripts/checks/limits
lists the file and gives a reason. An entry that is not needed any more is an error too, so the list only shrinks.
"""

import os
import re

import source

FILE_LINES = 600
FUNCTION_LINES = 60
# Of scripts and tests.
FOLDER_ENTRIES = 24
COLUMNS = 120
CODE = (".rs", ".c", ".h", ".py", ".sh")
TEXT = CODE + (".rst", ".md", ".toml", ".mk", ".txt")
# A checkout below one of these says nothing about its machine by its first component.
COMMON_TOPS = {"home", "mnt", "opt", "root", "src", "srv", "tmp", "usr", "var"}
# Files that may have no licence line: the licence, tables and data, what tools write.
NO_LICENCE = re.compile(
    r"(^COPYING|/Cargo\.lock|\.(txt|pcap|hex|snap|expect|json|proptest-regressions)|/corpus/.*)$"
)

# Pronouns of persons, in comments: name the caller, the owner, the consumer, the peer, another CPU.
PERSONS = re.compile(r"(?<!-)\b(who|whom|whoever|whomever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE)
COMMENT = {
    (".rs", ".c", ".h"): re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL),
    (".py", ".sh", ".mk"): re.compile(r"(?<![\w$\"'{\\])#[^\n]*|\"\"\".*?\"\"\"", re.DOTALL),
}

FUNCTION = re.compile(r"\bfn\s+(\w+)")


def limits():
    """The exceptions: {(path, function or ''): (limit, line)}."""
    found = {}
    for number, line in enumerate(source.read("scripts/checks/limits").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            place, limit, _reason = line.split(None, 2)
            path, _, function = place.partition("::")
            found[path, function] = (int(limit), number)
    return found


def functions(path):
    """(name, first line, length) of each function with a body."""
    text = source.code(source.read(path))
    for match in FUNCTION.finditer(text):
        # A declaration ends before any brace; `;` inside brackets is an array's length.
        head = re.compile(r"\[[^\]]*\]").sub(lambda m: " " * len(m.group()), text[match.end() :])
        end = re.search(r"[;{]", head)
        if not end or end.group() == ";":
            continue
        first = source.line_of(text, match.start())
        last = source.line_of(text, source.block_end(text, match.end() + end.start()) - 1)
        yield match.group(1), first, last - first + 1


def check_lengths(report):
    """Length of files and functions against the limits."""
    allowed = limits()
    needed = set()

    def judge(path, name, line, length, limit):
        exception = allowed.get((path, name))
        what = f"function {name}" if name else "file"
        if length <= limit:
            return
        if exception and length <= exception[0]:
            needed.add((path, name))
            return
        most = exception[0] if exception else limit
        report.add(path, line, f"{what} has {length} lines, the limit is {most}")

    for path in source.files(*CODE):
        judge(path, "", 1, source.read(path).count("\n"), FILE_LINES)
        if path.endswith(".rs"):
            for name, line, length in functions(path):
                judge(path, name, line, length, FUNCTION_LINES)
    for (path, name), (_limit, line) in allowed.items():
        if (path, name) not in needed:
            report.add("scripts/checks/limits", line, f"exception for {path} {name} is not needed")


def check_folders(report):
    """No folder of scripts or tests is too long to look through, except for those that fuzzers fill."""
    folders = {}
    for path in source.files(under="scripts") + source.files(under="tests"):
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    for path, entries in sorted(folders.items()):
        if "/corpus/" not in path and len(entries) > FOLDER_ENTRIES:
            report.add(path, 1, f"folder has {len(entries)} entries, the limit is {FOLDER_ENTRIES}")


def check_heads(report):
    """Licence line everywhere; what a file is about at the top of each Rust file."""
    for path in source.files():
        if NO_LICENCE.search(path) or path.endswith((".ko", ".o")):
            continue
        try:
            text = source.read(path)
        except UnicodeDecodeError:
            continue
        head = text.splitlines()[:3]
        # A header of user space may be used by programs of any license.
        license = "((GPL-2.0 WITH Linux-syscall-note)" if "/uapi/" in str(path) else "GPL-2.0"
        if not any(f"SPDX-License-Identifier: {license}" in line for line in head):
            report.add(path, 1, "no SPDX-License-Identifier: GPL-2.0 in the first lines")
        if path.endswith(".rs") and "//!" not in text:
            report.add(path, 1, "no head comment (//!) that says what the file owns")


def check_machine(report):
    """No directory of one machine (the place of this checkout, home directories), no line too wide."""
    top = source.TREE.split(os.sep)[1]
    private = [r"home/\w", r"Users/\w"]
    if top not in COMMON_TOPS:
        private.append(top + r"(?=[/\s\"'`)]|$)")
    place = re.compile(r"(?<![\w.$})/*-])/(" + "|".join(private) + ")")
    for path in source.files():
        if not path.endswith(TEXT) and "." in os.path.basename(path):
            continue
        for number, line in enumerate(source.read(path).splitlines(), 1):
            if place.search(line):
                report.add(path, number, f"names a directory of one machine: {line.strip()[:60]}")
            if path.endswith(CODE) and len(line.expandtabs(8)) > COLUMNS:
                report.add(path, number, f"line is longer than {COLUMNS} columns")


def check_words(report):
    """Comments speak of code, not of persons."""
    for path in source.files(*CODE):
        for suffixes, pattern in COMMENT.items():
            if not path.endswith(suffixes):
                continue
            text = source.read(path)
            for comment in pattern.finditer(text):
                for word in PERSONS.finditer(comment.group()):
                    line = source.line_of(text, comment.start() + word.start())
                    report.add(path, line, f"comment says {word.group()}: name the subject")


def main():
    report = source.Report("check-style")
    check_lengths(report)
    check_folders(report)
    check_heads(report)
    check_machine(report)
    check_words(report)
    report.finish(f"{len(source.files(*CODE))} files")


if __name__ == "__main__":
    main()
