# SPDX-License-Identifier: GPL-2.0
"""Common to the source checks: the list of files, and Rust text without comments.

Separates code from comments and literals; does not parse.
"""

import os
import re
import sys

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What builds and version control leave in the tree.
NOT_SOURCE = {".git", "build", "target", "__pycache__"}
# What scripts/kernel/rust-tree.sh takes from the kernel.
OF_KERNEL = os.path.join(TREE, "rust", "linux")

_TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\(\w+\))?\s+)?mod\s+(\w+)\s*;")
_FOLDER_ROOTS = ("/mod.rs", "/lib.rs", "/main.rs")

_LITERAL_OR_COMMENT = re.compile(
    r"""
      (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:br|cr|r)(?P<hash>\#*)".*?"(?P=hash))
    | (?P<string>(?:\b[bc])?"(?:\\.|[^"\\])*")
    | (?P<char>(?:\bb)?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^'\\])')
    """,
    re.VERBOSE | re.DOTALL,
)


def files(*suffixes, under=""):
    """Paths of all source files with one of the suffixes, relative to the tree, sorted."""
    found = []
    for directory, names, leaves in os.walk(os.path.join(TREE, under)):
        names[:] = [name for name in names if name not in NOT_SOURCE and os.path.join(directory, name) != OF_KERNEL]
        for leaf in leaves:
            # In a second work tree, `.git` is a file.
            if leaf not in NOT_SOURCE and (not suffixes or leaf.endswith(suffixes)):
                found.append(os.path.relpath(os.path.join(directory, leaf), TREE))
    return sorted(found)


def read(path):
    """The text of a file of the tree."""
    with open(os.path.join(TREE, path), encoding="utf-8") as file:
        return file.read()


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _block_comment_end(text, start):
    """Rust's block comments nest."""
    depth, at = 0, start
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return len(text)


def code(text):
    """Rust source with comments and literals blanked; every line and column stays in place."""
    out, at = [], 0
    while True:
        match = _LITERAL_OR_COMMENT.search(text, at)
        if not match:
            out.append(text[at:])
            return "".join(out)
        out.append(text[at : match.start()])
        end = match.end()
        if match.group("block"):
            end = _block_comment_end(text, match.start())
        out.append(_blank(text[match.start() : end]))
        at = end


def block_end(text, start):
    """Index after the brace that closes the first one at or after start; text must be code()."""
    depth, at = 0, text.index("{", start)
    while at < len(text):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text)


def without_tests(text):
    """code() with the bodies of `#[cfg(test)] mod ... { }` blanked."""
    for match in reversed(list(re.finditer(r"#\[cfg\(test\)\]\s*(pub(\(\w+\))? )?mod \w+ \{", text))):
        end = block_end(text, match.start())
        text = text[: match.start()] + _blank(text[match.start() : end]) + text[end:]
    return text


def shipped(under):
    """{path: code} of the Rust files that the module is built from, sorted, without files and modules of tests."""
    blanked = {path: code(read(path)) for path in files(".rs", under=under)}
    tests = set()
    for path, text in blanked.items():
        # What a file declares lies beside it if it is the root of a folder, else below its name.
        base = os.path.dirname(path) if path.endswith(_FOLDER_ROOTS) else path[: -len(".rs")]
        tests |= {f"{base}/{name}" for name in _TEST_MODULE.findall(text)}
    return {
        path: without_tests(text)
        for path, text in blanked.items()
        if not any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests)
    }


def line_of(text, at):
    """Number of the line that holds index at."""
    return text.count("\n", 0, at) + 1


class Report:
    """Collects the faults; `finish` ends the process."""

    def __init__(self, name):
        self.name = name
        self.wrong = []

    def add(self, path, line, message):
        """One thing that is wrong at a place."""
        self.wrong.append(f"{path}:{line}: {message}")

    def finish(self, summary):
        """Prints everything, or the summary when there is nothing to complain about."""
        for message in self.wrong:
            print(message)
        if self.wrong:
            print(f"{self.name}: {len(self.wrong)} wrong")
            sys.exit(1)
        print(f"{self.name}: {summary}")
