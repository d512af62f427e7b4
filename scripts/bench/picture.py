# SPDX-License-Identifier: GPL-2.0
"""The picture: bars of ferroce beside its rivals, as SVG.

Chooses the figures and draws them; the numbers are medians from bench.stats. A bar that was not measured is
missing, and the text mentions it.
"""

import math
from html import escape

from bench import figures, stats, table

COLOURS = {
    figures.FERROCE: "#c2410c",
    figures.DIRECT: "#f59e0b",
    figures.RXE: "#64748b",
    figures.SIW: "#94a3b8",
    figures.TCP: "#0e7490",
    figures.MEMCPY: "#a8a29e",
}
NAMES = {figures.RXE: "rdma_rxe"}
TEXT, FAINT = "#1c1917", "#78716c"

WIDTH, MARGIN, GAP = 960, 16, 32
LABEL, VALUE = 150, 76
BAR, BETWEEN, TITLE = 14, 3, 26
#: What each panel shows: its title, the path, the figures, and whether its scale is logarithmic.
PANELS = (
    ("one device: MB/s", figures.DEVICE, "mb", False),
    ("veth, two namespaces: MB/s", figures.VETH, "mb", False),
    ("one device: 8 B write, microseconds (logarithmic)", figures.DEVICE, "us", True),
    ("veth, two namespaces: 8 B write, microseconds (logarithmic)", figures.VETH, "us", True),
    ("one device: messages per second (logarithmic)", figures.DEVICE, "rate", True),
    ("veth, two namespaces: messages per second (logarithmic)", figures.VETH, "rate", True),
    ("one device, stock kernel, emulated: MB/s (logarithmic)", figures.STOCK, "mb", True),
    ("one device, stock kernel, emulated: messages per second", figures.STOCK, "rate", True),
    ("two machines: MB/s", figures.WIRE, "mb", False),
    ("two machines: 8 B write, microseconds (logarithmic)", figures.WIRE, "us", True),
    ("two machines: messages per second", figures.WIRE, "list", False),
    ("two machines: MB/s, 64 per post", figures.WIRE, "mb_list", False),
)
SHOWN = {
    "mb": (
        ("write_bw_64kib", "mb", "write 64 KiB"),
        ("send_bw_64kib", "mb", "send 64 KiB"),
        ("read_bw_64kib", "mb", "read 64 KiB"),
    ),
    "us": (
        ("write_lat", "median", "median"),
        ("write_lat", "p99", "99 %"),
        ("write_lat", "p999", "99.9 %"),
        ("write_lat", "mean", "mean"),
    ),
    "rate": (("write_bw_64b", "rate", "write 64 B"),),
    "list": (("write_bw_64b_list", "rate", "write 64 B, 64 per post"),),
    "mb_list": (("write_bw_64kib_list", "mb", "write 64 KiB"),),
}


def groups(series, path, kind):
    """[(label, [(contestant, value)])] of the measurements for a panel."""
    found = []
    for run, figure, label in SHOWN[kind]:
        bars = []
        for who in table.WHO:
            summary = stats.summary(series.of(run, figure, path, who))
            if summary:
                bars.append((who, summary.median))
        if bars:
            found.append((label, bars))
    return found


def scaled(value, least, most, logarithmic):
    """From 0 to 1: where a value lies."""
    if not logarithmic:
        return value / most
    # Beginning below the least, so that it has a bar, too.
    low, high = math.log10(least / 2), math.log10(most)
    return (math.log10(value) - low) / (high - low)


def text(x, y, content, anchor="start", colour=TEXT, weight="normal", size=12):
    """One line of text."""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}" '
        f'font-size="{size}">{escape(content)}</text>'
    )


def panel(title, found, logarithmic, left, top, width):
    """The lines of a panel, and its height."""
    values = [value for _label, bars in found for _who, value in bars]
    lines = [text(left, top + 14, title, weight="bold")]
    y = top + TITLE
    for label, bars in found:
        middle = y + len(bars) * (BAR + BETWEEN) / 2 + 3
        lines.append(text(left, middle, label))
        for who, value in bars:
            length = (width - LABEL - VALUE) * scaled(value, min(values), max(values), logarithmic)
            lines.append(
                f'<rect x="{left + LABEL}" y="{y:.0f}" width="{max(length, 1):.1f}" height="{BAR}" '
                f'fill="{COLOURS[who]}"><title>{NAMES.get(who, who)}: {value:.6g}</title></rect>'
            )
            lines.append(text(left + LABEL + length + 5, y + BAR - 3, table.number(value), size=11))
            y += BAR + BETWEEN
        y += 8
    return lines, y - top


def legend(top):
    """The legend of colours."""
    lines, x = [], MARGIN
    for who, colour in COLOURS.items():
        lines.append(f'<rect x="{x}" y="{top}" width="12" height="12" fill="{colour}"/>')
        lines.append(text(x + 17, top + 11, NAMES.get(who, who)))
        x += 120
    return lines


def svg(series, caption):
    """The whole picture. `caption` is a list of lines: when and where it was measured."""
    width = (WIDTH - 2 * MARGIN - GAP) // 2
    body, y = legend(MARGIN), MARGIN + 32
    for pair in zip(PANELS[::2], PANELS[1::2]):
        heights = [0]
        for column, (title, path, kind, logarithmic) in enumerate(pair):
            found = groups(series, path, kind)
            if found:
                lines, height = panel(title, found, logarithmic, MARGIN + column * (width + GAP), y, width)
                body += lines
                heights.append(height)
        y += max(heights) + 14
    for line in caption.splitlines():
        body.append(text(MARGIN, y, line, colour=FAINT, size=11))
        y += 15
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" viewBox="0 0 {WIDTH} {y:.0f}" '
        'font-family="sans-serif">'
    )
    licence = "<!-- SPDX-License-Identifier: GPL-2.0 -->"
    return "\n".join([head, licence, f'<rect width="{WIDTH}" height="{y:.0f}" fill="white"/>', *body, "</svg>"]) + "\n"
