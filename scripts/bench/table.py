# SPDX-License-Identifier: GPL-2.0
"""The table on the terminal."""

from bench import figures, stats, work

WHO = (figures.FERROCE, figures.DIRECT, figures.RXE, figures.SIW, figures.TCP, figures.MEMCPY)
RIVALS = (figures.RXE, figures.TCP, figures.MEMCPY)
RUNS = work.ALL_RUNS


def number(value):
    """Three digits that count."""
    if value >= 10000:
        return f"{value / 1000:.0f}k" if value >= 100000 else f"{value / 1000:.1f}k"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def ratio(summary):
    """A median ratio, with the least and the most of the rounds."""
    if summary is None:
        return ""
    return f"{summary.median:.2f} ({summary.least:.2f}-{summary.most:.2f})"


def cell(series, run, figure, path, who):
    """A median and its spread, and the number of rounds if a round is missing. A failure is named; a figure that a
    program does not print is a dash."""
    if (run.name, path, who) not in series.tried:
        return ""
    found = stats.summary(series.of(run.name, figure.key, path, who))
    if found:
        rounds = work.rounds(run, series.rounds)
        holes = "" if found.count == rounds else f" ({found.count} of {rounds})"
        return f"{number(found.median)} ±{50 * found.spread:.0f}%{holes}"
    return "FAILED" if series.why_not(run.name, path, who) else "-"


def verdicts(series):
    """Each target of the contestants that ran: (its text, the limit, the ratio, whether it is reached; None if the run
    failed)."""
    for target in work.ALL_TARGETS:
        run = RUNS[target.run]
        figure = next(figure for figure in run.figures if figure.key == target.figure)
        for path, limit in target.limits.items():
            # The quick benchmark lacks some rivals.
            needed = {target.who} if target.rival in RUNS else {target.who, target.rival}
            if any((target.run, path, who) not in series.tried for who in needed):
                continue
            ours = series.of(target.run, target.figure, path, target.who)
            if target.rival in RUNS:
                theirs = series.of(target.rival, target.figure, path, target.who)
                against = RUNS[target.rival].figures[0].title
            else:
                theirs = series.of(target.run, target.figure, path, target.rival)
                against = target.rival
            found = stats.ratios(ours, theirs)
            reached = None
            if found:
                reached = found.median <= limit if figure.less else found.median >= limit
            sign = "<=" if figure.less else ">="
            ours_named = "" if target.who == figures.FERROCE else f"{target.who}, "
            yield f"{path}: {ours_named}{figure.title} against {against}", f"{sign} {limit}", found, reached


def _rows(series):
    """One row per figure and path: cells as text; a title alone begins a path."""
    for path, title in figures.PATHS.items():
        rows = [_row(series, run, figure, path) for run in RUNS.values() for figure in run.figures]
        rows = [row for row in rows if any(row[1:])]
        if rows:
            yield (title,)
            yield from rows


def _row(series, run, figure, path):
    """The figure of each contestant, and ferroce's divided by each rival's."""
    ours = series.of(run.name, figure.key, path, figures.FERROCE)
    against = [ratio(stats.ratios(ours, series.of(run.name, figure.key, path, rival))) for rival in RIVALS]
    cells = [cell(series, run, figure, path, who) for who in WHO]
    return (f"  {figure.title}, {figure.unit}", *cells, *against)


def aligned(rows):
    """Lines of equal columns; the first column is text, the others numbers. A row of one is a title."""
    whole = [row for row in rows if len(row) > 1]
    widths = [max(map(len, column)) for column in zip(*whole)]
    for row in rows:
        if len(row) == 1:
            yield row[0]
            continue
        yield "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width) for at, (text, width) in enumerate(zip(row, widths))
        ).rstrip()


def text(series):
    """The whole table, with targets and with what failed."""
    heads = ("", *WHO, *(f"/ {rival}" for rival in RIVALS))
    lines = list(aligned([heads, *_rows(series)]))
    words = {True: "reached", False: "NOT REACHED", None: "FAILED"}
    targets = [
        (what, limit, f"{found.median:.3g}" if found else "", words[reached])
        for what, limit, found, reached in verdicts(series)
    ]
    if targets:
        lines += ["", "Targets (medians of the ratios within a round):"]
        lines += [f"  {line}" for line in aligned(targets)]
    if series.failures:
        lines += ["", "Failed (the last reason of each):"]
        lines += [f"  {run}, {path}, {who}: {why}" for (run, path, who), why in sorted(series.failures.items())]
    return "\n".join(lines)
