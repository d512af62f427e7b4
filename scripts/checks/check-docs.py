#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What the documentation points at exists.

Links to files of the tree lead somewhere; a link whose text is the name of a function or type finds that
name defined in the file; a ``path/in/the/tree`` in literal quotes is there; each page is reachable from
the index; `make TARGET` names a target. The same paths are checked in comments of the sources. The manual page has
the parameters, counters and limits of the code.

Sphinx checks markup, and links between pages. Pages stay short: a page has at most PAGE_WORDS words, and all together
have at most ALL_WORDS.
"""

import os
import re

import source

PAGE_WORDS = 4200
ALL_WORDS = 27000

MANUAL = "Documentation/ferroce.4"

RST_LINK = re.compile(r"`([^`<]+?)\s*<([^>`]+)>`__?")
RST_LITERAL = re.compile(r"``([^`]+)``")
MD_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
MD_LITERAL = re.compile(r"(?<!`)`([^`]+)`(?!`)")
# A path in the repository: a known top folder, no wildcards.
OURS = re.compile(r"^(?:rust|include|scripts|tests|tools|Documentation)/(?!testing/)[\w./-]+$")
NAME = re.compile(r"^(?:[\w:]+::)?(\w+)(?:\(\))?$")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
COMMENT_PATH = re.compile(
    r"(?<![\w/.])((?:rust|scripts|tests|tools|Documentation)/[\w/-]+\.(?:rs|py|sh|rst|md|mk|c|h))\b"
)


def defined(path, name):
    """Whether a file defines something of a name."""
    text = source.read(path)
    if path.endswith(".rs"):
        return re.search(
            rf"\b(?:fn|struct|enum|trait|union|const|static|type|mod|macro_rules!)\s+{name}\b", text
        )
    return re.search(rf"\b{name}\b", text)


def check_link(report, page, line, text, target):
    """One link of a page."""
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return
    file = target.partition("#")[0]
    path = os.path.normpath(os.path.join(os.path.dirname(page), file))
    if not os.path.exists(os.path.join(source.TREE, path)):
        report.add(page, line, f"link to {target}, which does not exist")
        return
    name = NAME.match(text.strip())
    if path.endswith((".rs", ".c", ".h")) and name and not text.strip().endswith((".rs", ".c", ".h")):
        if not defined(path, name.group(1)):
            report.add(page, line, f"{path} defines no {name.group(1)}")


def check_literal(report, page, line, text):
    """A path in quotes; brace and star patterns are not paths."""
    if OURS.match(text) and not os.path.exists(os.path.join(source.TREE, text.rstrip("/"))):
        report.add(page, line, f"{text} does not exist")


def check_page(report, page, targets):
    """All that one page points at."""
    markdown = page.endswith(".md")
    text = source.read(page)
    for match in (MD_LINK if markdown else RST_LINK).finditer(text):
        check_link(report, page, source.line_of(text, match.start()), match.group(1), match.group(2))
    for match in (MD_LITERAL if markdown else RST_LITERAL).finditer(text):
        line = source.line_of(text, match.start())
        check_literal(report, page, line, match.group(1))
        for make in MAKE.finditer(match.group(1)):
            if make.group(1) not in targets:
                report.add(page, line, f"the Makefile has no target {make.group(1)}")


def check_index(report, pages):
    """Every page is in the index."""
    index = "Documentation/index.rst"
    if index not in pages:
        report.add(index, 1, "is missing")
        return
    text = source.read(index)
    for page in pages:
        name = os.path.basename(page)
        if page.startswith("Documentation/") and page != index and name.partition(".")[0] not in text:
            report.add(index, 1, f"does not mention {name}")


def check_comments(report):
    """Paths that comments of the sources name."""
    for path in source.files(".rs", ".c", ".h", ".sh", ".py", ".mk"):
        for number, line in enumerate(source.read(path).splitlines(), 1):
            if not line.lstrip().startswith(("//", "#", "*", "/*")):
                continue
            for match in COMMENT_PATH.finditer(line):
                there = [match.group(1), os.path.join(os.path.dirname(path), match.group(1))]
                # Comments may name files of the kernel, which has these directories too.
                if match.group(1).startswith(("rust/kernel", "rust/bindings", "rust/helpers/")):
                    continue
                if not any(os.path.exists(os.path.join(source.TREE, place)) for place in there):
                    report.add(path, number, f"{match.group(1)} does not exist")


def manual_names(section, macro):
    """Names in the items of a section of the manual page, each with its line and the text below it."""
    found = {}
    inside = False
    lines = source.read(MANUAL).splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith(".Sh "):
            inside = line == f".Sh {section}"
        elif inside and line.startswith(f".It {macro} "):
            for name in re.findall(r"\w+", line.removeprefix(f".It {macro} ")):
                found[name] = number, lines[number]
    return found


def limits():
    """The constants that the manual page lists, computed."""
    values = {}
    for path in ("rust/roce/wr.rs", "rust/driver/limits.rs"):
        for name, text in re.findall(r"pub(?:\(crate\))? const (MAX_\w+): u\d+ = ([\w\s<()*-]+);", source.read(path)):
            values[name] = eval(text, {"__builtins__": {}}, values)
    return values


def check_manual(report):
    """The manual page has the parameters, counters and limits that the code has, and no others."""
    module = source.read("rust/driver/main.rs")
    params = module[module.index("params: {") :].partition("\n    },")[0]
    counters = re.findall(r'= c"(\w+)"', source.read("rust/driver/port/counters.rs"))
    counters += re.findall(r'= "(rx_\w+)"', source.read("rust/roce/status.rs"))
    for section, macro, names in (
        ("MODULE PARAMETERS", "Cm", re.findall(r"(\w+): u\d+ {", params)),
        ("COUNTERS", "Cm", counters),
    ):
        listed = manual_names(section, macro)
        for name in set(names) - set(listed):
            report.add(MANUAL, 1, f"{section} lacks {name}")
        for name in set(listed) - set(names):
            report.add(MANUAL, listed[name][0], f"{section} has {name}, which the code lacks")
    values = limits()
    for name, (line, text) in manual_names("LIMITS", "Dv").items():
        if not text.startswith(f"{values.get(name)},"):
            report.add(MANUAL, line, f"{name} is {values.get(name)} in the code")


def check_words(report, pages):
    """Length of the pages. Returns the number of words of all, and the longest page with its own."""
    words = {page: len(source.read(page).split()) for page in pages}
    for page, count in words.items():
        if count > PAGE_WORDS:
            report.add(page, 1, f"has {count} words, the limit is {PAGE_WORDS}")
    total = sum(words.values())
    if total > ALL_WORDS:
        report.add("Documentation", 1, f"has {total} words, the limit is {ALL_WORDS}")
    longest = max(words, key=words.get)
    return total, longest, words[longest]


def main():
    report = source.Report("check-docs")
    targets = set(re.findall(r"^([a-z][a-z-]*):", source.read("Makefile"), re.MULTILINE))
    pages = [page for page in source.files(".rst", ".md") if not page.startswith("tests/target")]
    for page in pages:
        check_page(report, page, targets)
    check_index(report, pages)
    check_comments(report)
    check_manual(report)
    total, longest, most = check_words(report, pages)
    report.finish(f"{len(pages)} pages of {total} words, {total // len(pages)} on average, {longest} has {most}")


if __name__ == "__main__":
    main()
