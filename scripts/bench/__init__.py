# SPDX-License-Identifier: GPL-2.0
"""The benchmark: ferroce and its rivals on the same processor, in the same boot.

figures   the figures, the programs that measure them, and the targets
plan      the order: every contestant in turn, round after round
guest     runs the plan inside the machine, and prints the results
parse     turns the output of the programs into numbers
host      starts the machine, reads its output, measures its processor time
stats     medians, ratios within one round, spread
table, picture, report   the presentation
"""
