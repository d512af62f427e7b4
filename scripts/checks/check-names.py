#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Names in the three crates: each type means one thing, constants say their unit, public items have a caller.

- A struct, enum, union or trait name is defined once in all of rust/.
- A constant whose doc comment speaks of bytes, a time or a number of things names the unit, and none is called just
  MAX, MOST or LIMIT: the name says of what.
- A `pub` item of the library crates is used by other code than tests. The compiler does not warn of these, since a
  library may have any user; this one has no other than the driver.

Exceptions stand in scripts/checks/names, each with its reason. An exception that is not needed is an error.
"""

import collections
import re

import source

EXCEPTIONS = "scripts/checks/names"

TYPE = re.compile(
    r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:struct|enum|union|trait)\s+(\w+)", re.MULTILINE
)
CONSTANT = re.compile(
    r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:const|static)\s+([A-Z][A-Z0-9_]*)\s*:\s*([^=;]+?)\s*=", re.MULTILINE
)
PUBLIC = re.compile(
    r"^[ \t]*pub\s+(?:const\s+|unsafe\s+|extern\s+\"C\"\s+)*"
    r"(?:fn|struct|enum|union|trait|const|static|type)\s+(?:mut\s+)?(\w+)",
    re.MULTILINE,
)
NUMBER = re.compile(r"^(?:[ui](?:8|16|32|64|size)|Duration)$")
# Words that say nothing about the subject.
VAGUE = {"MAX", "MOST", "MANY", "FIRST", "LEAST", "LIMIT", "STEP", "CHUNK", "SLOW", "PATIENCE", "LAST", "COUNT_MAX"}
# What the doc comment speaks of, and what the name must then end with or hold.
UNITS = {
    "nanoseconds": ("_NS",),
    "microseconds": ("_US",),
    "milliseconds": ("_MS",),
    "bytes": ("BYTES", "_LEN", "LEN", "SIZE", "OFFSET", "MTU", "MESSAGE", "INLINE", "OVERHEAD", "HEADROOM"),
}


def read_exceptions():
    """{(kind, name): line}."""
    found = {}
    for number, line in enumerate(source.read(EXCEPTIONS).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            kind, name, _reason = line.split(None, 2)
            found[kind, name] = number
    return found


class Names:
    """The code of rust/ without tests, and what was found wrong in it."""

    def __init__(self):
        self.code = source.shipped("rust")
        self.words = collections.Counter()
        for code in self.code.values():
            self.words.update(re.findall(r"\w+", code))
        self.exceptions = read_exceptions()
        self.needed = set()
        self.report = source.Report("check-names")
        self.figures = collections.Counter()

    def add(self, kind, name, path, line, message):
        """Something wrong, unless it is an exception."""
        self.figures[kind] += 1
        if (kind, name) in self.exceptions:
            self.needed.add((kind, name))
        else:
            self.report.add(path, line, message)

    def check_types(self):
        """No type name is defined twice."""
        places = collections.defaultdict(list)
        for path, code in self.code.items():
            for match in TYPE.finditer(code):
                places[match.group(1)].append((path, source.line_of(code, match.start(1))))
        for name, found in places.items():
            for path, line in found[1:]:
                self.add("twice", name, path, line, f"{name} is defined in {found[0][0]} as well")

    def check_constants(self):
        """Each number names its subject and its unit."""
        for path, code in self.code.items():
            lines = source.read(path).splitlines()
            for match in CONSTANT.finditer(code):
                name, kind = match.groups()
                line = source.line_of(code, match.start(1))
                if not NUMBER.match(kind):
                    continue
                if name in VAGUE:
                    self.add("unit", name, path, line, f"{name} does not say of what")
                    continue
                doc = doc_above(lines, line)
                for unit, endings in UNITS.items():
                    counted = rf"^\s*///\s*(?:\w+\s+){{0,2}}?{unit}\b|\bin {unit}\b"
                    named = any(ending in name for ending in endings)
                    if re.search(counted, doc, re.MULTILINE | re.IGNORECASE) and not named:
                        self.add("unit", name, path, line, f"{name} counts {unit} and does not say so")
                        break

    def check_public(self):
        """Each public item of a library crate is used."""
        for path, code in self.code.items():
            if not path.startswith(("rust/roce/", "rust/rdma/")):
                continue
            for match in PUBLIC.finditer(code):
                name = match.group(1)
                defined = len(re.findall(rf"\b(?:fn|struct|enum|union|trait|const|static|type)\s+{name}\b", code))
                # Once is its definition; a type is named by its own impls, too.
                own = defined + len(re.findall(rf"\bimpl\b[^{{;]*\b{name}\b[^{{;]*\{{", code))
                here = len(re.findall(rf"\b{name}\b", code))
                if self.words[name] == here and here <= own:
                    line = source.line_of(code, match.start(1))
                    self.add("unused", name, path, line, f"{name} is public, and only tests use it if anything does")

    def finish(self):
        """Prints everything, or the figures."""
        for key, line in self.exceptions.items():
            if key not in self.needed:
                self.report.add(EXCEPTIONS, line, f"exception for {' '.join(key)} is not needed")
        figures = self.figures
        self.report.finish(
            f"{figures['twice']} names defined twice, {figures['unit']} constants without unit, "
            f"{figures['unused']} unused public items, {len(self.exceptions)} of these excepted"
        )


def doc_above(lines, line):
    """The doc comment above a line (counted from 1)."""
    doc = []
    at = line - 2
    while at >= 0 and lines[at].strip().startswith(("///", "#[", "// CAST")):
        doc.append(lines[at])
        at -= 1
    return "\n".join(doc)


def main():
    names = Names()
    names.check_types()
    names.check_constants()
    names.check_public()
    names.finish()


if __name__ == "__main__":
    main()
